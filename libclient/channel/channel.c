/* SPDX-License-Identifier: MIT */
/*
 * channel.c - channels: connected, asked about, and closed.
 *
 * Messages are transfer/'s.
 */
#include "libclient/channel/channel.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/sized.h"
#include "libclient/base/text.h"
#include "libclient/ring/submit.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ----------------------------------------------------------------------------- */

static struct rdmad_channel **channel_bucket(struct rdmad_session *s, uint64_t handle) {
    return &s->channel[(handle ^ handle >> 32) % RDMAD_CHANNEL_BUCKETS];
}

struct rdmad_channel *rdmad_channel_find(struct rdmad_session *s, uint64_t handle) {
    struct rdmad_channel *c = *channel_bucket(s, handle);

    while (c && c->handle != handle)
        c = c->next;
    return c;
}

void rdmad_channels_dispose(struct rdmad_session *s) {
    for (unsigned i = 0; i < RDMAD_CHANNEL_BUCKETS; i++) {
        for (struct rdmad_channel *c = s->channel[i], *next; c; c = next) {
            next = c->next;
            rdmad_object_end(&c->object, RDMAD_KIND_CHANNEL, c->handle, "rdmad_close");
            rdmad_object_retire(&c->object, sizeof(*c));
        }
    }
}

/* ---- the way in ---------------------------------------------------------------------------- */

static bool channel_take_event(struct rdmad_event_source *source, struct rdmad_event *out) {
    struct rdmad_channel *c = RDMAD_SOURCE_OF(source, struct rdmad_channel);
    out->type = RDMAD_EVENT_CHANNEL_CLOSED;
    out->reason = c->closed;
    out->channel = c;
    out->user = c->user;
    memcpy(out->text, c->closed_text, sizeof(out->text));
    return false;
}

struct rdmad_channel *rdmad_channel_new(struct rdmad_session *s, const char *uri, bool accepted) {
    struct rdmad_channel *c = calloc(1, sizeof(*c));

    if (!c) {
        rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a channel");
        return NULL;
    }
    rdmad_object_init(&c->object, RDMAD_KIND_CHANNEL);
    c->session = s;
    c->source.take = channel_take_event;
    c->accepted = accepted;
    snprintf(c->uri, sizeof(c->uri), "%s", uri);
    return c;
}

/* The reply has come; with the lock. */
static void channel_made(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_channel_rep *reply = call->reply;
    struct rdmad_channel *c = call->object.channel, **head = channel_bucket(s, reply->channel);
    c->handle = reply->channel;
    c->resumes = c->asked = s->resumes;
    c->max_message = reply->max_message;
    c->kind = reply->kind;
    c->peer_uid = reply->peer_uid;
    c->peer_proven = reply->flags & RDMAD_CHANNEL_PEER_PROVEN;
    memcpy(c->fabric, reply->fabric, sizeof(c->fabric));
    memcpy(c->peer_node, reply->peer_node, sizeof(c->peer_node));
    memcpy(c->peer_address, reply->peer_address, sizeof(c->peer_address));
    c->fabric[sizeof(c->fabric) - 1] = '\0';
    c->peer_node[RDMAD_NAME_MAX] = c->peer_address[RDMAD_NAME_MAX] = '\0';
    c->next = *head;
    *head = c;
}

/* With the lock. Another thread may have closed it already, which knows it from an event. */
static void channel_proven(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_channel_proof_req *request = call->request;
    const struct rdmad_channel_proof_rep *reply = call->reply;
    struct rdmad_channel *c = rdmad_channel_find(s, request->channel);
    if (!c)
        return;
    memcpy(c->key, reply->key, sizeof(c->key));
    c->resumable = true;
}

/* One for which the daemon gives no key, or has gone before it could, is as good as any was before
 * there were keys. */
static void channel_prove(struct rdmad_session *s, const struct rdmad_channel_rep *made) {
    struct rdmad_channel_proof_req request = {.channel = made->channel};
    struct rdmad_channel_proof_rep reply;
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_CHANNEL_PROOF, request, reply),
                              .accept = channel_proven, .quiet = true, .one_try = true};
    if (s->resume && made->kind == RDMAD_CHANNEL_RELIABLE)
        (void)rdmad_control_call(s, &call);
}

