/* SPDX-License-Identifier: MIT */
/*
 * watch.c - names of a daemon, watched.
 *
 * The happy path: the daemon is asked for a watch, and its news comes as events, which lie in the
 * queue, a record each; what rdmad_names_unwatch leaves untaken is dropped with it. A program that
 * never takes its events is dropped by the daemon in the end, not by the library.
 *
 * What changes while there is no daemon nobody sees. So the next one is asked for the watch again,
 * and the program told that it begins anew (RDMAD_EVENT_NAMES_ANEW) before what there is now. News
 * of the daemon before, if it was not taken, says nothing any more and is dropped. A watch of
 * another daemon's names may need some tries until that one is reached; if it never is the watch
 * ends, as it does when that daemon is lost.
 */
#include "libclient/session/watch.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/rest.h"
#include "libclient/control/control.h"
#include "libclient/control/event_queue.h"
#include "libclient/session/names.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A session has few: the daemon sees to that. */
struct rdmad_watch {
    struct rdmad_watch *next;
    uint64_t number; /* the program's: no other watch of the session has it, or ever had */
    uint64_t there;  /* the session's daemon's; 0: it has not got it */
    bool asked;      /* and was asked for it */
    struct rdmad_names_watch_req request;
};

/* With the lock: where the watch hangs, by the daemon's number or the program's; or the end of the
 * list. */
static struct rdmad_watch **watch_by(struct rdmad_session *s, bool there, uint64_t number) {
    struct rdmad_watch **at = &s->watches;
    while (*at && (there ? (*at)->there : (*at)->number) != number)
        at = &(*at)->next;
    return at;
}

static void watch_free(struct rdmad_watch **at) {
    struct rdmad_watch *w = *at;
    *at = w->next;
    free(w);
}

/* ---- events -------------------------------------------------------------------------------- */

struct name_event {
    struct rdmad_event_source source;
    struct rdmad_ev_name ev; /* with the program's number */
    const char *why_anew;
};

static bool name_take_event(struct rdmad_event_source *source, struct rdmad_event *out) {
    struct name_event *n = RDMAD_SOURCE_OF(source, struct name_event);
    static const uint32_t types[] = {RDMAD_EVENT_NAME_THERE, RDMAD_EVENT_NAME_GONE,
                                     RDMAD_EVENT_NAMES_ANEW};
    out->type = types[n->ev.gone];
    out->reason = n->ev.reason;
    out->watch = n->ev.watch;
    rdmad_name_from(&n->ev.entry, &out->name);
    if (n->ev.reason)
        snprintf(out->text, sizeof(out->text), "watch %llu has ended: %s; watch again",
                 (unsigned long long)n->ev.watch, rdmad_strerror(n->ev.reason));
    else if (out->type == RDMAD_EVENT_NAMES_ANEW)
        snprintf(out->text, sizeof(out->text), "watch %llu begins anew: %s",
                 (unsigned long long)n->ev.watch, n->why_anew);
    else
        snprintf(out->text, sizeof(out->text), "%s is %s", out->name.name,
                 n->ev.gone ? "gone" : "there");
    free(n);
    return false;
}

static void name_queue(struct rdmad_session *s, const struct rdmad_ev_name *ev,
                       const char *why_anew) {
    struct name_event *n = calloc(1, sizeof(*n));
    if (!n) {
        rdmad_control_lose(s, RDMAD_E_NOMEM,
                           "out of memory for news of a name; the session is closed");
        return;
    }
    n->ev = *ev;
    n->why_anew = why_anew;
    n->source.take = name_take_event;
    rdmad_event_queue(s, &n->source);
}

void rdmad_watch_on_event(struct rdmad_session *s, const void *body) {
    struct rdmad_ev_name ev;
    memcpy(&ev, body, sizeof(ev));
    struct rdmad_watch **at = watch_by(s, true, ev.watch);
    if (!*at || !ev.watch || ev.gone > 2) /* unwatched meanwhile; of a later daemon */
        return;
    ev.watch = (*at)->number;
    name_queue(s, &ev, "too many names have gone since its news was read");
    if (ev.reason) /* it was the last */
        watch_free(at);
}

/* Of one watch, or of all. With the lock. */
static void names_drop(struct rdmad_session *s, bool all, uint64_t watch) {
    for (struct rdmad_event_source *at = s->first_source, *next; at; at = next) {
        struct name_event *n = RDMAD_SOURCE_OF(at, struct name_event);
        next = at->next;
        if (at->take != name_take_event || (!all && n->ev.watch != watch))
            continue;
        rdmad_event_unqueue(s, at);
        free(n);
    }
}

