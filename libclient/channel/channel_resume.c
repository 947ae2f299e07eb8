/* SPDX-License-Identifier: MIT */
/*
 * channel_resume.c - channels without their daemon, and at the one that takes the session over.
 *
 * A channel that has a key (channel.c asks for it when it is made) stays open. It is handed back by
 * its number and that key, with what was known of its other end, which has to be the same again;
 * the daemon sees to the rest. All others are closed.
 *
 * How long a channel has waited for its other end, which may never come, is counted here, because a
 * daemon that is killed forgets it: the next one is told how much of peer.return_ms is over.
 *
 * A program may close a channel meanwhile. Its call waits until the session is open, when the end
 * has been handed back, and closes it there. If the call has lost its patience first, the end is
 * let go of as soon as the daemon says that it is there.
 */
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/channel/channel.h"
#include <stdio.h>
#include <string.h>

/* With the lock: no daemon knows it any more, and no other gets its number from the next one. */
static void channel_leave(struct rdmad_channel *c, int reason, const char *text) {
    c->left = true;
    if (c->closed)
        return;
    c->closed = reason;
    snprintf(c->closed_text, sizeof(c->closed_text), "%s", text);
    rdmad_event_queue(c->session, &c->source);
}

void rdmad_channel_on_way(struct rdmad_session *s, const void *body) {
    struct rdmad_ev_channel_way e;
    memcpy(&e, body, sizeof(e));
    struct rdmad_channel *c = rdmad_channel_find(s, e.channel);
    if (!c)
        return;
    if (!e.away)
        c->waits_since_ns = c->waited_ns = 0;
    else if (!c->waits_since_ns)
        c->waits_since_ns = rdmad_monotonic_ns();
}

/* A daemon that is gone does not let an end wait, so that time is nobody's. */
static void channel_count_wait(struct rdmad_channel *c, uint64_t gone_ns) {
    if (c->waits_since_ns && gone_ns > c->waits_since_ns)
        c->waited_ns += gone_ns - c->waits_since_ns;
    c->waits_since_ns = 0;
}

void rdmad_channels_leave(struct rdmad_session *s, uint64_t gone_ns) {
    for (unsigned i = 0; i < RDMAD_CHANNEL_BUCKETS; i++) {
        for (struct rdmad_channel *c = s->channel[i]; c; c = c->next) {
            channel_count_wait(c, gone_ns);
            if (c->closed || !c->resumable)
                channel_leave(c, RDMAD_E_DAEMON_LOST,
                              "the rdmad that carried the channel is gone: connect again");
        }
    }
}

bool rdmad_channel_outlives(struct rdmad_session *s, uint64_t number) {
    const struct rdmad_channel *c = rdmad_channel_find(s, number);
    return !c || c->resumable;
}

int rdmad_channel_left(struct rdmad_session *s, uint64_t number) {
    const struct rdmad_channel *c = rdmad_channel_find(s, number);
    return c && c->left ? c->closed : 0;
}

/* ---- at the next daemon -------------------------------------------------------------------- */

/* With the lock: one of the bucket that this daemon was not asked for yet. */
static struct rdmad_channel *channel_to_resume(struct rdmad_session *s, unsigned bucket) {
    struct rdmad_channel *c = s->channel[bucket];
    while (c && (c->closed || c->asked == s->resumes))
        c = c->next;
    return c;
}

/* What a daemon that is older would refuse is left out. */
static uint32_t channel_waited_ms(const struct rdmad_channel *c) {
    uint64_t ms = rdmad_ns_to_ms(c->waited_ns);
    if (c->session->version < RDMAD_ABI_WAITED)
        return 0;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* Fills in the request. False: there is none. */
static bool channel_read(struct rdmad_session *s, unsigned bucket,
                         struct rdmad_channel_resume_req *request) {
    pthread_mutex_lock(&s->lock);
    struct rdmad_channel *c = channel_to_resume(s, bucket);
    if (c) {
        c->asked = s->resumes;
        *request = (struct rdmad_channel_resume_req){
            .channel = c->handle,
            .accepted = c->accepted,
            .peer_uid = c->peer_uid,
            .flags = c->peer_proven ? RDMAD_CHANNEL_PEER_PROVEN : 0,
            .waited_ms = channel_waited_ms(c)};
        memcpy(request->key, c->key, sizeof(request->key));
        memcpy(request->peer_node, c->peer_node, sizeof(request->peer_node));
        memcpy(request->uri, c->uri, sizeof(request->uri));
    }
    pthread_mutex_unlock(&s->lock);
    return c;
}

/* With the lock. */
static void channel_resumed(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_channel_resume_req *request = call->request;
    const struct rdmad_channel_rep *reply = call->reply;
    struct rdmad_channel_close_req gone = {.channel = request->channel, .abrupt = 1};
    struct rdmad_channel *c = rdmad_channel_find(s, request->channel);
    if (!c) { /* nobody could be told when it was closed */
        rdmad_control_post(s, RDMAD_MSG_CHANNEL_CLOSE, &gone, sizeof(gone));
        return;
    }
    c->resumes = s->resumes;
    if (s->version >= RDMAD_ABI_WAITED) /* until the daemon says that it does not */
        c->waits_since_ns = rdmad_monotonic_ns();
    else
        c->waited_ns = 0; /* it would never say so */
    c->max_message = reply->max_message;
    /* Not known until the other end has come; and the program may be reading it. */
    if (reply->fabric[0] && strncmp(c->fabric, reply->fabric, sizeof(c->fabric) - 1) != 0)
        snprintf(c->fabric, sizeof(c->fabric), "%.*s", (int)sizeof(c->fabric) - 1, reply->fabric);
}

/* With the lock. */
static void channel_refused(struct rdmad_session *s, uint64_t number, int rc) {
    bool never = rc == RDMAD_E_UNSUPPORTED || rc == RDMAD_E_TYPE; /* that rdmad is an older one */
    struct rdmad_channel *c = rdmad_channel_find(s, number);
    char text[RDMAD_TEXT_MAX + 1];
    if (!c)
        return;
    snprintf(text, sizeof(text), "the channel does not outlive its rdmad: %.180s",
             rdmad_error_said(s));
    channel_leave(c, never ? RDMAD_E_DAEMON_LOST : rc, text);
    rdmad_event_signal(s);
}

/* False: this daemon has gone, too. */
static bool channel_ask(struct rdmad_session *s, const struct rdmad_channel_resume_req *request) {
    struct rdmad_channel_rep reply;
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_CHANNEL_RESUME, *request, reply),
                              .accept = channel_resumed, .one_try = true};
    int rc = rdmad_control_hand_back(s, &call);
    pthread_mutex_lock(&s->lock);
    bool there = !rdmad_control_drained(s, rc) && s->state == RDMAD_SESSION_RESUMING;
    if (there && rc)
        channel_refused(s, request->channel, rc);
    pthread_mutex_unlock(&s->lock);
    if (there && !rc)
        rdmad_channel_keepalive_again(s, request->channel);
    return there;
}

void rdmad_channels_resume(struct rdmad_session *s) {
    struct rdmad_channel_resume_req request;
    bool there = true;
    for (unsigned i = 0; i < RDMAD_CHANNEL_BUCKETS; i++) {
        while (there && channel_read(s, i, &request))
            there = channel_ask(s, &request);
    }
}
