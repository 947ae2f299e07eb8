/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the one clock: CLOCK_BOOTTIME in nanoseconds. It counts suspends and ignores the wall.
 *
 * Code that decides anything by time takes now_ns as an argument; only loops read the clock.
 */
#ifndef RDMAD_BASE_CLOCK_H
#define RDMAD_BASE_CLOCK_H

#include <stdint.h>
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

/* now + span, saturating at CLOCK_NEVER. */
static inline uint64_t clock_after(uint64_t now_ns, uint64_t span_ns) {
    return span_ns > CLOCK_NEVER - now_ns ? CLOCK_NEVER : now_ns + span_ns;
}

/* What is left until deadline, 0 when past. */
static inline uint64_t clock_left(uint64_t now_ns, uint64_t deadline_ns) {
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

#endif
