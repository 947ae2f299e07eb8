/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the one clock: CLOCK_BOOTTIME in nanoseconds. It counts suspends and ignores the wall.
 *
 * Code that decides anything by time takes now_ns as an argument; only loops read the clock.
 */
#ifndef RDMAD_BASE_CLOCK_H
#define RDMAD_BASE_CLOCK_H

#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#define NSEC_PER_SEC UINT64_C(1000000000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_USEC UINT64_C(1000)
#define CLOCK_NEVER UINT64_MAX

static inline uint64_t clock_now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/*
 * Ticks: read in a few nanoseconds, of no unit that anybody knows. They tell a loop that has read
 * the clock a moment ago whether that was a moment ago, or the process was stopped in between. More
 * than CLOCK_STALE_TICKS later (microseconds) it looks again. Where a machine has none they are the
 * clock itself.
 */
#if defined(__x86_64__)
#define CLOCK_STALE_TICKS 50000u
static inline uint64_t clock_ticks(void) {
    return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
#define CLOCK_STALE_TICKS 1000u
static inline uint64_t clock_ticks(void) {
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}
#else
#define CLOCK_STALE_TICKS 10000u
static inline uint64_t clock_ticks(void) {
    return clock_now_ns();
}
#endif

/* now + span, saturating at CLOCK_NEVER. */
static inline uint64_t clock_after(uint64_t now_ns, uint64_t span_ns) {
    return span_ns > CLOCK_NEVER - now_ns ? CLOCK_NEVER : now_ns + span_ns;
}

/* A span as event loops want it, no shorter. */
static inline struct timeval clock_timeval(uint64_t span_ns) {
    const uint64_t us = span_ns / NSEC_PER_USEC + 1;
    return (struct timeval){.tv_sec = (time_t)(us / 1000000),
                            .tv_usec = (suseconds_t)(us % 1000000)};
}

/* What is left until deadline, 0 when past. */
static inline uint64_t clock_left(uint64_t now_ns, uint64_t deadline_ns) {
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

#endif
