/* SPDX-License-Identifier: MIT */
/*
 * keepalive.c - to be told that the program at a channel's other end shows no sign of life.
 *
 * The daemons see to it. What is kept here is what was asked for, for the next daemon, and what was
 * heard last: of a silence and its end that the program has not taken, only the latter is told, and
 * nothing if it knows of neither.
 */
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/channel/channel.h"
#include <stdio.h>
#include <string.h>

static bool keepalive_take_event(struct rdmad_event_source *source, struct rdmad_event *out) {
    struct rdmad_channel *c =
        (struct rdmad_channel *)((char *)source - offsetof(struct rdmad_channel, heard));
    out->type = c->silent ? RDMAD_EVENT_CHANNEL_SILENT : RDMAD_EVENT_CHANNEL_HEARD;
    out->channel = c;
    out->user = c->user;
    if (c->silent)
        snprintf(out->text, sizeof(out->text),
                 "the program at the other end has shown no sign of life for %llu ms",
                 (unsigned long long)rdmad_ns_to_ms(c->silent_ns));
    else
        snprintf(out->text, sizeof(out->text), "the program at the other end lives");
    return false;
}

void rdmad_channel_on_silent(struct rdmad_session *s, const void *body) {
    struct rdmad_ev_channel_silent e;
    memcpy(&e, body, sizeof(e));
    struct rdmad_channel *c = rdmad_channel_find(s, e.channel);
    if (!c || c->closed || c->silent == (e.silent != 0))
        return;
    bool untold = c->heard.link;
    c->silent = e.silent;
    c->silent_ns = e.silent_ns;
    c->heard.take = keepalive_take_event;
    if (untold)
        rdmad_event_unqueue(s, &c->heard); /* the two are none */
    else
        rdmad_event_queue(s, &c->heard);
}

/* With the lock: what is heard from now on is of this one, and the next daemon is asked for it. */
static void keepalive_agreed(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_channel_keepalive_req *request = call->request;
    struct rdmad_channel *c = rdmad_channel_find(s, request->channel);
    if (!c)
        return;
    c->keepalive_ns = request->silent_ns;
    c->keepalive_ends = request->ends;
    c->silent = false;
    rdmad_event_unqueue(s, &c->heard);
    rdmad_event_signal(s);
}

static int keepalive_ask(struct rdmad_session *s, uint64_t handle, uint64_t silent_ns, bool ends,
                         bool resuming) {
    struct rdmad_channel_keepalive_req request = {
        .channel = handle, .silent_ns = silent_ns, .ends = ends};
    struct rdmad_call call = {.type = RDMAD_MSG_CHANNEL_KEEPALIVE,
                              .request = &request,
                              .request_size = sizeof(request),
                              .accept = resuming ? NULL : keepalive_agreed,
                              .one_try = resuming};
    return rdmad_control_call(s, &call);
}

/* With the lock: the channel goes on as any. The next daemon is asked again. */
static void keepalive_refused(struct rdmad_session *s, uint64_t handle, int rc) {
    char what[80];
    struct rdmad_channel *c = rdmad_channel_find(s, handle);
    if (!c || c->closed || s->state != RDMAD_SESSION_RESUMING)
        return;
    snprintf(what, sizeof(what), "the keep-alive of channel %llu", (unsigned long long)handle);
    c->unkept.channel = c;
    c->unkept.user = &c->user;
    rdmad_not_resumed_tell(s, &c->unkept, rc, what);
}

/* A daemon that has no memory for it, or is an older one, has none. */
void rdmad_channel_keepalive_again(struct rdmad_session *s, uint64_t handle) {
    uint64_t silent_ns = 0;
    bool ends = false;
    pthread_mutex_lock(&s->lock);
    const struct rdmad_channel *c = rdmad_channel_find(s, handle);
    if (c && !c->closed) {
        silent_ns = c->keepalive_ns;
        ends = c->keepalive_ends;
    }
    pthread_mutex_unlock(&s->lock);
    int rc = silent_ns ? keepalive_ask(s, handle, silent_ns, ends, true) : 0;
    if (!rc)
        return;
    pthread_mutex_lock(&s->lock);
    keepalive_refused(s, handle, rc);
    pthread_mutex_unlock(&s->lock);
}

int rdmad_channel_keepalive(rdmad_channel *c, uint64_t ms, unsigned flags) {
    RDMAD_LIVE(c, CHANNEL);
    struct rdmad_session *s = c->session;
    if (flags & ~RDMAD_KEEPALIVE_ENDS)
        return rdmad_fail(s, RDMAD_E_INVAL,
                          "flags 0x%x of a keep-alive: only RDMAD_KEEPALIVE_ENDS "
                          "is known",
                          flags);
    if (ms > UINT64_MAX / RDMAD_NS_PER_MS)
        return rdmad_fail(s, RDMAD_E_RANGE, "a keep-alive of %llu ms is too long",
                          (unsigned long long)ms);
    return keepalive_ask(s, c->handle, ms * RDMAD_NS_PER_MS, flags & RDMAD_KEEPALIVE_ENDS, false);
}