int rdmad_channel_make(struct rdmad_channel *c, uint16_t type, const void *request,
                       size_t request_size, rdmad_channel **out) {
    struct rdmad_channel_rep reply;
    struct rdmad_call call = {.type = type,
                              .request = request,
                              .request_size = request_size,
                              .reply = &reply,
                              .reply_size = sizeof(reply),
                              .accept = channel_made,
                              .object.channel = c};
    struct rdmad_session *s = c->session;
    int rc = rdmad_control_call(s, &call);
    if (rc) {
        free(c);
        return rc;
    }
    channel_prove(s, &reply);
    *out = c;
    return 0;
}

int rdmad_connect(rdmad_session *s, const char *uri, unsigned kind, int timeout_ms,
                  rdmad_channel **out) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_channel_connect_req request = {
        .timeout_ns = (uint64_t)timeout_ms * RDMAD_NS_PER_MS, .kind = kind};
    struct rdmad_channel *c;
    int rc;

    *out = NULL;
    rc = rdmad_check_request(s, timeout_ms);
    if (!rc)
        rc =
            rdmad_copy_text(s, request.uri, sizeof(request.uri), uri, "service's URI", RDMAD_E_URI);
    if (rc)
        return rc;
    c = rdmad_channel_new(s, request.uri, false);
    if (!c)
        return RDMAD_E_NOMEM;
    return rdmad_channel_make(c, RDMAD_MSG_CHANNEL_CONNECT, &request, sizeof(request), out);
}

void rdmad_channel_get_info(const rdmad_channel *c, struct rdmad_channel_info *out) {
    RDMAD_LIVE(c, CHANNEL);
    struct rdmad_session *s = c->session;
    rdmad_sized_must(&rdmad_sized_channel_info, out, __func__);
    pthread_mutex_lock(&s->lock);
    rdmad_control_look(s);
    struct rdmad_channel_info full = {.kind = c->kind,
                                      .peer_uid = c->peer_uid,
                                      .max_message = c->max_message,
                                      .peer_node = c->peer_node,
                                      .peer_address = c->peer_address,
                                      .fabric = c->fabric,
                                      .flags = c->peer_proven ? RDMAD_PEER_PROVEN : 0,
                                      .closed = c->closed          ? c->closed
                                                : rdmad_is_lost(s) ? RDMAD_E_DAEMON_LOST
                                                                   : 0};
    pthread_mutex_unlock(&s->lock);
    rdmad_sized_fill(&rdmad_sized_channel_info, out, &full);
}

int rdmad_channel_get_audit(rdmad_channel *c, struct rdmad_channel_audit *out) {
    RDMAD_LIVE(c, CHANNEL);
    struct rdmad_channel_stat_req request = {.channel = c->handle};
    struct rdmad_channel_stat_rep reply = {.channel = 0};
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_CHANNEL_STAT, request, reply)};
    int rc = rdmad_sized_check(c->session, &rdmad_sized_channel_audit, out);
    if (!rc)
        rc = rdmad_control_call(c->session, &call);
    if (rc)
        return rc;
    const struct rdmad_channel_audit full = {.messages_sent = reply.messages_sent,
                                             .bytes_sent = reply.bytes_sent,
                                             .messages_received = reply.messages_received,
                                             .bytes_received = reply.bytes_received,
                                             .lost = reply.lost};
    rdmad_sized_fill(&rdmad_sized_channel_audit, out, &full);
    return 0;
}

/* ---- the way out --------------------------------------------------------------------------- */

void rdmad_channel_on_closed(struct rdmad_session *s, const void *body) {
    struct rdmad_ev_channel_closed e;
    memcpy(&e, body, sizeof(e));
    e.text[RDMAD_TEXT_MAX] = '\0';
    struct rdmad_channel *c = rdmad_channel_find(s, e.channel);
    if (!c || c->closed)
        return;
    c->closed = e.reason ? e.reason : RDMAD_E_CLOSED;
    snprintf(c->closed_text, sizeof(c->closed_text), "%s", e.text);
    rdmad_event_queue(s, &c->source);
}

