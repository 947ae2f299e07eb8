/* SPDX-License-Identifier: MIT */
/*
 * computes.c - a user who only computes, and knows nothing of rdmad. Beside it is measured what a
 * neighbour's programs take of the machine's processors alone.
 *
 * bench_computes SHARE... says "ready" and is one process for each SHARE until it is killed. A
 * SHARE is how much of a processor's time the process may have, 0.25 a quarter; with "idle:" before
 * it, at the lowest priority. A process that has had its share naps as crowd.c does; one that was
 * kept from it makes up for what it lost in the last tenth of a second, and for no more.
 */
#include "bench/samples.h"
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define IDLE "idle:"
#define NAP_NS 1000000
#define TURNS 20000 /* of computing, some 10 us, between two looks at the clocks */
#define LAG_US 100e3

static double used_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void compute(void) {
    static volatile unsigned long turns;
    for (int i = 0; i < TURNS; i++)
        turns++;
}

static void compute_on(const char *share) {
    int idle = strncmp(share, IDLE, strlen(IDLE)) == 0;
    if (idle)
        sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    double part = strtod(share + (idle ? strlen(IDLE) : 0), NULL);
    double now = samples_now_us(), used = used_us(), may = 0;
    for (;;) {
        double then = now, had = used;
        now = samples_now_us();
        used = used_us();
        may += (now - then) * part - (used - had);
        if (may > LAG_US * part)
            may = LAG_US * part;
        if (may > 0)
            compute();
        else
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s [idle:]SHARE...\n", argv[0]);
        return 2;
    }
    pid_t parent = getpid();
    for (int i = 2; i < argc; i++) {
        if (fork() != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            return 1;
        compute_on(argv[i]);
    }
    printf("ready\n");
    fflush(stdout);
    compute_on(argv[1]);
}
