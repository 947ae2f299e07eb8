/* SPDX-License-Identifier: MIT */
/*
 * why.c - rdmactl why: what is to be said of an object, in sentences. First how it stands now, if
 * it is there; then what is remembered of it; then what to do about it. Of what is somebody else's
 * there is nothing to say, as of what never was. Of an op's number, which programs choose, there
 * may be very much: what is more than WHY_SENTENCES is neither said nor looked for.
 */
#include "common/errors.h"
#include "daemon/ctl/events_json.h"
#include "daemon/ctl/handlers.h"
#include "daemon/ctl/rows.h"
#include "daemon/ctl/why_next.h"
#include "daemon/peer/peer.h"
#include "daemon/plane/plane.h"
#include "daemon/state/channel.h"
#include "daemon/state/failure_text.h"
#include "daemon/state/handle.h"
#include "daemon/state/lease.h"
#include "daemon/state/pause.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Each takes the control thread some microseconds, and all wait for an answer. */
#define WHY_SENTENCES 256u

struct why {
    struct ctl_call *call;
    uint64_t id, now_ns;
    json_t *now;      /* sentences */
    bool truncated;   /* there would be more of them */
    const char *next; /* what to do about it; NULL: the events decide */
};

static void say(struct why *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct why *w, const char *format, ...) {
    char text[1024];
    va_list ap;
    w->truncated = json_array_size(w->now) >= WHY_SENTENCES;
    if (w->truncated)
        return;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    json_array_append_new(w->now, rows_text(text));
}

/* ---- sessions and ops ------------------------------------------------------------------------ */

static const struct session *why_session_of(const struct why *w) {
    list_for_each (node, &ctl_state(w->call)->sessions) {
        const struct session *s = list_entry(node, struct session, node);
        if (s->id == w->id && ctl_sees(w->call, s))
            return s;
    }
    return NULL;
}

static void say_failures(struct why *w, const struct session *s, bool of_op) {
    struct plane_failure failed[PLANE_FAILURES];
    unsigned count = s->plane ? plane_session_failures(s->plane, failed) : 0;
    for (unsigned i = 0; i < count && !w->truncated; i++) {
        char text[RDMAD_TEXT_MAX + 1];
        if (of_op && failed[i].user_data != w->id)
            continue;
        failure_text(&failed[i], s->id, "", text);
        w->next = why_next_of(failed[i].status);
        say(w, "%.0f s ago %s", rows_seconds(clock_left(failed[i].at_ns, w->now_ns)), text);
    }
}

static void say_throttled(struct why *w, const struct session *s) {
    struct plane_user_stats user;
    plane_user_stats(s->state->plane, session_user_id(s), &user);
    if (user.throttled)
        say(w,
            "its user, uid %u%s%s, was held back %" PRIu64 " times, for %.3f s in all, by a rate "
            "(%" PRIu64 " bytes and %" PRIu64 " ops a second; 0: none); policy show %u%s%s says "
            "which rule has it",
            (unsigned)s->uid, s->tenant ? " of tenant " : "", s->who.socket, user.throttled,
            rows_seconds(user.throttled_ns), user.share.bytes_per_second, user.share.ops_per_second,
            (unsigned)s->uid, s->tenant ? " --socket " : "", s->who.socket);
}

static void why_session(struct why *w) {
    const struct session *s = why_session_of(w);
    if (!s)
        return;
    struct plane_session_stats stats = {0};
    if (s->plane)
        stats = plane_session_stats_now(s->plane);
    say(w,
        "session %" PRIu64 " (%s, uid %u%s%s, pid %ld) is %s, since %.0f s; %" PRIu64
        " ops ended, %" PRIu64 " of them failed, %" PRIu64 " are in flight",
        s->id, s->name[0] ? s->name : "no name", (unsigned)s->uid, s->tenant ? " of tenant " : "",
        s->who.socket, (long)s->pid, s->closing ? "closing" : "open",
        rows_seconds(w->now_ns - s->since_ns), stats.ops, stats.ops_failed, stats.ops_inflight);
    const struct session_pause *p = session_paused(s);
    char until[48] = "drain --off";
    if (p && !p->by_drain)
        snprintf(until, sizeof(until), "session resume %" PRIu64, s->id);
    if (p)
        say(w, "%s; nothing is taken from its rings until rdmactl %s", p->why, until);
    say_throttled(w, s);
    say_failures(w, s, false);
}

