/* SPDX-License-Identifier: MIT */
/*
 * drain.c - all sessions paused, and again not.
 */
#include "daemon/state/drain.h"
#include "daemon/base/log.h"
#include "daemon/state/channel.h"
#include "daemon/state/origin.h"
#include "daemon/state/pause.h"
#include <assert.h>

static void drain_answered(void *arg, const struct error *result) {
    struct state *st = arg;
    (void)result;
    assert(st->drain_asked > 0);
    st->drain_asked--;
}

/* Without memory to tell its client it is paused all the same. */
static void drain_pause(struct session *s, const struct pause_order *order) {
    struct error why;
    s->state->drain_asked++;
    if (session_pause(s, order, drain_answered, s->state, &why))
        plane_session_pause(s->plane, order->pause, drain_answered, s->state);
}

void drain_begin(struct state *st, uid_t uid) {
    const struct pause_order order = {
        .pause = true, .uid = uid, .by_admin = true, .by_drain = true, .why = "rdmad is drained"};
    if (st->draining || st->stopping)
        return;
    st->draining = true;
    LOG(NOTICE, ("uid %u drains this rdmad: nothing new is taken", (unsigned)uid));
    list_for_each (node, &st->sessions) {
        struct session *s = list_entry(node, struct session, node);
        if (s->plane && !session_paused(s))
            drain_pause(s, &order);
    }
}

void drain_end(struct state *st, uid_t uid) {
    const struct pause_order order = {
        .uid = uid, .by_admin = true, .by_drain = true, .why = "rdmad goes on"};
    if (!st->draining || st->stopping)
        return;
    st->draining = false;
    LOG(NOTICE, ("uid %u has this rdmad go on", (unsigned)uid));
    list_for_each (node, &st->sessions) {
        struct session *s = list_entry(node, struct session, node);
        const struct session_pause *p = session_paused(s);
        if (s->plane && (!p || p->by_drain))
            drain_pause(s, &order);
    }
}

bool drain_settled(const struct state *st) {
    return !st->drain_asked;
}

/* SENDs that have not left, which the next daemon gets. */
static uint64_t drain_sends_waiting(const struct session *s) {
    uint32_t cursor = 0;
    uint64_t handle, n = 0;
    if (!origin_is_set(s))
        return 0;
    for (const struct channel *ch; (ch = slots_next(&s->channels, &cursor, &handle));)
        n += channel_stats(ch).sends_waiting;
    return n;
}

bool drain_may_stand(const struct session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    for (const struct channel *ch; (ch = slots_next(&s->channels, &cursor, &handle));)
        if (channel_stats(ch).sends)
            return true;
    return false;
}

uint64_t drain_ops(const struct session *s) {
    if (!s->plane)
        return 0;
    uint64_t waiting = drain_sends_waiting(s);
    uint64_t ops = plane_session_stats_now(s->plane).ops_inflight;
    return ops > waiting ? ops - waiting : 0;
}
