/* SPDX-License-Identifier: MIT */
/*
 * rings.c - a ring is in one of five lists.
 *
 * Hot: it had something when it was last looked at, and is looked at every turn. Quiet: it had
 * nothing; a turn looks at some of them (admit.c). Both are its session's; such sessions are in
 * their user's, and such users in the worker's, unless they were put aside (user.h). Still: it had
 * nothing, has ops under way that end by themselves, and has had neither an sqe nor an answer for
 * STILL_NS. A turn looks at very few of these, and takes their user's sessions in turns: who has a
 * thousand rings full of long ops must not fill turns with looks in vain, and most of what is put
 * on such a ring comes behind its own ops. When one of these ends the ring is quiet again. Parked:
 * its wait word is set, so its client rings the doorbell when it publishes; a thousand idle rings
 * cost a sleeping worker nothing, and a busy one looks at a few of them a turn instead of asking
 * the kernel. Throttled: its session has as many ops in flight as it may, and its sqes stay where
 * they are until one of those ends; only a CANCEL that is the next is taken.
 *
 * All rings of a session that is paused are in the last list, and stay there whatever ends. Their
 * wait words are not set: nobody would listen to their doorbells.
 */
#include "daemon/op/engine/rings.h"
#include "daemon/base/probe.h"
#include "daemon/op/engine/user.h"
#include <assert.h>

#define STILL_NS (100 * NSEC_PER_USEC)
#define OWED_NS NSEC_PER_MSEC /* between two tries to wake clients, */
#define OWED_TRIES 64u        /* of so many rings */

bool ring_publish(const struct op_ring *r, bool owed) {
    bool woken = ring_flush(r->ring, owed);
    probe_ring_flushed(r->session_id, r->handle, r->ring->sq_head, r->ring->cq_tail, woken);
    return woken;
}

/* A wakeup may be owed for seconds. Meanwhile none of these rings is looked at but when it has
 * something new, or the wakeup is tried again (owed). */
static void flush(struct worker *w, bool owed) {
    list_for_each_safe (pos, &w->dirty) {
        struct op_ring *r = list_entry(pos, struct op_ring, dirty_node);
        ring_tell_crowded(r->ring, w->spin.crowd.crowded);
        if (ring_publish(r, owed))
            counter_add(&w->counters.wakeups_sent, 1);
        list_remove(pos);
        if (!r->ring->wakeup_owed)
            list_remove(&r->owed_node);
        else if (list_empty(&r->owed_node))
            list_append(&w->owed, &r->owed_node);
    }
}

void rings_flush(struct worker *w) {
    bool owed = w->now_ns >= w->owed_ns;
    struct list *pos;
    if (owed)
        w->owed_ns = w->now_ns + OWED_NS;
    for (unsigned n = 0; owed && n < OWED_TRIES && (pos = list_pop(&w->owed)); n++)
        rings_dirty(w, list_entry(pos, struct op_ring, owed_node));
    flush(w, owed);
}

void rings_flush_early(struct worker *w) {
    flush(w, false);
}

uint64_t rings_next_ns(const struct worker *w) {
    return list_empty(&w->owed) ? UINT64_MAX : w->owed_ns;
}

static void heat_session(struct op_session *s) {
    struct op_user *u = s->user;
    if (list_empty(&s->hot_node))
        list_append(&u->hot, &s->hot_node);
    if (list_empty(&u->hot_node))
        list_append(&u->worker->hot, &u->hot_node);
}

void rings_heat(struct op_ring *r) {
    struct op_session *s = r->session;
    r->still = false;
    list_append(s->paused ? &s->throttled : &s->hot, &r->node);
    if (!s->paused)
        heat_session(s);
}

void rings_wake(struct worker *w, struct op_ring *r) {
    if (!r->parked || r->session->shut)
        return;
    r->parked = false;
    r->active_ns = w->now_ns;
    ring_disarm(r->ring);
    list_remove(&r->node);
    rings_heat(r);
}

