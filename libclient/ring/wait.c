/* SPDX-License-Identifier: MIT */
/*
 * wait.c - waiting for a completion: spin for a while, then sleep.
 *
 * Most ops are over in microseconds, and a sleep costs tens of them, so spinning comes first. How
 * long is learned: a spin that was in vain halves the next one, down to a floor; one that hit
 * brings the full length back. One wait in sixteen spins in full whatever the past says, or a ring
 * that has once gone to sleeping would never find out that its ops have become fast. While spinning
 * the thread offers its CPU to others every now and then: on a small machine the one to run may be
 * the daemon's worker itself. Where programs take it that give nothing back, only threads with a
 * realtime policy spin (common/crowd.h): the kernel gives their CPUs to none of those programs. It
 * gives them to no worker either, which then may run only when the thread sleeps. So there one wait
 * in 128 spins in full, which is too few to be seen in a p99.
 *
 * The order before sleeping is arm, look again, sleep, drain, disarm; with the daemon's publish and
 * ask on the other side one of the two always sees the other.
 */
#include "libclient/ring/wait.h"
#include "common/crowd.h"
#include "common/ringword.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/control/control.h"
#include "libclient/control/presence.h"
#include "libclient/ring/let_go.h"
#include "libclient/ring/reap.h"
#include "libclient/ring/revive.h"
#include "libclient/ring/wakeup.h"
#include <poll.h>
#include <sched.h>

#define SPIN_FLOOR_NS 2000u
#define YIELD_EVERY_NS 1000u /* as daemon/op/tool/spin.c, and for the same reason */
#define PAUSES_PER_CLOCK 16u
#define FULL_SPIN_EVERY 16u
#define FULL_SPIN_CROWDED 128u

static bool wait_is_over(const struct rdmad_ring *r) {
    return ringword_peek(&r->daemon->cq_tail) != r->cq_tail;
}

/* Between looks at the clock. */
static bool wait_look(const struct rdmad_ring *r) {
    for (unsigned i = 0; i < PAUSES_PER_CLOCK; i++) {
        if (wait_is_over(r))
            return true;
        ringword_pause();
    }
    return false;
}

/* No program that only computes has the CPU while the calling thread wants it (sched(7)). */
static bool thread_is_realtime(void) {
    int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK; /* of an error: neither of the two */
    return policy == SCHED_FIFO || policy == SCHED_RR;
}

/* Told by the worker, which asks the kernel; or found out by a gap of our own. */
static bool wait_is_crowded(struct rdmad_ring *r) {
    if (ringword_peek(&r->daemon->crowded))
        return true;
    return r->crowd.crowded && rdmad_crowd_lasts(&r->crowd, rdmad_monotonic_ns(), NULL);
}

/* How long to spin for; 0: sleep. */
static uint64_t wait_spin_ns(struct rdmad_ring *r) {
    if (r->spin_max_ns == 0)
        return 0;
    bool crowded = wait_is_crowded(r);
    if (crowded && !thread_is_realtime())
        return 0;
    bool full = r->waits % (crowded ? FULL_SPIN_CROWDED : FULL_SPIN_EVERY) == 0;
    return full ? r->spin_max_ns : r->spin_ns;
}

/* The CPU is offered to others now and then; where they kept it too long the spin is over. */
static bool wait_spin(struct rdmad_ring *r, uint64_t length_ns, uint64_t deadline_ns) {
    uint64_t start, now, yield_at;
    if (wait_look(r)) {
        rdmad_crowd_hit(&r->crowd);
        return true;
    }
    start = now = rdmad_monotonic_ns();
    if (deadline_ns < now || deadline_ns - now < length_ns)
        length_ns = deadline_ns < now ? 0 : deadline_ns - now;
    yield_at = now + YIELD_EVERY_NS;
    while (now - start < length_ns) {
        uint64_t looked = now;
        if (wait_look(r)) {
            rdmad_crowd_hit(&r->crowd);
            return true;
        }
        now = rdmad_monotonic_ns();
        if (now >= yield_at) {
            sched_yield();
            now = rdmad_monotonic_ns();
            yield_at = now + YIELD_EVERY_NS;
        }
        if (rdmad_crowd_seen(&r->crowd, looked, now))
            break;
    }
    return wait_is_over(r);
}

/* Returns when something may have come, the daemon is lost or was asked whether it is there, or the
 * deadline has passed. */
