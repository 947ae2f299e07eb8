/* SPDX-License-Identifier: MIT */
/*
 * bench_stop.c - see bench_stop.h.
 *
 * The library waits for its daemon, and an op of a peer that is away for its deadline. So the
 * signals are another thread's: it tells the loops of bench, waits for their end, and ends the
 * program if that does not come.
 */
#include "rdmactl/bench_stop.h"
#include "rdmactl/cli.h"
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define END_MS 700

/* Who has the last word: nobody yet, the thread, or the caller, with that code. */
enum { WORD_FREE = -2, WORD_OURS = -1 };
static int word = WORD_FREE; /* atomic, as the next */
static bool asked;
static int from;
static const char *late_text;

static bool take_word(int as, int *was) {
    *was = WORD_FREE;
    return __atomic_compare_exchange_n(&word, was, as, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void *stop_watch(void *arg) {
    struct pollfd wake = {.fd = from, .events = POLLIN};
    int code;
    (void)arg;
    while (poll(&wake, 1, -1) < 0 || !signals_take(from))
        ;
    __atomic_store_n(&asked, true, __ATOMIC_RELEASE);
    nanosleep(&(struct timespec){.tv_nsec = END_MS * 1000000L}, NULL);
    if (take_word(WORD_OURS, &code))
        code = late_text ? cli_fail("RDMAD_E_CANCELED", "%s", late_text) : EXIT_GOOD;
    fflush(stdout);
    _exit(code);
}

void bench_stop_watch(int signals, const char *late) {
    pthread_t thread;
    from = signals;
    late_text = late;
    if (!pthread_create(&thread, NULL, stop_watch, NULL))
        pthread_detach(thread);
}

bool bench_asked(void) {
    return __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
}

void bench_stop_said(int code) {
    int was;
    if (!take_word(code, &was) && was == WORD_OURS)
        for (;;)
            pause(); /* the other thread ends us */
}
