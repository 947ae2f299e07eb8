/* SPDX-License-Identifier: MIT */
/* librdmad in a process that has as many descriptors as it may: a call fails, its session lives. */
#include "common/memfd.h"
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct rlimit before;
static uint64_t pool_destroyed, ring_destroyed;

/* No more than that many can be had from now on. */
static void leave_descriptors(unsigned more) {
    int fd = dup(0);
    struct rlimit few = {.rlim_cur = (rlim_t)fd + more, .rlim_max = before.rlim_max};

    cr_assert_geq(fd, 0);
    close(fd);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
}

static void free_descriptors(void) {
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* The fake daemon is of this process, so what it sends stays open. */
static bool fill_up(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    static struct fake_ring r;
    struct rdmad_pool_create_rep made_pool = {.pool = 77, .bytes = 4096};
    struct rdmad_ring_create_rep made_ring = {.ring = 78, .sq_entries = 4, .cq_entries = 8};
    size_t bytes = 4096;
    int fds[4];

    switch (h->type) {
    case RDMAD_MSG_POOL_CREATE:
        fds[0] = rdmad_memfd_create("fake", &bytes, false);
        leave_descriptors(0);
        fake_send(f, h->type | RDMAD_MSG_REPLY, h->seq, 0, &made_pool, sizeof(made_pool), fds, 1);
        return true;
    case RDMAD_MSG_RING_CREATE:
        fake_ring_make(&r, 4, fds);
        leave_descriptors(2);
        fake_send(f, h->type | RDMAD_MSG_REPLY, h->seq, 0, &made_ring, sizeof(made_ring), fds, 4);
        return true;
    case RDMAD_MSG_POOL_DESTROY:
        memcpy(&pool_destroyed, body, sizeof(pool_destroyed));
        return false;
    case RDMAD_MSG_RING_DESTROY:
        memcpy(&ring_destroyed, body, sizeof(ring_destroyed));
        return false;
    default:
        return false;
    }
}

static void set_up(void) {
    fake.outlived = true;
    rig_set_up();
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
}

TestSuite(descriptors, .init = set_up, .fini = rig_tear_down, .timeout = 20);

static void expect_sentence(const char *words) {
    cr_assert_not_null(strstr(rdmad_last_error(s), words), "%s", rdmad_last_error(s));
}

Test(descriptors, a_pool_that_has_none_fails_and_the_session_lives) {
    rdmad_pool *got;

    fake.hook = fill_up;
    cr_assert_eq(rdmad_pool_create(s, 4096, 0, &got), RDMAD_E_SYSTEM, "%s", rdmad_last_error(s));
    expect_sentence("there is no descriptor for what it made");
    free_descriptors();
    cr_assert_eq(pool_destroyed, 77, "the daemon keeps a pool that nobody has");
    fake.hook = NULL;
    cr_assert_eq(rdmad_pool_create(s, 4096, 0, &got), 0, "%s", rdmad_last_error(s));
}

Test(descriptors, a_ring_that_lacks_some_fails_and_the_session_lives) {
    rdmad_ring *got;

    fake.hook = fill_up;
    cr_assert_eq(rdmad_ring_create(s, 4, &got), RDMAD_E_SYSTEM, "%s", rdmad_last_error(s));
    expect_sentence("there is no descriptor for what it made");
    int free_one = dup(0), free_two = dup(0);
    cr_assert_geq(free_one, 0);
    cr_assert_geq(free_two, 0, "those that came were not closed");
    free_descriptors();
    cr_assert_eq(ring_destroyed, 78, "the daemon keeps a ring that nobody has");
    fake.hook = NULL;
    cr_assert_eq(rdmad_ring_create(s, 4, &got), 0, "%s", rdmad_last_error(s));
}

Test(descriptors, a_transfer_of_segments_fails_for_the_reason_that_it_tells) {
    const struct rdmad_segment segment = {.buffer = memory, .length = 64};

    fake.hook = fill_up;
    cr_expect_eq(rdmad_writev(lease, &segment, 1), RDMAD_E_SYSTEM, "%s", rdmad_last_error(s));
    expect_sentence("there is no descriptor for what it made");
    free_descriptors();
    cr_expect_eq(rdmad_last_outcome(), RDMAD_FAILED_UNTOUCHED);
}

Test(descriptors, a_rings_own_that_cannot_be_made_is_an_error_and_no_other_one) {
    leave_descriptors(0);
    cr_assert_eq(rdmad_ring_fd(ring), RDMAD_E_SYSTEM);
    expect_sentence("cannot make the descriptor of ring 2");
    free_descriptors();
    int fd = rdmad_ring_fd(ring);
    cr_assert_geq(fd, 0, "%s", rdmad_last_error(s));
    cr_assert_eq(rdmad_ring_fd(ring), fd);
}

/* ---- at the next daemon --------------------------------------------------------------------- */

static bool filled; /* atomic */

static bool fill_up_at_resume(struct fake_daemon *f, const struct rdmad_msg_header *h,
                              const void *body) {
    (void)f;
    (void)body;
    if (h->type == RDMAD_MSG_SESSION_RESUME && !__atomic_load_n(&filled, __ATOMIC_ACQUIRE)) {
        leave_descriptors(0);
        __atomic_store_n(&filled, true, __ATOMIC_RELEASE);
    }
    return false;
}

Test(descriptors, a_session_that_lacks_some_to_be_resumed_is_resumed_when_there_are) {
    fake.hook = fill_up_at_resume;
    rig_daemon_follows();
    while (!__atomic_load_n(&filled, __ATOMIC_ACQUIRE))
        usleep(1000);
    usleep(100000);
    free_descriptors();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
}

static bool fill_up_at_ring(struct fake_daemon *f, const struct rdmad_msg_header *h,
                            const void *body) {
    if (h->type == RDMAD_MSG_RING_CREATE && filled)
        free_descriptors();
    if (h->type == RDMAD_MSG_RING_CREATE && !filled) {
        filled = true;
        return fill_up(f, h, body);
    }
    return h->type == RDMAD_MSG_RING_DESTROY ? fill_up(f, h, body) : false;
}

static bool is_a_nop(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    (void)r;
    cr_expect_eq(sqe->opcode, RDMAD_OP_NOP);
    return false;
}

Test(descriptors, a_ring_that_lacks_some_to_be_made_anew_is_when_there_are) {
    const struct rdmad_cqe *cqe;
    fake.hook = fill_up_at_ring;
    rig_play(is_a_nop);
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    rdmad_prep_nop(ring, rdmad_ring_reserve(ring), 1);
    cr_assert_eq(rdmad_ring_submit(ring), 1, "%s", rdmad_last_error(s));
    cr_assert_eq(rdmad_ring_wait(ring, 20000, &cqe), 0, "%s", rdmad_last_error(s));
    cr_expect_eq(cqe->status, 0, "%s", rdmad_last_error(s));
    cr_expect_eq(ring_destroyed, 78, "the daemon keeps a ring that nobody has");
    rdmad_ring_seen(ring, cqe);
}

/* ---- a session that is to be resumed and cannot be ------------------------------------------ */

static int refuses_with;
static bool full;

static bool offers_badly(struct fake_daemon *f, const struct rdmad_msg_header *h,
                         const void *body) {
    (void)body;
    if (h->type != RDMAD_MSG_RESUME_OFFER)
        return false;
    if (full)
        leave_descriptors(0);
    if (refuses_with)
        fake_refuse(f, h, refuses_with, "out of memory for an offer");
    return refuses_with;
}

static int open_there(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;

    fake = (struct fake_daemon){.outlived = true, .hook = offers_badly};
    fake_start(&fake);
    o.runtime_dir = fake.dir;
    s = NULL;
    int rc = rdmad_open(&o, &s);
    free_descriptors();
    rdmad_close(s);
    fake_stop(&fake);
    return rc;
}

Test(not_resumable, a_session_that_cannot_be_resumed_is_not_opened_as_if_it_could, .timeout = 20) {
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    refuses_with = RDMAD_E_NOMEM;
    cr_assert_eq(open_there(), RDMAD_E_NOMEM, "the daemon had no memory");
    cr_assert_str_eq(rdmad_last_error(NULL), "out of memory for an offer");
    refuses_with = RDMAD_E_TYPE;
    cr_assert_eq(open_there(), 0, "an older daemon: %s", rdmad_last_error(NULL));
    refuses_with = 0;
    full = true;
    cr_assert_eq(open_there(), RDMAD_E_SYSTEM, "there is no descriptor for it");
    cr_assert_not_null(strstr(rdmad_last_error(NULL), "no descriptor to resume the session by"),
                       "%s", rdmad_last_error(NULL));
}
