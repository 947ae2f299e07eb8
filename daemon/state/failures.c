/* SPDX-License-Identifier: MIT */
/*
 * failures.c - users with sessions that have something to tell are in a list, and a timer goes
 * through it.
 *
 * The data plane remembers the last few ops of a session that failed, and how many there were of
 * each status. Each of the last knows the how-manyeth of its status it is, so the difference to
 * what was told is how many it stands for.
 */
#include "daemon/state/failures.h"
#include "common/errors.h"
#include "daemon/base/events.h"
#include "daemon/state/failure_text.h"
#include <inttypes.h>
#include <stdio.h>

/* ---- the list --------------------------------------------------------------------------- */

static bool is_listed(const struct session *s) {
    return !list_empty(&s->failures.node);
}

static void enlist(struct session *s) {
    struct quota_account *user = s->uid_account;
    list_append(&user->failing, &s->failures.node);
    if (list_empty(&user->failing_node))
        list_append(&s->state->failures.users, &user->failing_node);
}

static void delist(struct session *s) {
    struct quota_account *user = s->uid_account;
    list_remove(&s->failures.node);
    if (list_empty(&user->failing))
        list_remove(&user->failing_node);
}

/* ---- what is told ----------------------------------------------------------------------- */

/* Of how long the failures are that are told now, in whole seconds. */
static uint64_t span_s(const struct session_failures *f, unsigned code, uint64_t now_ns) {
    uint64_t since_ns = f->told_ns[code] > f->since_ns ? f->told_ns[code] : f->since_ns;
    return (now_ns - since_ns) / NSEC_PER_SEC + 1;
}

/* They are so many by now; last is the last of them, if it is known still. */
static void failures_tell(struct session *s, unsigned code, uint64_t failed,
                          const struct plane_failure *last, uint64_t now_ns) {
    struct session_failures *f = &s->failures;
    const char *cause = rdmad_error_name(-(int)code);
    uint64_t count = failed - f->told[code], seconds = span_s(f, code, now_ns);
    char before[64] = "", text[RDMAD_TEXT_MAX + 1];
    if (count > 1)
        snprintf(before, sizeof(before), "%" PRIu64 " in the last %" PRIu64 " s, the last: ", count,
                 seconds);
    if (last) {
        failure_text(last, s->id, before, text);
        EVENT("op", cause, session_who(s), audit_object_of("op", last->user_data, s->id),
              ("%s", text));
    } else {
        EVENT("op", cause, session_who(s), audit_object("session", s->id),
              ("%" PRIu64 " ops of session %" PRIu64 " ended with %s in the last %" PRIu64
               " s: %s; none is of the last %u that failed, of which more is known",
               count, s->id, cause, seconds, rdmad_error_text(-(int)code), PLANE_FAILURES));
    }
    f->told[code] = failed;
    f->told_ns[code] = now_ns;
}

static const struct plane_failure *last_of(const struct plane_failure *recent, unsigned count,
                                           unsigned code) {
    while (count--)
        if (recent[count].status == -(int)code)
            return &recent[count];
    return NULL;
}

/* Whether it has something left to tell. The worker may speak again before it is read: nothing of
 * what comes meanwhile is lost. */
static bool look(struct session *s, uint64_t now_ns) {
    struct session_failures *f = &s->failures;
    struct plane_session *plane = s->plane ? s->plane : s->leaving; /* it may be closing */
    struct plane_failure recent[PLANE_FAILURES];
    uint64_t failed[PLANE_CODES];
    unsigned statuses = 0;
    bool left = false;
    f->looked_ns = now_ns;
    plane_session_hear_failures(plane);
    plane_session_failed(plane, failed);
    unsigned count = plane_session_failures(plane, recent);
    for (unsigned code = 1; code < PLANE_CODES; code++) {
        if (failed[code] <= f->told[code])
            continue;
        bool lately = f->told_ns[code] && now_ns < f->told_ns[code] + FAILURES_AGAIN_NS;
        if (lately || statuses == FAILURES_STATUSES) {
            left = true;
            continue;
        }
        const struct plane_failure *last = last_of(recent, count, code);
        failures_tell(s, code, last ? last->nth : failed[code], last, now_ns);
        statuses++;
    }
    return left;
}

/* ---- when ------------------------------------------------------------------------------- */

/* Without memory for it whoever is heard next sets it; or the sessions' ends tell. */
static void rearm(struct state *st, uint64_t now_ns) {
    if (!list_empty(&st->failures.users) && !timer_is_set(&st->failures.timer))
        (void)timer_set(&st->timers, &st->failures.timer, clock_after(now_ns, FAILURES_EVERY_NS));
}

static void round_of(struct timer *timer, uint64_t now_ns) {
    struct failures *failures = container_of(timer, struct failures, timer);
    struct state *st = container_of(failures, struct state, failures);
    struct list done, *node; /* users of whose sessions each was looked at */
    unsigned looks = 0;
    list_init(&done);
    while (looks < FAILURES_SESSIONS && (node = list_pop(&failures->users))) {
        struct quota_account *user = list_entry(node, struct quota_account, failing_node);
        struct session *s = list_entry(list_first(&user->failing), struct session, failures.node);
        if (s->failures.looked_ns == now_ns) {
            list_append(&done, node);
            continue;
        }
        looks++;
        list_append(&failures->users, node);
        delist(s);
        if (look(s, now_ns))
            enlist(s);
    }
    list_splice(&failures->users, &done);
    rearm(st, now_ns);
}

void failures_heard(struct session *s) {
    struct state *st = s->state;
    uint64_t now_ns = state_now(st);
    if (!s->plane) /* it is closing, and its last word tells */
        return;
    if (!st->failures.users.next) {
        list_init(&st->failures.users);
        timer_init(&st->failures.timer, round_of);
    }
    if (!is_listed(s)) {
        s->failures.since_ns = now_ns;
        enlist(s);
    }
    rearm(st, now_ns);
}

void failures_end(struct session *s) {
    struct session_failures *f = &s->failures;
    struct plane_failure recent[PLANE_FAILURES];
    uint64_t failed[PLANE_CODES], now_ns = state_now(s->state);
    if (!is_listed(s))
        f->since_ns = now_ns;
    delist(s);
    plane_session_failed(s->leaving, failed);
    unsigned count = plane_session_failures(s->leaving, recent);
    for (unsigned code = 1; code < PLANE_CODES; code++)
        if (failed[code] > f->told[code])
            failures_tell(s, code, failed[code], last_of(recent, count, code), now_ns);
}