bool rings_park(struct worker *w, struct op_ring *r) {
    assert(!r->parked && !r->session->shut);
    if (!ring_arm(r->ring)) {
        ring_disarm(r->ring);
        return false;
    }
    r->parked = true;
    r->still = false;
    list_remove(&r->node);
    list_append(&w->parked, &r->node);
    return true;
}

bool rings_still(const struct worker *w, struct op_ring *r) {
    struct op_session *s = r->session;
    if (r->inflight == r->nwaits || w->now_ns - r->active_ns <= STILL_NS)
        return false;
    r->still = true;
    list_remove(&r->node);
    list_append(&s->still, &r->node);
    if (list_empty(&s->still_node))
        list_append(&s->user->still, &s->still_node);
    return true;
}

void rings_stir(struct op_ring *r) {
    if (!r->still)
        return;
    r->still = false;
    list_remove(&r->node);
    list_append(&r->session->quiet, &r->node);
    heat_session(r->session);
}

static bool park_each(struct worker *w, struct list *rings) {
    list_for_each_safe (pos, rings) {
        if (!rings_park(w, list_entry(pos, struct op_ring, node)))
            return false;
    }
    return true;
}

bool rings_park_all(struct worker *w) {
    list_for_each (upos, &w->hot) {
        struct op_user *u = list_entry(upos, struct op_user, hot_node);
        list_for_each (spos, &u->still) {
            if (!park_each(w, &list_entry(spos, struct op_session, still_node)->still))
                return false;
        }
        list_for_each (spos, &u->hot) {
            struct op_session *s = list_entry(spos, struct op_session, hot_node);
            if (!park_each(w, &s->hot) || !park_each(w, &s->quiet))
                return false;
        }
    }
    return true;
}

void rings_rest(struct worker *w, struct op_ring *r) {
    if (w->quiet_ns && r->inflight == 0 && w->now_ns - r->active_ns > w->quiet_ns)
        rings_park(w, r);
}

bool rings_has_work(struct op_ring *r) {
    uint32_t count;
    return ring_available(r->ring, &count) < 0 || count > 0;
}

void rings_forget(struct op_ring *r) {
    r->parked = r->still = false;
    list_remove(&r->node);
}

void rings_throttle(struct op_ring *r) {
    assert(r->session->charged >= r->session->ops_may);
    list_remove(&r->node);
    list_append(&r->session->throttled, &r->node);
}

void rings_unthrottle(struct worker *w, struct op_session *s) {
    (void)w;
    if (list_empty(&s->throttled) || s->shut || s->paused)
        return;
    list_splice(&s->hot, &s->throttled);
    heat_session(s);
}

void rings_pause(struct op_session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    s->paused = true;
    for (struct op_ring *r; !s->shut && (r = slots_next(&s->rings, &cursor, &handle));) {
        if (r->parked)
            ring_disarm(r->ring);
        rings_forget(r);
        list_append(&s->throttled, &r->node);
    }
}

void rings_resume(struct worker *w, struct op_session *s) {
    s->paused = false;
    rings_unthrottle(w, s);
}

void ring_tell(struct worker *w, struct op_ring *r, uint64_t user_data, uint8_t opcode,
               const struct op_result *result) {
    probe_op_told(r->session_id, r->handle, user_data, result->bytes, result->status,
                  result->outcome);
    struct rdmad_cqe cqe = {
        .user_data = user_data,
        .bytes = result->bytes,
        .status = result->status,
        .outcome = result->outcome,
        .opcode = opcode,
        .flags = result->flags,
        .lease_id = result->info,
    };
    ring_complete(r->ring, &cqe);
    rings_dirty(w, r);
    r->active_ns = w->now_ns; /* its client has reason to come again */
}

/* This makes room in the cq without the client, so a ring that sleeps while sqes wait for room must
 * wake. */
void ring_tell_nothing(struct worker *w, struct op_ring *r) {
    ring_release(r->ring);
    rings_wake(w, r);
}
