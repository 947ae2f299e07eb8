/* SPDX-License-Identifier: MIT */
/*
 * clock.c - waiting is counted on CLOCK_MONOTONIC, leases on CLOCK_BOOTTIME, which runs on while
 * the machine sleeps.
 */
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include <limits.h>
#include <rdmad/rdmad.h>
#include <time.h>

static uint64_t now_ns(clockid_t clock) {
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t rdmad_monotonic_ns(void) {
    return now_ns(CLOCK_MONOTONIC);
}

uint64_t rdmad_boottime_ns(void) {
    return now_ns(CLOCK_BOOTTIME);
}

uint64_t rdmad_ns_to_ms(uint64_t ns) {
    return ns == UINT64_MAX ? ns : ns / 1000000u + (ns % 1000000u != 0);
}

uint64_t rdmad_ms_to_ns(uint64_t ms) {
    uint64_t ns;
    return __builtin_mul_overflow(ms, RDMAD_NS_PER_MS, &ns) ? UINT64_MAX : ns;
}

uint64_t rdmad_ns_later(uint64_t when_ns, uint64_t by_ns) {
    uint64_t sum;
    return __builtin_add_overflow(when_ns, by_ns, &sum) ? UINT64_MAX : sum;
}

int rdmad_check_wait(const struct rdmad_session *s, int timeout_ms) {
    if (timeout_ms >= -1)
        return 0;
    return rdmad_fail(s, RDMAD_E_INVAL,
                      "timeout_ms is %d: it is -1 to wait for ever, 0 not to wait, or milliseconds",
                      timeout_ms);
}

int rdmad_check_request(const struct rdmad_session *s, int timeout_ms) {
    if (timeout_ms >= 0)
        return 0;
    return rdmad_fail(s, RDMAD_E_INVAL,
                      "timeout_ms is %d: it is 0 for the daemon's default, or milliseconds; no "
                      "request waits for ever",
                      timeout_ms);
}

uint64_t rdmad_deadline_ns(int timeout_ms) {
    if (timeout_ms < 0)
        return UINT64_MAX;
    return rdmad_monotonic_ns() + (uint64_t)timeout_ms * 1000000u;
}

int rdmad_poll_timeout(uint64_t deadline_ns) {
    uint64_t now, ms;
    if (deadline_ns == UINT64_MAX)
        return -1;
    now = rdmad_monotonic_ns();
    if (now >= deadline_ns)
        return 0;
    ms = (deadline_ns - now + 999999u) / 1000000u;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

void rdmad_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

int rdmad_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns) {
    struct timespec ts = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                          .tv_nsec = (long)(deadline_ns % 1000000000u)};
    return deadline_ns == UINT64_MAX ? pthread_cond_wait(cond, lock)
                                     : pthread_cond_timedwait(cond, lock, &ts);
}
