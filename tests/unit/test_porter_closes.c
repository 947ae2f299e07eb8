/* SPDX-License-Identifier: MIT */
/*
 * What the porter closes, and lets go of, for the daemon may take as long as a client likes: then
 * only what is that user's waits for it, in one process, and a stop does not.
 */
#include "common/fdmsg.h"
#include "daemon/ipc/client_socket.h"
#include "tests/support/held_epoll.h"
#include "tests/unit/porter_rig.h"
#include <event2/event.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOLDER 1000u
#define NEIGHBOUR 1001u
#define SOCKETS 300u

static struct event_base *base;
static struct porter *porter;
static struct held_epoll held;

struct visit {
    struct porter_visit visit;
    bool ended;
};

static void on_ended(struct porter_visit *v) {
    ((struct visit *)v)->ended = true; /* its first member */
}

static void set_up(void) {
    base = event_base_new();
    porter = porter_rig(base, NULL);
}

static void tear_down(void) {
    if (porter)
        porter_free(porter);
    event_base_free(base);
}

TestSuite(porter_closes, .init = set_up, .fini = tear_down, .timeout = 90);

static void need_held_epoll(void) {
    if (!held_epoll_make(&held))
        cr_skip_test("this kernel has no userfaultfd, or none for us");
}

static void turn(unsigned ms) {
    for (unsigned i = 0; i < ms; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
}

static void close_by_porter(struct visit *v, int fd, uid_t uid) {
    *v = (struct visit){.ended = false};
    porter_visit_init(porter, &v->visit, fd, (struct user_id){.uid = uid});
    v->visit.ended = on_ended;
    porter_close(porter, &v->visit);
}

static void expect_ended(const struct visit *v) {
    for (int i = 0; i < 10000 && !v->ended; i++)
        turn(1);
    cr_assert(v->ended);
}

/* Nobody else has it, and its close waits once the epoll is held. */
static int watched(void) {
    int fd = eventfd(0, EFD_CLOEXEC);
    cr_assert(held_epoll_watch(&held, fd));
    return fd;
}

/* The other end of a pipe tells when this one is closed. */
static int piped(int *reading) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    *reading = ends[0];
    return ends[1];
}

static bool hung_up(int reading) {
    struct pollfd p = {.fd = reading};
    return poll(&p, 1, 0) == 1;
}

Test(porter_closes, a_close_is_told_when_it_is_done) {
    struct visit v;
    int reading;
    close_by_porter(&v, piped(&reading), HOLDER);
    cr_expect_not(v.ended);
    expect_ended(&v);
    cr_expect(hung_up(reading));
}

Test(porter_closes, who_holds_up_a_close_keeps_his_own_waiting_and_nobody_elses) {
    struct visit last, behind, other;
    int reading;
    need_held_epoll();
    int fd = watched();
    held_epoll_hold(&held);
    close_by_porter(&last, fd, HOLDER);
    close_by_porter(&behind, eventfd(0, EFD_CLOEXEC), HOLDER);
    close_by_porter(&other, piped(&reading), NEIGHBOUR);
    expect_ended(&other);
    cr_expect(hung_up(reading));
    turn(200);
    cr_expect(!last.ended && !behind.ended, "told before it was done");
    held_epoll_let_go(&held);
    expect_ended(&last);
    expect_ended(&behind);
    cr_expect_eq(porter_restarts(porter), 0);
}

Test(porter_closes, a_stop_waits_for_no_close) {
    struct visit before, after;
    need_held_epoll();
    int first = watched(), second = watched();
    held_epoll_hold(&held);
    close_by_porter(&before, first, HOLDER);
    turn(100);
    cr_expect_not(before.ended);
    porter_forget_closes(porter);
    cr_expect(before.ended);
    close_by_porter(&after, second, HOLDER);
    expect_ended(&after);
    porter_free(porter);
    porter = NULL;
    held_epoll_let_go(&held);
}

Test(porter_closes, what_a_killed_porter_had_to_close_is_not_waited_for) {
    struct visit v;
    need_held_epoll();
    int fd = watched();
    held_epoll_hold(&held);
    close_by_porter(&v, fd, HOLDER);
    turn(100);
    kill(porter_pid(porter), SIGKILL);
    expect_ended(&v);
    held_epoll_let_go(&held);
}

/* ---- last references ------------------------------------------------------------------------ */

/* Shut down and left to the porter with fd queued in it. */
static void part_with(int fd, uid_t uid) {
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    cr_assert_eq(rdmad_fdmsg_send(pair[1], "x", 1, &fd, 1), 0);
    close(pair[1]);
    close(fd);
    client_socket_close(client_socket_new(porter, pair[0], (struct user_id){.uid = uid}));
}

static unsigned porter_children(void) {
    char path[64];
    unsigned n = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)porter_pid(porter),
             (int)porter_pid(porter));
    FILE *f = fopen(path, "re");
    for (int pid; f && fscanf(f, "%d", &pid) == 1;)
        n++;
    if (f)
        fclose(f);
    return n;
}

static void expect_dropped(int reading, const char *why) {
    for (int i = 0; i < 3000 && !hung_up(reading); i++)
        turn(1);
    cr_expect(hung_up(reading), "%s", why);
}

Test(porter_closes, who_holds_up_last_references_has_one_process_and_the_others_are_dropped) {
    int fds[SOCKETS], behind, neighbours;
    need_held_epoll();
    for (unsigned i = 0; i < SOCKETS; i++)
        fds[i] = watched();
    held_epoll_hold(&held);
    for (unsigned i = 0; i < SOCKETS; i++) {
        part_with(fds[i], HOLDER);
        turn(1); /* so that the porter gets them one by one */
    }
    part_with(piped(&behind), HOLDER);
    turn(50);
    cr_expect_eq(porter_children(), 1, "%u processes wait", porter_children());
    part_with(piped(&neighbours), NEIGHBOUR);
    expect_dropped(neighbours, "a neighbour waits");
    cr_expect_eq(porter_restarts(porter), 0);
    cr_expect_not(hung_up(behind));
    held_epoll_let_go(&held);
    expect_dropped(behind, "it is not let go of when nobody holds it up any more");
}

/* ---- descriptors that come ------------------------------------------------------------------ */

static void on_taken(struct porter_visit *v, const void *data, size_t size, int fd, unsigned nfds) {
    (void)v, (void)data, (void)size, (void)nfds;
    cr_expect_eq(fd, -1);
}

Test(porter_closes, whose_descriptors_cannot_be_received_has_others_closed) {
    struct visit take = {.ended = false}, v;
    int pair[2], fd;
    need_held_epoll();
    fd = watched();
    held_epoll_hold(&held);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    cr_assert_eq(rdmad_fdmsg_send(pair[1], "x", 1, &fd, 1), 0);
    close(fd);
    porter_visit_init(porter, &take.visit, pair[0], (struct user_id){.uid = HOLDER});
    take.visit.taken = on_taken;
    porter_take(porter, &take.visit);
    turn(100);
    close_by_porter(&v, eventfd(0, EFD_CLOEXEC), HOLDER);
    expect_ended(&v);
    held_epoll_let_go(&held);
    close(pair[0]);
    close(pair[1]);
}