void rdmad_watches_dispose(struct rdmad_session *s) {
    names_drop(s, true, 0);
    while (s->watches)
        watch_free(&s->watches);
}

/* ---- it begins and ends -------------------------------------------------------------------- */

struct watch_call {
    struct rdmad_call call;
    struct rdmad_watch *watch; /* a new one */
    uint64_t number;
    struct rdmad_names_watch_rep reply;
};

/* The reply has come; with the lock, before any news. Each daemon counts from 1 on. */
static void watch_begun(struct rdmad_session *s, const struct rdmad_call *call) {
    struct watch_call *c =
        (struct watch_call *)((char *)(uintptr_t)call - offsetof(struct watch_call, call));
    c->number = c->reply.watch > s->last_watch ? c->reply.watch : s->last_watch + 1;
    s->last_watch = c->watch->number = c->number;
    c->watch->there = c->reply.watch;
    c->watch->next = s->watches;
    s->watches = c->watch;
}

int rdmad_names_watch(rdmad_session *s, const char *where, const char *prefix, int timeout_ms,
                      uint64_t *watch) {
    RDMAD_LIVE(s, SESSION);
    int rc = rdmad_check_request(s, timeout_ms);
    *watch = 0;
    if (rc)
        return rc;
    struct rdmad_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a watch");
    struct watch_call c = {.watch = w};
    c.call = (struct rdmad_call){RDMAD_CALL(RDMAD_MSG_NAMES_WATCH, w->request, c.reply),
                                 .accept = watch_begun};
    w->request.timeout_ns = (uint64_t)timeout_ms * RDMAD_NS_PER_MS;
    rc = rdmad_names_scope(s, where, prefix, w->request.where, w->request.prefix);
    if (!rc)
        rc = rdmad_control_call(s, &c.call);
    if (rc)
        free(w);
    else
        *watch = c.number;
    return rc;
}

/* With the lock: nothing more is told of it. Returns the number by which the daemon knows it; 0: it
 * does not. */
static uint64_t watch_forget(struct rdmad_session *s, uint64_t watch) {
    struct rdmad_watch **at = watch_by(s, false, watch);
    uint64_t there = *at ? (*at)->there : 0;
    if (*at)
        watch_free(at);
    names_drop(s, false, watch);
    rdmad_event_signal(s);
    return there;
}

int rdmad_names_unwatch(rdmad_session *s, uint64_t watch) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_names_unwatch_req request;
    struct rdmad_call call = {.type = RDMAD_MSG_NAMES_UNWATCH,
                              .request = &request,
                              .request_size = sizeof(request),
                              .one_try = true};
    pthread_mutex_lock(&s->lock);
    uint32_t resumes = s->resumes;
    bool known = *watch_by(s, false, watch);
    request.watch = watch_forget(s, watch);
    pthread_mutex_unlock(&s->lock);
    if (!known && !rdmad_is_lost(s))
        return rdmad_fail(s, RDMAD_E_HANDLE,
                          "this session has no watch %llu, or it has ended already",
                          (unsigned long long)watch);
    int rc = request.watch || !known ? rdmad_control_call(s, &call) : 0;
    bool gone = rdmad_resumes(s) != resumes || rc == RDMAD_E_DAEMON_LOST;
    return known && gone && !rdmad_is_lost(s) ? 0 : rc; /* it went with its daemon */
}

/* ---- at the next daemon -------------------------------------------------------------------- */

void rdmad_watches_leave(struct rdmad_session *s) {
    for (struct rdmad_watch *w = s->watches; w; w = w->next) {
        w->there = 0;
        w->asked = false;
    }
}

/* With the lock, before any news: the program may have ended it meanwhile. */
static void watch_again(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct watch_call *c =
        (const struct watch_call *)((const char *)call - offsetof(struct watch_call, call));
    struct rdmad_watch *w = *watch_by(s, false, c->number);
    if (!w) {
        const struct rdmad_names_unwatch_req request = {.watch = c->reply.watch};
        rdmad_control_post(s, RDMAD_MSG_NAMES_UNWATCH, &request, sizeof(request));
        return;
    }
    w->there = c->reply.watch;
    names_drop(s, false, w->number);
    const struct rdmad_ev_name anew = {.watch = w->number, .gone = 2};
    name_queue(s, &anew, "its rdmad had gone, and what has changed meanwhile nobody knows");
}

