/* SPDX-License-Identifier: MIT */
/*
 * dispatch.c - completions by callback.
 *
 * The happy path: what the queue has is laid aside, and those with a callback are called in the
 * order in which they completed. An op's slot is free before its callback runs, so on a full ring
 * the callback can prepare the next one.
 *
 * Only what was there at first is called: an op that a callback submits waits for the next
 * dispatch, or a callback that always submits would never let go.
 *
 * A callback may destroy its ring, or close the session with all its rings. All is given back then
 * but the ring's struct, which says so to the dispatches that are under way on it; the outermost of
 * them frees it.
 */
#include "libclient/base/clock.h"
#include "libclient/ring/create.h"
#include "libclient/ring/reap.h"
#include "libclient/ring/revive.h"
#include "libclient/ring/slots.h"
#include "libclient/ring/submit.h"
#include "libclient/ring/wait.h"
#include <assert.h>

int rdmad_sqe_set_callback(rdmad_ring *r, struct rdmad_sqe *sqe, rdmad_callback *callback,
                           void *arg) {
    RDMAD_LIVE(r, RING);
    struct rdmad_slot *slot;

    if (!rdmad_is_reserved(r, sqe))
        return rdmad_fail_entry(r, sqe);
    slot = &r->slot[rdmad_slot_of(r, sqe)];
    slot->callback = callback;
    slot->arg = arg;
    return 0;
}

static void dispatch_first(struct rdmad_ring *r) {
    uint32_t index = r->called.first;
    const struct rdmad_cqe *outer_cqe = r->told_cqe;
    const struct rdmad_slot *outer = r->told;
    struct rdmad_slot slot;
    assert(index < r->entries && r->calls > 0);
    rdmad_slot_pick(r, index);
    slot = r->slot[index];
    slot.cqe.user_data = slot.user_data;
    r->calls--;
    rdmad_slot_free(r, index);
    r->told = &slot;
    r->told_cqe = &slot.cqe;
    slot.callback(slot.arg, &slot.cqe);
    if (r->state == RDMAD_RING_GONE)
        return;
    r->told = outer; /* a callback may dispatch, too */
    r->told_cqe = outer_cqe;
}

int rdmad_ring_dispatch(rdmad_ring *r, int timeout_ms, unsigned max) {
    RDMAD_LIVE(r, RING);
    uint64_t deadline = rdmad_deadline_ns(timeout_ms);
    uint32_t count;
    int called = 0;
    if (timeout_ms < -1)
        return rdmad_check_wait(r->session, timeout_ms);
    rdmad_ring_gather(r);
    while (r->called.count == 0) {
        if (r->calls == 0)
            return rdmad_ring_idle(r);
        if (timeout_ms == 0)
            return 0;
        if (rdmad_is_open(r->session) && rdmad_ring_is_blocked(r))
            return rdmad_ring_idle(r);
        rdmad_ring_await(r, deadline);
        rdmad_ring_gather(r);
        if (r->called.count == 0 && rdmad_poll_timeout(deadline) == 0)
            return 0;
        if (r->called.count == 0 && !rdmad_is_open(r->session))
            rdmad_ring_await_open(r, deadline);
    }
    count = r->called.count;
    if (max && max < count)
        count = max;
    r->calling++;
    for (; count > 0 && r->state != RDMAD_RING_GONE && r->called.count; count--, called++)
        dispatch_first(r);
    if (--r->calling == 0 && r->state == RDMAD_RING_GONE)
        rdmad_ring_free_struct(r);
    return called;
}