static void why_op(struct why *w) {
    list_for_each (node, &ctl_state(w->call)->sessions) {
        const struct session *s = list_entry(node, struct session, node);
        if (w->truncated)
            return;
        if (ctl_sees(w->call, s))
            say_failures(w, s, true);
    }
}

/* ---- leases, channels -------------------------------------------------------------------------
 */

static void why_lease(struct why *w) {
    struct leases *leases = ctl_state(w->call)->leases;
    const struct lease *l = lease_by_id(leases, w->id);
    struct lease_view v;
    struct error why;
    if (l && !ctl_sees(w->call, l->owner))
        return;
    if (l)
        lease_view_of(l, w->now_ns, &v);
    else if (!lease_ended_view(leases, w->id, &v) ||
             !ctl_sees_user(w->call, v.owner_uid, v.owner_tenant))
        return;
    if (!v.reason)
        say(w,
            "lease %" PRIu64 " of session %" PRIu64 " (uid %u, %" PRIu64
            " bytes) is live for another %.3f s; %" PRIu32 " hold it, %" PRIu32 " have held it",
            v.id, v.owner_session, (unsigned)v.owner_uid, v.length, rows_seconds(v.ttl_ns),
            v.attached, v.attached_total);
    if (v.audit.refused)
        say(w, "%" PRIu64 " uses of it were refused at its range, its rights or its end",
            v.audit.refused);
    if (!v.reason)
        return;
    lease_ended_error(v.id, v.reason, v.ended_ago_ns, &why);
    say(w, "%s", why.text);
    w->next = why_next_of(v.reason);
}

/* Leases of other daemons, of which sessions here are lessees: by the number that their owner's
 * daemon gave them, so there may be several. */
static void why_attach(struct why *w) {
    list_for_each (node, &ctl_state(w->call)->sessions) {
        const struct session *s = list_entry(node, struct session, node);
        const struct handle *h;
        uint32_t cursor = 0;
        uint64_t number;
        if (w->truncated)
            return;
        if (!ctl_sees(w->call, s))
            continue;
        while (!w->truncated && (h = slots_next(&s->handles, &cursor, &number))) {
            if (!h->remote || h->lease_id != w->id || h->stage != HANDLE_USABLE)
                continue;
            say(w,
                "session %" PRIu64 " is lessee of it, %s, %" PRIu64
                " bytes over %s, for another %.3f s",
                s->id, h->uri, h->length, h->fabric ? h->fabric : "no link yet",
                rows_seconds(clock_left(w->now_ns, h->deadline_ns)));
        }
    }
}

static void why_channel(struct why *w) {
    const struct channel *ch;
    uint32_t cursor = 0;
    uint64_t number;
    while ((ch = slots_next(&ctl_state(w->call)->channels, &cursor, &number))) {
        if (ch->number != w->id || !ctl_sees(w->call, ch->session))
            continue;
        say(w,
            "channel %" PRIu64 " of session %" PRIu64 " is there; %" PRIu64
            " SENDs wait for a receive of the other end, %" PRIu64 " RECVs are posted here",
            ch->number, ch->session->id,
            __atomic_load_n(&ch->stats.sends_waiting, __ATOMIC_RELAXED),
            __atomic_load_n(&ch->stats.receives_posted, __ATOMIC_RELAXED));
        if (ch->way == CHANNEL_AWAY)
            say(w, "its other end is away for %.1f s, and waited for: %s",
                rows_seconds(w->now_ns - ch->away_since_ns), ch->away_why);
        if (ch->reason)
            say(w, "it ends: %s: %s", rdmad_error_name(ch->reason), ch->text);
    }
}

