/* SPDX-License-Identifier: MIT */
/*
 * names.c - what is published, here or on another daemon: listed, and watched.
 *
 * A listing is asked for a page at a time, until the caller's array is full or all are there. The
 * events of a watch lie in the queue, a record each; what rdmad_names_unwatch leaves untaken is
 * dropped with it. A program that never takes its events is dropped by the daemon in the end, not
 * by the library.
 */
#include "libclient/session/names.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/sized.h"
#include "libclient/base/text.h"
#include "libclient/control/control.h"
#include "libclient/control/event_queue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(RDMAD_NAME_KIND_LEASE == RDMAD_NAME_LEASE &&
                   RDMAD_NAME_KIND_SERVICE == RDMAD_NAME_SERVICE,
               "a name's kind is the wire's");

/* ---- events -------------------------------------------------------------------------------- */

struct name_event {
    struct rdmad_event_source source;
    struct rdmad_ev_name ev;
};

static void name_from(const struct rdmad_name_entry *from, struct rdmad_name *to) {
    memcpy(to->name, from->name, sizeof(to->name));
    to->name[RDMAD_NAME_MAX] = '\0';
    to->kind = from->kind;
    to->rights = from->rights;
    to->length = from->length;
    to->ttl_ms = rdmad_ns_to_ms(from->ttl_ns);
}

/* One of a program's array, whose elements are as far apart as its own header says. */
static void name_put(const struct rdmad_name_entry *from, char *to, size_t size) {
    struct rdmad_name full;
    name_from(from, &full);
    memcpy(to, &size, sizeof(size));
    rdmad_sized_fill(&rdmad_sized_name, to, &full);
}

static bool name_take_event(struct rdmad_event_source *source, struct rdmad_event *out) {
    struct name_event *n = RDMAD_SOURCE_OF(source, struct name_event);
    static const uint32_t types[] = {RDMAD_EVENT_NAME_THERE, RDMAD_EVENT_NAME_GONE,
                                     RDMAD_EVENT_NAMES_ANEW};
    out->type = types[n->ev.gone];
    out->reason = n->ev.reason;
    out->watch = n->ev.watch;
    name_from(&n->ev.entry, &out->name);
    if (n->ev.reason)
        snprintf(out->text, sizeof(out->text), "watch %llu has ended: %s; watch again",
                 (unsigned long long)n->ev.watch, rdmad_strerror(n->ev.reason));
    else if (out->type == RDMAD_EVENT_NAMES_ANEW)
        snprintf(out->text, sizeof(out->text),
                 "watch %llu begins anew: too many names have gone since its news was read",
                 (unsigned long long)n->ev.watch);
    else
        snprintf(out->text, sizeof(out->text), "%s is %s", out->name.name,
                 n->ev.gone ? "gone" : "there");
    free(n);
    return false;
}

void rdmad_names_on_event(struct rdmad_session *s, const void *body) {
    struct name_event *n = calloc(1, sizeof(*n));
    if (!n) {
        rdmad_control_lose(s, RDMAD_E_NOMEM,
                           "out of memory for news of a name; the session is closed");
        return;
    }
    memcpy(&n->ev, body, sizeof(n->ev));
    if (n->ev.gone > 2) { /* of a later daemon */
        free(n);
        return;
    }
    n->source.take = name_take_event;
    rdmad_event_queue(s, &n->source);
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

void rdmad_names_dispose(struct rdmad_session *s) {
    names_drop(s, true, 0);
}

/* Whose names, and which of them, into a request. */
static int names_copy_scope(struct rdmad_session *s, const char *where, const char *prefix,
                            char to_where[RDMAD_URI_MAX + 1], char to_prefix[RDMAD_NAME_MAX + 1]) {
    int rc =
        rdmad_copy_text(s, to_where, RDMAD_URI_MAX + 1, where, "URI of the daemon", RDMAD_E_URI);

    return rc ? rc
              : rdmad_copy_text(s, to_prefix, RDMAD_NAME_MAX + 1, prefix, "prefix", RDMAD_E_NAME);
}

/* ---- list ---------------------------------------------------------------------------------- */

int rdmad_names_list(rdmad_session *s, const char *where, const char *prefix, const char *after,
                     int timeout_ms, struct rdmad_name *out, size_t max, size_t *count) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_names_list_req request = {.timeout_ns = (uint64_t)timeout_ms * RDMAD_NS_PER_MS};
    struct rdmad_names_list_rep reply;
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_NAMES_LIST, request, reply)};
    int rc = max ? rdmad_sized_check(s, &rdmad_sized_name, out) : 0;
    size_t stride = max && !rc ? out->size : 0;

    *count = 0;
    if (!rc)
        rc = rdmad_check_request(s, timeout_ms);
    if (!rc)
        rc = names_copy_scope(s, where, prefix, request.where, request.prefix);
    if (!rc)
        rc = rdmad_copy_text(s, request.after, sizeof(request.after), after, "name to begin after",
                             RDMAD_E_NAME);
    while (!rc && *count < max) {
        rc = rdmad_control_call(s, &call);
        if (rc)
            break;
        if (reply.count > RDMAD_NAMES_PER_REPLY || (reply.more && !reply.count))
            return rdmad_fail(s, RDMAD_E_PROTOCOL, "rdmad sent a listing of %u names at once",
                              reply.count);
        for (uint32_t i = 0; i < reply.count && *count < max; i++)
            name_put(&reply.entry[i], (char *)out + (*count)++ * stride, stride);
        if (!reply.more)
            break;
        memcpy(request.after, reply.entry[reply.count - 1].name, sizeof(request.after));
    }
    return rc;
}

/* ---- watch --------------------------------------------------------------------------------- */

int rdmad_names_watch(rdmad_session *s, const char *where, const char *prefix, int timeout_ms,
                      uint64_t *watch) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_names_watch_req request = {.timeout_ns = (uint64_t)timeout_ms * RDMAD_NS_PER_MS};
    struct rdmad_names_watch_rep reply = {.watch = 0};
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_NAMES_WATCH, request, reply)};
    int rc = rdmad_check_request(s, timeout_ms);

    *watch = 0;
    if (!rc)
        rc = names_copy_scope(s, where, prefix, request.where, request.prefix);
    if (!rc)
        rc = rdmad_control_call(s, &call);
    if (!rc)
        *watch = reply.watch;
    return rc;
}

int rdmad_names_unwatch(rdmad_session *s, uint64_t watch) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_names_unwatch_req request = {.watch = watch};
    int rc = rdmad_control_tell(s, RDMAD_MSG_NAMES_UNWATCH, &request, sizeof(request), false);
    if (rc)
        return rc;
    pthread_mutex_lock(&s->lock);
    names_drop(s, false, watch);
    rdmad_event_signal(s);
    pthread_mutex_unlock(&s->lock);
    return 0;
}
