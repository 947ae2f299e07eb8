/* SPDX-License-Identifier: MIT */
/*
 * probe_cost.c - how many instructions a worker's turn takes, counted one by one.
 *
 * Built twice: as probe_cost with the probes, as probe_cost_off with those files compiled without
 * them. tests/probes.py compares. Each case is a turn with ops of one kind and a turn without, in a
 * copy of this process that is single-stepped; time is scripted, so the numbers are the same on
 * every machine and at every run.
 */
#define BYTES 4096u
#include "tests/unit/op_routes.h"
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPS 16u

/* Instructions from one stop of the child to the next; 0: this kernel steps nobody. */
static uint64_t steps_to_stop(pid_t pid) {
    int status;
    for (uint64_t steps = 0;; steps++) {
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) || waitpid(pid, &status, 0) != pid)
            return 0;
        cr_assert(WIFSTOPPED(status), "the turn ended the process");
        if (WSTOPSIG(status) == SIGSTOP)
            return steps;
    }
}

static uint64_t count_turn(struct worker *w) {
    fflush(NULL);
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(1);
        raise(SIGSTOP);
        worker_turn(w, sim_now());
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    uint64_t steps = WIFSTOPPED(status) ? steps_to_stop(pid) : 0;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return steps;
}

/* Prints what one of them adds to the turn in which it is taken. */
static void count(const char *name, struct rdmad_sqe sqe) {
    routes_up(NULL, 1, CLOCK_NEVER);
    struct worker *w = &rig.plane[HERE]->worker[0];
    rig_do(&c, &sqe);
    rig_settle(&rig);
    uint64_t none = count_turn(w);
    for (unsigned i = 0; i < OPS; i++)
        rig_put(&c, &sqe);
    uint64_t some = count_turn(w);
    if (!none || !some)
        cr_skip_test("this kernel lets nobody step through a process");
    printf("%s %.2f\n", name, (double)(some - none) / OPS);
    for (unsigned i = 0; i < OPS; i++) /* those of the copy were the copy's own */
        rig_wait(&c);
    routes_down();
}

static struct rdmad_sqe sqe_of(uint8_t opcode, uint64_t lease, uint64_t length) {
    return (struct rdmad_sqe){
        .opcode = opcode, .pool = RIG_HANDLE(0), .lease = lease, .length = length};
}

Test(probe_cost, all) {
    count("local_write_8", sqe_of(RDMAD_OP_WRITE, LOCAL, 8));
    count("local_read_8", sqe_of(RDMAD_OP_READ, LOCAL, 8));
    count("link_write_8", sqe_of(RDMAD_OP_WRITE, REMOTE, 8));
    count("refused", sqe_of(RDMAD_OP_WRITE, LOCAL, 2 * BYTES));
    count("nop", (struct rdmad_sqe){.opcode = RDMAD_OP_NOP});
}
