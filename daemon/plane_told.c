/* SPDX-License-Identifier: MIT */
/*
 * plane_told.c - all of it comes on the control thread, as mails of the workers.
 */
#include "daemon/plane_told.h"
#include "daemon/base/audit.h"
#include "daemon/base/audit_cause.h"
#include "daemon/peer/peer.h"
#include "daemon/state/channel.h"
#include "daemon/state/failures.h"
#include "daemon/state/origin.h"
#include "daemon/state/pool.h"
#include "daemon/state/session_end.h"
#include <inttypes.h>

static void on_session_violated(void *user, void *cookie, const struct error *why) {
    struct session *s = cookie;
    const char *cause = audit_cause_of(why->code);
    (void)user;
    if (why->code == RDMAD_E_FAULT)
        origin_memory_vanished(s);
    AUDIT(VIOLATED, cause ? cause : "session", session_who(s), audit_object("session", s->id),
          ("%s", why->text));
    session_close(cookie, why);
}

static void on_lane_lost(void *user, void *cookie, const struct error *why) {
    struct state *st = user;
    peers_lane_lost(st->peers, cookie, why);
}

static void on_channel_closed(void *user, void *cookie, const struct error *why) {
    (void)user;
    channel_ended_there(cookie, why->code, why->text);
}

static void on_memory_fault(void *user, const void *address) {
    struct state *st = user;
    struct pool *p = pool_by_address(st, address);
    if (!p)
        return; /* its session is gone already */
    struct error why;
    origin_memory_vanished(p->session);
    error_set(&why, RDMAD_E_FAULT,
              "memory of pool %llx vanished under a transfer: the client has taken pages away, or "
              "the machine has an error in its memory",
              (unsigned long long)p->handle);
    session_close(p->session, &why);
}

/* That it waits is in "session show", "top" and the metrics; that it began to is told here. */
static void on_user_throttled(void *user, struct user_id who, enum plane_rate by) {
    struct state *st = user;
    const char *tenant = state_tenant(st, who.tenant);
    const struct audit_who whose = {.kind = AUDIT_USER, .uid = who.uid, .tenant = tenant};
    struct plane_user_stats now;
    plane_user_stats(st->plane, who, &now);
    bool bytes = by == PLANE_RATE_BYTES;
    uint64_t rate = bytes ? now.share.bytes_per_second : now.share.ops_per_second;
    if (!rate) /* it was lifted meanwhile */
        return;
    AUDIT(THROTTLED, bytes ? "rate.bytes" : "rate.ops", whose, audit_nothing(),
          ("uid %u%s%s asks for more than its %" PRIu64 " %s a second (%s): its ops wait",
           (unsigned)who.uid, *tenant ? "@" : "", tenant, rate, bytes ? "bytes" : "ops",
           bytes ? "bytes_per_second" : "ops_per_second"));
}

static void on_peer_throttled(void *user, uint64_t peer, enum plane_rate by) {
    struct state *st = user;
    if (st->peers) /* or the daemon ends */
        peers_throttled(st->peers, peer, by);
}

static void on_session_failed(void *user, void *cookie) {
    (void)user;
    failures_heard(cookie);
}

struct plane_events plane_told_events(struct state *st) {
    return (struct plane_events){.user = st,
                                 .session_violated = on_session_violated,
                                 .lane_lost = on_lane_lost,
                                 .channel_closed = on_channel_closed,
                                 .memory_fault = on_memory_fault,
                                 .user_throttled = on_user_throttled,
                                 .peer_throttled = on_peer_throttled,
                                 .session_failed = on_session_failed};
}
