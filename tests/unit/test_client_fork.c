/* SPDX-License-Identifier: MIT */
/* A session belongs to the process that opened it: a child of fork cannot use it, and cannot harm
 * it. (That it ends with that process: tests/integration/test_kill_client.c.) */
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
    struct rdmad_event e;
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
    struct rdmad_event e;

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
    rdmad_prep_nop(sqe, 2);
    if (rdmad_ring_submit(ring) != RDMAD_E_DAEMON_LOST)
        return 3;
    if (rdmad_ring_wait(ring, -1, &cqe) || cqe->user_data != 2)
        return 4;
    rdmad_ring_seen(ring, cqe);
    return rdmad_ring_wait(ring, -1, &cqe) == RDMAD_E_DAEMON_LOST ? 0 : 5;
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