void rdmad_channels_post_close(struct rdmad_session *s) {
    for (unsigned i = 0; i < RDMAD_CHANNEL_BUCKETS; i++) {
        for (const struct rdmad_channel *c = s->channel[i]; c; c = c->next) {
            struct rdmad_channel_close_req request = {.channel = c->handle};
            if (!c->closed)
                rdmad_control_post(s, RDMAD_MSG_CHANNEL_CLOSE, &request, sizeof(request));
        }
    }
}

/* The daemon has forgotten it, and it has ended as an object. One that was not told of the close,
 * and has the channel nevertheless, is the next, which has just taken it back. told_at: which of
 * the session's daemons has answered; 0 if none has. */
static void channel_forget(struct rdmad_channel *c, uint32_t told_at) {
    struct rdmad_session *s = c->session;
    struct rdmad_channel_close_req request = {.channel = c->handle, .abrupt = 1};
    struct rdmad_channel **at;
    pthread_mutex_lock(&s->lock);
    if (c->resumes == s->resumes && told_at != s->resumes)
        rdmad_control_post(s, RDMAD_MSG_CHANNEL_CLOSE, &request, sizeof(request));
    for (at = channel_bucket(s, c->handle); *at != c; at = &(*at)->next)
        assert(*at);
    *at = c->next;
    rdmad_event_unqueue(s, &c->source);
    rdmad_event_unqueue(s, &c->heard);
    rdmad_event_unqueue(s, &c->unkept.source);
    rdmad_event_signal(s);
    pthread_mutex_unlock(&s->lock);
    rdmad_object_retire(&c->object, sizeof(*c));
}

static bool channel_is_left(const struct rdmad_channel *c) {
    pthread_mutex_lock(&c->session->lock);
    bool left = c->left;
    pthread_mutex_unlock(&c->session->lock);
    return left;
}

/* With the lock: no later daemon is asked for it. */
static void channel_was_closed(struct rdmad_session *s, const struct rdmad_call *call) {
    struct rdmad_channel *c = call->object.channel;
    (void)s;
    if (c->closed)
        return;
    c->closed = RDMAD_E_CLOSED;
    snprintf(c->closed_text, sizeof(c->closed_text), "the channel is closed");
}

/* While the session is away it waits until the next daemon has the channel, and asks that; the
 * other end hears how it was closed. The object goes, whatever is answered. */
static int channel_end(struct rdmad_channel *c, bool abrupt) {
    struct rdmad_channel_close_req request = {.channel = c->handle, .abrupt = abrupt};
    struct rdmad_call call = {.type = RDMAD_MSG_CHANNEL_CLOSE,
                              .request = &request,
                              .request_size = sizeof(request),
                              .accept = channel_was_closed,
                              .quiet = abrupt,
                              .object.channel = c};
    int rc = channel_is_left(c) ? 0 : rdmad_control_call(c->session, &call);
    if (rc && channel_is_left(c))
        rc = 0; /* nobody knows it any more */
    channel_forget(c, call.resumes);
    return rc;
}

static int channel_fail_untaken(struct rdmad_session *s, uint64_t handle) {
    return rdmad_fail(
        s, RDMAD_E_TIMEOUT,
        "channel %llu is closed, and rdmad had not taken all sends on it in %llu ms, as of a "
        "session that is paused, or slowed by a rate or by its ops in flight: their completions "
        "tell which failed; send those again, on another channel",
        (unsigned long long)handle, (unsigned long long)rdmad_ns_to_ms(s->default_timeout_ns));
}

int rdmad_channel_close(rdmad_channel *c) {
    if (!c)
        return 0;
    struct rdmad_session *s = c->session;
    uint64_t handle = c->handle;
    rdmad_object_end(&c->object, RDMAD_KIND_CHANNEL, handle, __func__);
    bool taken = rdmad_rings_taken(s, handle); /* sends that were submitted come before the close */
    int rc = channel_end(c, false);
    return rc || taken ? rc : channel_fail_untaken(s, handle);
}

void rdmad_channel_abort(rdmad_channel *c) {
    if (!c)
        return;
    rdmad_object_end(&c->object, RDMAD_KIND_CHANNEL, c->handle, __func__);
    channel_end(c, true);
}
