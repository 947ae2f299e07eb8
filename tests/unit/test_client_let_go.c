/* SPDX-License-Identifier: MIT */
/* An op ends when the daemon that is lost has let go of its buffer, not before. */
#include "libclient/control/control.h" /* first: its parameters are named as our globals */

#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static int life[2]; /* the daemon's end, and the one that closes with its process */

static struct rdmad_sqe first;
static bool dying; /* atomic; who connects hears nothing more */

/* Makes a ring and dies, and the next one comes before it is asked to take that into use. */
static bool dies_of_ring; /* atomic */
static unsigned rings_made;

static void make_ring_and_die(struct fake_daemon *f, const struct rdmad_msg_header *h,
                              const struct rdmad_ring_create_req *req) {
    static struct fake_ring last;
    int fds[4];
    const struct rdmad_ring_create_rep rep = {
        .ring = 99, .sq_entries = req->sq_entries, .cq_entries = 2 * req->sq_entries};
    fake_ring_make(&last, req->sq_entries, fds);
    fake_send(f, RDMAD_MSG_RING_CREATE | RDMAD_MSG_REPLY, h->seq, 0, &rep, sizeof(rep), fds, 4);
    for (unsigned i = 0; i < 4; i++)
        close(fds[i]);
    fake_hang_up(f);
}

static bool answer_of_ring(struct fake_daemon *f, const struct rdmad_msg_header *h,
                           const void *body) {
    bool makes = h->type == RDMAD_MSG_RING_CREATE;
    if (makes && __atomic_exchange_n(&dies_of_ring, false, __ATOMIC_ACQ_REL)) {
        make_ring_and_die(f, h, body);
        return true;
    }
    rings_made += makes;
    if (makes || rings_made)
        return false;
    fake_refuse(f, h, RDMAD_E_HANDLE, "the session has no such ring");
    return true;
}

static bool answer(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    if (h->type == RDMAD_MSG_HELLO)
        rings_made = 0;
    if (h->type == RDMAD_MSG_RING_CREATE || h->type == RDMAD_MSG_RING_READY)
        return answer_of_ring(f, h, body);
    if (!__atomic_load_n(&dying, __ATOMIC_ACQUIRE) || h->type != RDMAD_MSG_HELLO)
        return false;
    fake_hang_up(f);
    return true;
}

static void let_go_set_up(void) {
    cr_assert_eq(pipe2(life, O_CLOEXEC), 0);
    fake.lifeline = life[0];
    fake.hook = answer;
    rig_set_up();
    rig_submit_write(1);
    first = rig_take();
}

static void resumes_set_up(void) {
    fake.outlived = true;
    let_go_set_up();
}

TestSuite(let_go, .init = let_go_set_up, .fini = rig_tear_down, .timeout = 30);
TestSuite(let_go_resumes, .init = resumes_set_up, .fini = rig_tear_down, .timeout = 30);

/* The daemon's end of the ring's wakeups. */
static void close_wakeups(void) {
    shutdown(fake.ring->wakeup, SHUT_RDWR);
}

static void expect_end(void) {
    struct rdmad_cqe cqe = rig_reap();
    cr_assert_eq(cqe.user_data, 1);
    cr_assert_eq(cqe.status, RDMAD_E_DAEMON_LOST);
    cr_assert_eq(cqe.outcome, RDMAD_UNKNOWN);
}

/* Neither looking nor waiting ends it. */
static void expect_none(void) {
    const struct rdmad_cqe *cqe;
    cr_assert_eq(rdmad_ring_peek(ring, &cqe), RDMAD_E_AGAIN);
    cr_assert_eq(rdmad_ring_wait(ring, 50, &cqe), RDMAD_E_TIMEOUT);
}

Test(let_go, a_killed_daemons_ops_end_with_its_process) {
    fake_hang_up(&fake);
    close_wakeups();
    expect_none();
    close(life[1]);
    expect_end();
}

Test(let_go, a_session_that_is_ended_has_its_ops_until_the_daemon_says_so) {
    struct rdmad_msg_error why = {.text = "enough"};
    fake_send(&fake, RDMAD_EV_SESSION_ENDED, 0, RDMAD_E_PERM, &why, sizeof(why), NULL, 0);
    fake_hang_up(&fake);
    expect_none();
    __atomic_store_n(&fake.ring->daemon->let_go, 1, __ATOMIC_RELEASE);
    close_wakeups();
    expect_end();
}

Test(let_go, what_completes_after_all_is_told) {
    struct rdmad_sqe sqe;
    rig_submit_write(2);
    sqe = rig_take();
    fake_hang_up(&fake);
    expect_none();
    rig_complete(&sqe, 0);
    cr_assert_eq(rig_reap().user_data, 2);
    expect_none();
    __atomic_store_n(&fake.ring->daemon->let_go, 1, __ATOMIC_RELEASE);
    close_wakeups();
    expect_end();
}

