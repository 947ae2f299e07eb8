/* SPDX-License-Identifier: MIT */
/*
 * clock.h - clocks, and the timeouts of public calls.
 */
#ifndef RDMAD_LIBCLIENT_CLOCK_H
#define RDMAD_LIBCLIENT_CLOCK_H

#include <pthread.h>
#include <stdint.h>

#define RDMAD_NS_PER_MS UINT64_C(1000000)

struct rdmad_session;

uint64_t rdmad_monotonic_ns(void);
uint64_t rdmad_boottime_ns(void);
uint64_t rdmad_ns_to_ms(uint64_t ns);                      /* rounded up; UINT64_MAX stays */
uint64_t rdmad_ms_to_ns(uint64_t ms);                      /* UINT64_MAX when that is too much */
uint64_t rdmad_ns_later(uint64_t when_ns, uint64_t by_ns); /* likewise */

/* Check the timeout_ms of a call that waits (-1: for ever), and of one that asks another daemon (0:
 * the daemon's default). Return 0, or RDMAD_E_INVAL for other negative values. */
int rdmad_check_wait(const struct rdmad_session *s, int timeout_ms);
int rdmad_check_request(const struct rdmad_session *s, int timeout_ms);
/* The deadline of a timeout in ms; a negative one is for ever (UINT64_MAX). */
uint64_t rdmad_deadline_ns(int timeout_ms);
/* A condition whose waits use that clock. rdmad_cond_wait waits until deadline_ns, or for ever if
 * that is UINT64_MAX. Returns 0 or an errno. */
void rdmad_cond_init(pthread_cond_t *cond);
int rdmad_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns);
/* The time until deadline_ns as poll(2) takes it: rounded up, -1 for ever. */
int rdmad_poll_timeout(uint64_t deadline_ns);

#endif