static void wait_sleep(struct rdmad_ring *r, uint64_t deadline_ns) {
    struct pollfd p[2] = {{.fd = r->wakeup, .events = POLLIN},
                          {.fd = r->session->sock, .events = POLLRDHUP}};
    uint64_t ask_ns = rdmad_presence_due_ns(r->session);
    int timeout_ms = rdmad_poll_timeout(ask_ns < deadline_ns ? ask_ns : deadline_ns);
    if (timeout_ms == 0) {
        rdmad_presence_ask(r->session);
        return;
    }
    if (ringword_arm_and_peek(&r->client->cq_wait, &r->daemon->cq_tail) == r->cq_tail)
        poll(p, 2, timeout_ms);
    if (p[0].revents && !rdmad_ring_drain(r))
        rdmad_ring_closed(r);
    ringword_disarm(&r->client->cq_wait);
    if (r->wakeup_state == RDMAD_WAKEUP_ARMED)
        r->wakeup_state = RDMAD_WAKEUP_STALE; /* an event loop must arm again */
    if (p[1].revents)
        rdmad_check_gone(r->session);
}

bool rdmad_ring_await(struct rdmad_ring *r, uint64_t deadline_ns) {
    r->waits++;
    if (rdmad_ring_awaits_revival(r)) {
        rdmad_ring_await_revival(r, deadline_ns);
        return false;
    }
    if (wait_is_over(r))
        return true;
    uint64_t spin_ns = wait_spin_ns(r);
    if (spin_ns) {
        if (wait_spin(r, spin_ns, deadline_ns)) {
            r->spin_ns = r->spin_max_ns;
            return true;
        }
        if (r->spin_ns / 2 >= SPIN_FLOOR_NS)
            r->spin_ns /= 2;
    }
    while (!wait_is_over(r)) {
        if (rdmad_poll_timeout(deadline_ns) == 0)
            return false;
        if (!rdmad_is_open(r->session) || rdmad_ring_is_stale(r)) {
            if (r->state != RDMAD_RING_LIVE || rdmad_ring_has_let_go(r))
                return false;
            rdmad_ring_await_let_go(r, deadline_ns);
            continue;
        }
        rdmad_ring_show_alive(r);
        wait_sleep(r, deadline_ns);
    }
    return true;
}

void rdmad_ring_await_open(struct rdmad_ring *r, uint64_t deadline_ns) {
    struct rdmad_session *s = r->session;
    pthread_mutex_lock(&s->lock);
    rdmad_control_wait_open(s, deadline_ns);
    pthread_mutex_unlock(&s->lock);
}

int rdmad_ring_idle(struct rdmad_ring *r) {
    if (rdmad_is_lost(r->session))
        return rdmad_fail_lost(r->session);
    if (r->batch != RDMAD_NO_SLOT)
        return rdmad_fail(r->session, RDMAD_E_INVAL,
                          "nothing is in flight on ring %llu that could complete: its batch of %u "
                          "entries begins when one without RDMAD_SQE_MORE is submitted",
                          (unsigned long long)r->handle, r->batch_members);
    return rdmad_fail(r->session, RDMAD_E_INVAL,
                      "nothing is in flight on ring %llu that could complete here (%u entries are "
                      "reserved and not submitted, %u ops have a callback)",
                      (unsigned long long)r->handle, r->sq_reserved - r->sq_tail, r->calls);
}

int rdmad_ring_wait(rdmad_ring *r, int timeout_ms, const struct rdmad_cqe **cqe) {
    RDMAD_LIVE(r, RING);
    int rc = rdmad_ring_peek(r, cqe);
    if (timeout_ms < -1)
        return rdmad_check_wait(r->session, timeout_ms);
    if (rc != RDMAD_E_AGAIN || timeout_ms == 0)
        return rc == RDMAD_E_AGAIN ? RDMAD_E_TIMEOUT : rc;
    uint64_t deadline = rdmad_deadline_ns(timeout_ms);
    while (r->visible && !(rdmad_is_open(r->session) && rdmad_ring_is_blocked(r))) {
        rdmad_ring_await(r, deadline);
        rc = rdmad_ring_peek(r, cqe);
        if (rc != RDMAD_E_AGAIN)
            return rc;
        if (rdmad_poll_timeout(deadline) == 0)
            return RDMAD_E_TIMEOUT;
        if (!rdmad_is_open(r->session))
            rdmad_ring_await_open(r, deadline);
    }
    return rdmad_ring_idle(r); /* from the start, or the last silent op is done, or it is blocked */
}