/* An event loop sleeps until the wakeups' end. */
Test(let_go, an_event_loop_sleeps_until_then) {
    struct pollfd p = {.fd = rdmad_ring_fd(ring), .events = POLLIN};
    const struct rdmad_cqe *cqe;
    fake_hang_up(&fake);
    expect_none();
    cr_assert_eq(rdmad_ring_arm(ring), 0);
    cr_assert_eq(poll(&p, 1, 20), 0, "it is awake for nothing");
    __atomic_store_n(&fake.ring->daemon->let_go, 1, __ATOMIC_RELEASE);
    close_wakeups();
    cr_assert_eq(poll(&p, 1, 10000), 1);
    cr_assert_eq(rdmad_ring_peek(ring, &cqe), 0);
    cr_assert_eq(cqe->status, RDMAD_E_DAEMON_LOST);
    rdmad_ring_seen(ring, cqe);
}

static void *destroy(void *over) {
    rdmad_ring_destroy(ring);
    __atomic_store_n((bool *)over, true, __ATOMIC_RELEASE);
    return NULL;
}

Test(let_go, a_ring_is_destroyed_then_and_not_before) {
    pthread_t thread;
    bool over = false;
    fake_hang_up(&fake);
    close_wakeups();
    while (!rdmad_check_gone(s))
        usleep(1000);
    cr_assert_eq(pthread_create(&thread, NULL, destroy, &over), 0);
    usleep(50000);
    cr_assert(!__atomic_load_n(&over, __ATOMIC_ACQUIRE), "its buffers are the program's too early");
    close(life[1]);
    pthread_join(thread, NULL);
}

/* A blocking call ends by the same rule, and the patience with a daemon is its bound. */
Test(let_go, a_daemon_that_says_nothing_is_waited_for_in_bounds) {
    s->call_timeout_ns = 200000000;
    fake_hang_up(&fake);
    close_wakeups();
    expect_none();
    expect_end();
}

/* Its listening socket is closed later than the session's. */
Test(let_go_resumes, a_dying_daemon_that_can_be_connected_to_is_no_other) {
    __atomic_store_n(&dying, true, __ATOMIC_RELEASE);
    fake_hang_up(&fake);
    close_wakeups();
    while (rdmad_resumes(s) < 2)
        usleep(1000);
    expect_none();
    close(life[1]);
    expect_end();
}

Test(let_go_resumes, another_daemon_tells_that_the_one_before_is_gone) {
    int other[2];
    cr_assert_eq(pipe2(other, O_CLOEXEC), 0);
    fake.lifeline = other[0];
    fake_hang_up(&fake);
    expect_end();
}

/* It has ended a session, and takes it up again before it has let go of all. */
Test(let_go_resumes, a_daemon_that_is_still_the_same_is_no_other) {
    fake_hang_up(&fake);
    while (!rdmad_is_open(s) || rdmad_resumes(s) == 0)
        usleep(1000);
    expect_none();
    __atomic_store_n(&fake.ring->daemon->let_go, 1, __ATOMIC_RELEASE);
    expect_end();
}

/* Only root could write into it. */
Test(let_go, a_lifeline_in_which_something_is_written_has_not_ended) {
    cr_assert_eq(write(life[1], "x", 1), 1);
    fake_hang_up(&fake);
    close_wakeups();
    expect_none();
    close(life[1]);
    expect_end();
}

/* What has completed and was not taken keeps no ring. */
Test(let_go, a_ring_with_all_completed_is_destroyed_at_once) {
    struct rdmad_sqe sqe;
    rig_submit_write(2);
    sqe = rig_take();
    rig_complete(&sqe, 0);
    rig_complete(&first, 0);
    fake_hang_up(&fake);
    while (!rdmad_check_gone(s))
        usleep(1000);
    rdmad_ring_destroy(ring);
}

/* ---- the ring at the next daemon ------------------------------------------------------------ */

Test(let_go_resumes, a_daemon_that_dies_of_the_ring_is_followed_by_another) {
    __atomic_store_n(&dies_of_ring, true, __ATOMIC_RELEASE);
    close(life[1]);
    fake_hang_up(&fake);
    expect_end();
    while (!rdmad_is_open(s) || rdmad_resumes(s) < 2) {
        cr_assert(!rdmad_is_lost(s), "%s", s->lost_text);
        rig_expect_nothing();
        usleep(1000);
    }
    rig_expect_nothing(); /* it is revived by a look */
    rig_submit_write(2);
    struct rdmad_sqe sqe;
    cr_assert(fake_ring_take(fake.ring, &sqe), "the last daemon's ring has nothing");
    fake_ring_complete(fake.ring,
                       &(struct rdmad_cqe){.user_data = sqe.user_data, .opcode = sqe.opcode});
    cr_assert_eq(rig_reap().user_data, 2);
}
