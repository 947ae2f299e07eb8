/* SPDX-License-Identifier: MIT */
/*
 * tsc_khz.c - prints how many thousand ticks a second this processor's time-stamp counter makes.
 *
 * An emulated guest sees this counter as it is, and finds its rate by the emulated timer chips,
 * which on a busy machine are wrong by as much as a factor of three. Then every time-out in it is
 * wrong too. So it is told the rate.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Both counters at one moment: of several looks the quickest. */
static void look(uint64_t *ns, uint64_t *ticks) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 100; i++) {
        uint64_t before = __rdtsc(), at = now_ns(), took = __rdtsc() - before;
        if (took >= best)
            continue;
        best = took;
        *ns = at;
        *ticks = before + took / 2;
    }
}

int main(void) {
    uint64_t ns[2], ticks[2];
    const struct timespec pause = {.tv_nsec = 50000000};
    look(&ns[0], &ticks[0]);
    nanosleep(&pause, NULL);
    look(&ns[1], &ticks[1]);
    printf("%lu\n", (unsigned long)((ticks[1] - ticks[0]) * 1000000u / (ns[1] - ns[0])));
    return 0;
}
