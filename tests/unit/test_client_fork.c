/* SPDX-License-Identifier: MIT */
/* A session belongs to the process that opened it: a child of fork cannot use it, and cannot harm
 * it. (That it ends with that process: tests/integration/test_kill_client.c.) */
#include "libclient/memory/pool.h" /* first: its parameters are named as our globals */
#include "tests/support/procs.h"
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(fork, .init = rig_set_up, .fini = rig_tear_down, .timeout = 20);

/* Runs it in a child; it returns what the child exits with, 0 when all was as it should be. */
static void in_child(int (*fn)(void)) {
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        alarm(10); /* a lock that nobody is left to give back */
        _exit(fn());
    }
    cr_assert_gt(pid, 0);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status), "the child died of signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), 0, "the child gave up at step %d", WEXITSTATUS(status));
}

/* As a child of vfork has all descriptors until it calls exec. */
Test(fork, a_ring_that_is_destroyed_is_not_told_of_while_a_child_has_its_descriptors) {
    rdmad_ring *another;
    int fd = rdmad_session_fd(s);
    unsigned before = epoll_watches(fd);

    cr_assert_eq(rdmad_ring_create(s, 4, &another), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(epoll_watches(fd), before + 1);
    pid_t child = holder_fork();
    rdmad_ring_destroy(another);
    cr_expect_eq(epoll_watches(fd), before);
    holder_end(child);
}

static int just_close(void) {
    rdmad_close(s);
    return 0;
}

Test(fork, a_child_that_closes_the_session_does_not_end_its_parents) {
    rdmad_pool *other;

    in_child(just_close);
    cr_assert_eq(rdmad_pool_create(s, 4096, 0, &other), 0, "%s", rdmad_last_error(s));
}

static int use_everything(void) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_pool *other;

    if (rdmad_pool_create(s, 4096, 0, &other) != RDMAD_E_DAEMON_LOST)
        return 1;
    if (!strstr(rdmad_last_error(s), "a child opens its own"))
        return 2;
    if (rdmad_write(lease, 0, memory, 8) != RDMAD_E_DAEMON_LOST)
        return 3;
    if (rdmad_next_event(s, -1, &e) || e.type != RDMAD_EVENT_SESSION_LOST)
        return 4;
    if (rdmad_next_event(s, -1, &e) != RDMAD_E_DAEMON_LOST)
        return 5;
    rdmad_lease_free(lease);
    rdmad_ring_destroy(ring);
    rdmad_close(s);
    return 0;
}

static void *wait_for_an_event(void *unused) {
    struct rdmad_event e = RDMAD_EVENT_INIT;

    (void)unused;
    rdmad_next_event(s, 2000, &e);
    return NULL;
}

Test(fork, what_a_child_asks_of_the_session_fails_with_a_sentence) {
    pthread_t t; /* who holds or waits for what in the parent does not matter */

    pthread_create(&t, NULL, wait_for_an_event, NULL);
    usleep(20000);
    in_child(use_everything);
    pthread_join(t, NULL);
}

static int reap_and_submit(void) {
    const struct rdmad_cqe *cqe;
    struct rdmad_sqe *sqe;

    if (rdmad_ring_wait(ring, -1, &cqe) || cqe->status != RDMAD_E_DAEMON_LOST ||
        cqe->user_data != 1)
        return 1;
    rdmad_ring_seen(ring, cqe);
    sqe = rdmad_ring_reserve(ring);
    if (!sqe)
        return 2;
    rdmad_prep_nop(ring, sqe, 2);
    if (rdmad_ring_submit(ring) != RDMAD_E_DAEMON_LOST)
        return 3;
    if (rdmad_ring_wait(ring, -1, &cqe) || cqe->user_data != 2)
        return 4;
    rdmad_ring_seen(ring, cqe);
    if (rdmad_ring_wait(ring, -1, &cqe) != RDMAD_E_DAEMON_LOST)
        return 5;
    if (rdmad_ring_fd(ring) != RDMAD_E_DAEMON_LOST)
        return 6;
    return strstr(rdmad_last_error(s), "a child opens its own") ? 0 : 7;
}

Test(fork, a_child_neither_takes_its_parents_completions_nor_submits_in_its_place) {
    struct rdmad_sqe sqe;

    rig_submit_write(1);
    sqe = rig_take();
    rig_complete(&sqe, 0);
    in_child(reap_and_submit);
    cr_assert_eq(rig_reap().user_data, 1);
    rig_submit_write(3);
    sqe = rig_take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_WRITE, "the child's nop came first");
    rig_complete(&sqe, 0);
    cr_assert_eq(rig_reap().user_data, 3);
}

static char *parents;

static int allocate_and_free(void) {
    if (rdmad_alloc(pool, 64) || !strstr(rdmad_last_error(s), "a child opens its own"))
        return 1;
    rdmad_free(pool, parents);
    rdmad_free(pool, parents); /* nothing is freed: also not twice */
    if (rdmad_buf_lock_write(pool, parents, 64, -1) != RDMAD_E_DAEMON_LOST)
        return 2;
    if (rdmad_pool_destroy(pool) != RDMAD_E_DAEMON_LOST || memcmp(parents, "parent's", 8) != 0)
        return 3;
    return 0;
}

Test(fork, a_child_is_given_none_of_its_parents_memory_and_frees_none) {
    parents = rdmad_alloc(pool, 64);
    memcpy(parents, "parent's", sizeof("parent's"));
    in_child(allocate_and_free);
    cr_assert_eq(memcmp(parents, "parent's", 8), 0);
    cr_assert_neq(rdmad_alloc(pool, 64), parents);
    rdmad_free(pool, parents);
}

static int unlock_and_end(void) {
    rdmad_buf_unlock_write(pool, memory + 4096, 64);
    rdmad_ring_destroy(ring);
    return 0;
}

Test(fork, what_a_child_gives_up_waits_for_no_lock_of_its_parents_threads) {
    struct rdmad_holders *h = &pool->holders;

    cr_assert_eq(rdmad_buf_lock_write(pool, memory + 4096, 64, 0), 0);
    rig_submit_write(1);
    h->attention++; /* some thread waits for a lock, and */
    pthread_mutex_lock(&h->lock);
    in_child(unlock_and_end);
    pthread_mutex_unlock(&h->lock);
    h->attention--;
    rdmad_buf_unlock_write(pool, memory + 4096, 64);
}

static int open_its_own(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *own;

    o.runtime_dir = "/nonexistent";
    if (rdmad_open(&o, &own) != RDMAD_E_NO_DAEMON)
        return 1;
    rdmad_close(s);
    return 0;
}

Test(fork, a_child_may_open_a_session_of_its_own) {
    in_child(open_its_own);
    rig_submit_write(1);
    struct rdmad_sqe sqe = rig_take();
    rig_complete(&sqe, 0);
    cr_assert_eq(rig_reap().user_data, 1);
}