/* With the lock: it does not begin again. */
static void watch_ends(struct rdmad_session *s, struct rdmad_watch **at, int reason) {
    const struct rdmad_ev_name over = {.watch = (*at)->number, .gone = 1, .reason = reason};
    watch_free(at);
    name_queue(s, &over, NULL);
    rdmad_event_signal(s);
}

static bool watch_may_come(int rc) {
    return rc == RDMAD_E_UNREACHABLE || rc == RDMAD_E_PEER_LOST || rc == RDMAD_E_TIMEOUT ||
           rc == RDMAD_E_LIMIT || rc == RDMAD_E_BUSY || rc == RDMAD_E_NOMEM ||
           rc == RDMAD_E_SHUTDOWN || rc == RDMAD_E_DAEMON_LOST;
}

/* With the lock: the first of a number beyond that which the daemon has not got; NULL: there is
 * none. Programs end watches meanwhile, so they are walked by number. */
static const struct rdmad_watch *watch_away(const struct rdmad_session *s, uint64_t beyond) {
    const struct rdmad_watch *least = NULL;
    for (const struct rdmad_watch *w = s->watches; w; w = w->next) {
        if (!w->there && w->number > beyond && (!least || w->number < least->number))
            least = w;
    }
    return least;
}

/* One try; the daemon is asked several at a time. */
struct watch_try {
    struct watch_call c;
    struct rdmad_names_watch_req request;
};

/* With the lock: of the next ones of the round, at most room; how many. */
static unsigned watch_tries_make(const struct rdmad_session *s, uint64_t *round,
                                 struct watch_try *tries, unsigned room) {
    const struct rdmad_watch *w;
    unsigned count = 0;
    while (count < room && (w = watch_away(s, *round))) {
        struct watch_try *t = &tries[count++];
        *t = (struct watch_try){.c.number = w->number, .request = w->request};
        t->request.timeout_ns = REST_TRY_NS;
        t->c.call = (struct rdmad_call){RDMAD_CALL(RDMAD_MSG_NAMES_WATCH, t->request, t->c.reply),
                                        .accept = watch_again, .one_try = true};
        *round = w->number;
    }
    if (count < room)
        *round = 0;
    return count;
}

/* With the lock: it was answered, or could not be. */
static void watch_try_judge(struct rdmad_session *s, const struct watch_try *t) {
    struct rdmad_watch **at = watch_by(s, false, t->c.number);
    int rc = t->c.call.status;
    if (!*at)
        return;
    (*at)->asked = rc != RDMAD_E_DAEMON_LOST;
    if (rc && !watch_may_come(rc))
        watch_ends(s, at, rc);
}

static void watches_try(struct rdmad_session *s, uint64_t *round, struct watch_try *tries,
                        unsigned room) {
    struct rdmad_call *calls[REST_AT_ONCE];
    pthread_mutex_lock(&s->lock);
    unsigned count = watch_tries_make(s, round, tries, room);
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < count; i++)
        calls[i] = &tries[i].c.call;
    rdmad_control_call_all(s, calls, count);
    pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < count; i++)
        watch_try_judge(s, &tries[i]);
    pthread_mutex_unlock(&s->lock);
}

unsigned rdmad_watches_away(struct rdmad_session *s) {
    unsigned away = 0;
    pthread_mutex_lock(&s->lock);
    for (const struct rdmad_watch *w = s->watches; w; w = w->next)
        away += !w->there;
    pthread_mutex_unlock(&s->lock);
    return away;
}

unsigned rdmad_watches_resume(struct rdmad_session *s, uint64_t *round, uint64_t until_ns) {
    if (!rdmad_watches_away(s))
        return 0;
    struct watch_try one, *tries = calloc(REST_AT_ONCE, sizeof(*tries));
    do
        watches_try(s, round, tries ? tries : &one, tries ? REST_AT_ONCE : 1);
    while (*round && rdmad_monotonic_ns() < until_ns);
    free(tries);
    return rdmad_watches_away(s);
}

unsigned rdmad_watches_give_up(struct rdmad_session *s) {
    pthread_mutex_lock(&s->lock);
    for (struct rdmad_watch **at = &s->watches; *at;) {
        if ((*at)->there || !(*at)->asked)
            at = &(*at)->next;
        else
            watch_ends(s, at, RDMAD_E_PEER_LOST);
    }
    pthread_mutex_unlock(&s->lock);
    return rdmad_watches_away(s);
}