/* ---- peers and their links --------------------------------------------------------------------
 */

static void say_peer(void *arg, const struct peer_view *v) {
    struct why *w = arg;
    if (v->id != w->id)
        return;
    say(w, "peer %" PRIu64 ", %s at %s, %s, is %s since %.0f s, over %s%s%s", v->id,
        v->node[0] ? v->node : "?", v->address,
        strcmp(v->direction, "out") ? "which dialled this daemon" : "which this daemon dialled",
        v->state, rows_seconds(clock_left(v->since_ns, w->now_ns)),
        v->fabric[0] ? v->fabric : "no fabric yet", v->fabric_why[0] ? ": " : "", v->fabric_why);
}

static void say_link(void *arg, const struct link_view *v) {
    struct why *w = arg;
    if (v->peer != w->id)
        return;
    say(w,
        "a link of worker %u to %s at %s is %s, was made anew %" PRIu64
        " times, and serves %" PRIu64 " leases and %" PRIu64 " channels",
        v->worker, v->node, v->address, v->state, v->rebuilds, v->handles, v->channels);
    if (!strcmp(v->state, "rebuilding"))
        w->next = why_next_of(RDMAD_E_PEER_LOST);
    if (v->last_error[0])
        say(w, "%.0f s ago: %s", rows_seconds(clock_left(v->last_error_ns, w->now_ns)),
            v->last_error);
}

static void why_peer(struct why *w) {
    if (ctl_sees_all(w->call))
        peers_view(ctl_state(w->call)->peers, say_peer, w);
}

static void why_link(struct why *w) {
    if (ctl_sees_all(w->call))
        links_view(ctl_state(w->call)->peers, say_link, w);
}

/* ---- the call ---------------------------------------------------------------------------------
 */

static const struct {
    const char *object;
    void (*now)(struct why *w);
} objects[] = {{"session", why_session}, {"lease", why_lease},     {"link", why_link},
               {"peer", why_peer},       {"channel", why_channel}, {"op", why_op},
               {"attach", why_attach}};

void ctl_why(struct ctl_call *call, const json_t *params) {
    const char *object = rpc_text(params, "object");
    struct why w = {.call = call, .id = rpc_uint(params, "id"), .now_ns = clock_now_ns()};
    struct error why;
    unsigned i = 0;
    while (i < sizeof(objects) / sizeof(objects[0]) && strcmp(objects[i].object, object) != 0)
        i++;
    if (i == sizeof(objects) / sizeof(objects[0])) {
        error_set(&why, RDMAD_E_INVAL,
                  "there is no why of \"%.20s\": it is session, lease, attach, link, peer, channel "
                  "or op",
                  object);
        ctl_fail(call, &why);
        return;
    }
    w.now = json_array();
    objects[i].now(&w);
    json_t *events = events_json(call, objects[i].object, w.id, 0, 0);
    if (!json_array_size(w.now) && !json_array_size(events)) {
        json_decref(w.now);
        json_decref(events);
        error_set(&why, RDMAD_E_HANDLE,
                  "nothing is known of %s %" PRIu64 ": it never was, was not yours, or is so long "
                  "ago that it is forgotten%s",
                  objects[i].object, w.id,
                  strcmp(object, "lease") ? ""
                                          : "; of another machine's lease ask there, or why attach "
                                            "what is known of it here");
        ctl_fail(call, &why);
        return;
    }
    if (!w.next)
        w.next = why_next(events);
    json_t *next = w.next ? json_string(w.next) : json_null();
    json_t *answer = json_pack("{s:s, s:o, s:o, s:o, s:o}", "object", objects[i].object, "id",
                               rows_any_number(w.id), "now", w.now, "events", events, "next", next);
    if (w.truncated)
        json_object_set_new(answer, "truncated", json_true());
    ctl_reply(call, answer);
}
