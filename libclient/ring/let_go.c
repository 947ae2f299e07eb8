/* SPDX-License-Identifier: MIT */
/*
 * let_go.c - by the ring's word, the daemon's lifeline, or the clock.
 */
#include "libclient/ring/let_go.h"
#include "common/ringword.h"
#include "libclient/base/clock.h"
#include "libclient/ring/wakeup.h"
#include <poll.h>

#define DYING_NS UINT64_C(1000000)           /* that a look may wait for a process that dies */
#define LONGEST_SLEEP_NS UINT64_C(100000000) /* the lifeline may be another daemon's meanwhile */

/* Another daemon has answered, so the ring's is gone. A connection is no sign of that: who dies is
 * connected to until its listening socket is closed. */
static bool another_has_answered(const struct rdmad_ring *r) {
    uint32_t at = __atomic_load_n(&r->session->answered_at, __ATOMIC_ACQUIRE);
    return (int32_t)(at - __atomic_load_n(&r->resumes, __ATOMIC_RELAXED)) > 0;
}

static bool ring_says_so(const struct rdmad_ring *r) {
    return ringword_peek(&r->daemon->let_go);
}

/* Its end alone counts: who may be root can write into it, and nobody else wants to. */
static struct pollfd lifeline_poll(const struct rdmad_session *s) {
    return (struct pollfd){.fd = __atomic_load_n(&s->lifeline, __ATOMIC_ACQUIRE)};
}

/* Whether nothing will tell of it any more, or nobody needs to be told. */
static bool let_go_is_known(const struct rdmad_ring *r) {
    const struct rdmad_session *s = r->session;
    return lifeline_poll(s).fd < 0 || rdmad_is_inherited(s) || another_has_answered(r) ||
           ring_says_so(r) ||
           rdmad_monotonic_ns() >= __atomic_load_n(&s->let_go_by_ns, __ATOMIC_ACQUIRE);
}

/* Whether the daemon is gone, now or in time. */
static bool lifeline_ends(const struct rdmad_session *s, uint64_t deadline_ns) {
    struct pollfd p = lifeline_poll(s);
    return poll(&p, 1, rdmad_poll_timeout(deadline_ns)) == 1;
}

bool rdmad_ring_has_let_go(struct rdmad_ring *r) {
    if (let_go_is_known(r) || lifeline_ends(r->session, 0))
        return true;
    if (rdmad_ring_drain(r))
        return false; /* it is alive, and will close its end */
    return ring_says_so(r) || lifeline_ends(r->session, rdmad_monotonic_ns() + DYING_NS);
}

/* Until when a sleep for it may last. */
static uint64_t sleep_bound_ns(const struct rdmad_session *s, uint64_t deadline_ns) {
    uint64_t bound_ns = __atomic_load_n(&s->let_go_by_ns, __ATOMIC_ACQUIRE),
             look_ns = rdmad_monotonic_ns() + LONGEST_SLEEP_NS;
    if (bound_ns > look_ns)
        bound_ns = look_ns;
    return bound_ns < deadline_ns ? bound_ns : deadline_ns;
}

void rdmad_ring_await_let_go(struct rdmad_ring *r, uint64_t deadline_ns) {
    struct pollfd p[2] = {{.fd = r->wakeup, .events = POLLIN}, lifeline_poll(r->session)};
    if (!rdmad_ring_drain(r))
        p[0].fd = -1; /* closed: it would not let us sleep */
    if (!let_go_is_known(r) &&
        ringword_arm_and_peek(&r->client->cq_wait, &r->daemon->cq_tail) == r->cq_tail)
        poll(p, 2, rdmad_poll_timeout(sleep_bound_ns(r->session, deadline_ns)));
    ringword_disarm(&r->client->cq_wait);
    if (r->wakeup_state == RDMAD_WAKEUP_ARMED)
        r->wakeup_state = RDMAD_WAKEUP_STALE; /* an event loop must arm again */
}
