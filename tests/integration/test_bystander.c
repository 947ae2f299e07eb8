/* SPDX-License-Identifier: MIT */
/*
 * test_bystander.c - the measure of attacks itself: it sees who waits, and it can fail.
 */
#include "tests/support/bystander.h"
#include "tests/support/procs.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void a_bystander_whom_nobody_attacks_is_within_its_bound(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct bystander *b = bystander_start(d);
    sleep_ms(500);
    bystander_stop(b, "no attack");
    tdaemon_stop(d);
}

/* Without this a bystander that measures nothing would judge every attack harmless. */
static void a_bystander_notices_a_daemon_that_hangs(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct bystander *b = bystander_start(d);
    uint64_t since = now_ms();
    double op, call;
    do { /* on a busy machine it may not have had the processor meanwhile, and asked for nothing */
        process_stop(tdaemon_pid(d));
        sleep_ms(500);
        op = bystander_worst_op_ms(b), call = bystander_worst_call_ms(b);
        process_go_on(tdaemon_pid(d));
    } while (op <= 250 && call <= 250 && now_ms() - since < TEST_PATIENCE_MS);
    CHECK(op > 250 || call > 250, "a stop of 500 ms was seen as %.1f and %.1f ms", op, call);
    bystander_stop(b, "a daemon stopped for 500 ms");
    tdaemon_stop(d);
}

/* While its child runs, this one is in the kernel, and is not stopped there. */
static void wait_for_a_child(void *arg) {
    const int *ready = arg;
    long child = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        (void)!write(ready[1], "", 1);
        sleep_ms(300);
        _exit(0);
    }
    pause();
}

/* As tests count on where they stop a daemon and go on at once. */
static void what_is_stopped_stands_still(void) {
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0, "pipe: %s", strerror(errno));
    pid_t pid = client_fork(wait_for_a_child, ready);
    CHECK(read(ready[0], &byte, 1) == 1, "no child");
    CHECK(!process_is_stopped(pid), "it is stopped already");
    process_stop(pid);
    CHECK(process_is_stopped(pid), "it has yet to stop");
    process_go_on(pid);
    for (uint64_t since = now_ms(); process_is_stopped(pid); sleep_ms(1))
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "it stays stopped");
    client_kill(pid);
    CHECK(!process_is_stopped(pid), "it is gone");
    close(ready[0]);
    close(ready[1]);
}

/* Takes the processor from everybody else for a while. */
static void hog(void *arg) {
    uint64_t until = now_ms() + *(unsigned *)arg;
    while (now_ms() < until)
        ;
}

/* What shares one processor with somebody who is always first waits without end, and for nothing
 * of the daemon's: a machine that is busy elsewhere fails no test of an attack. */
static void a_processor_that_others_have_is_not_the_daemons_doing(void) {
    struct sched_param first = {.sched_priority = 1};
    unsigned ms = 900;
    cpu_set_t all, one;
    CPU_ZERO(&one);
    CHECK(!sched_getaffinity(0, sizeof(all), &all), "affinity: %s", strerror(errno));
    for (size_t cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    CHECK(!sched_setaffinity(0, sizeof(one), &one), "affinity: %s", strerror(errno));
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct bystander *b = bystander_start(d);
    pid_t hogging = client_fork(hog, &ms);
    if (sched_setscheduler(hogging, SCHED_FIFO, &first)) {
        client_kill(hogging);
        skip("nobody here may be first: %s", strerror(errno));
    }
    sched_setaffinity(0, sizeof(all), &all);
    client_expect_ok(hogging);
    sleep_ms(100);
    double op = bystander_worst_op_ms(b), call = bystander_worst_call_ms(b);
    CHECK(op < 500 && call < 500, "%u ms of somebody else's were seen as %.1f and %.1f ms", ms, op,
          call);
    bystander_stop(b, "a processor that somebody else has");
    tdaemon_stop(d);
}

TEST_MAIN(CASE(a_bystander_whom_nobody_attacks_is_within_its_bound),
          CASE(a_bystander_notices_a_daemon_that_hangs), CASE(what_is_stopped_stands_still),
          CASE(a_processor_that_others_have_is_not_the_daemons_doing))
