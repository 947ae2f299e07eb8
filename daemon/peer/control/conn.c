/* SPDX-License-Identifier: MIT */
/*
 * conn.c - one connection to a peer: frames in, frames out, and the way it ends.
 *
 * The happy path: peer_start, hello, messages to the handlers of attach.c, lane.c or grant.c, as
 * many in a turn as turn.c allows.
 *
 * The end has one way, whatever began it (end of file, a malformed frame, silence, a goodbye, too
 * much unread output): peer_doom notes the reason and wakes an event; from the loop, peers.c closes
 * the socket and tells everybody. So handlers may doom the peer in the middle of anything.
 */
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/peer/control/transport.h"
#include "daemon/peer/internal.h"
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void peer_note_address(struct peer *p, const struct sockaddr *sa) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;
    bool six = sa->sa_family == AF_INET6;
    const void *ip = six ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr;
    unsigned port = ntohs(six ? v6->sin6_port : v4->sin_port);

    if (!inet_ntop(sa->sa_family, ip, p->ip, sizeof(p->ip)))
        p->ip[0] = '\0';
    snprintf(p->address, sizeof(p->address), six ? "[%s]:%u" : "%s:%u", p->ip, port);
}

/* ---- out --------------------------------------------------------------------------------- */

static size_t output_max(const struct peer *p) {
    size_t burst = (size_t)p->grants.max * PEER_OUTPUT_EACH;
    if (!peer_has_something(p))
        return PEER_OUTPUT_IDLE;
    return burst > PEER_OUTPUT_MIN ? burst : PEER_OUTPUT_MIN;
}

void peer_send(struct peer *p, const struct peer_msg *m) {
    uint8_t frame[PEER_WIRE_MAX];
    if (!p->bev || p->doomed)
        return;
    size_t length = peer_wire_encode(m, frame);
    struct error why;
    if (bufferevent_write(p->bev, frame, length) != 0) {
        error_set(&why, RDMAD_E_NOMEM, "out of memory for a message to the peer");
        peer_doom(p, &why);
    } else if (evbuffer_get_length(bufferevent_get_output(p->bev)) > output_max(p)) {
        error_set(&why, RDMAD_E_PEER_LOST, "the peer does not read: %zu bytes wait for it",
                  output_max(p));
        peer_doom(p, &why);
    }
}

/* ---- the end ----------------------------------------------------------------------------- */

void peer_doom(struct peer *p, const struct error *why) {
    if (p->doomed)
        return;
    p->doomed = true;
    p->why = *why;
    if (p->bev)
        bufferevent_disable(p->bev, EV_READ);
    event_active(p->doom_event, EV_TIMEOUT, 0);
}

void peer_refuse(struct peer *p, int code, const char *format, ...) {
    struct peer_msg m = {.type = PEER_MSG_BYE, .bye.code = code};
    struct error why = {.code = code};
    va_list ap;
    va_start(ap, format);
    vsnprintf(why.text, sizeof(why.text), format, ap);
    va_end(ap);
    memcpy(m.bye.text, why.text, sizeof(m.bye.text));
    peer_send(p, &m);
    peer_doom(p, &why);
}

/* ---- in ---------------------------------------------------------------------------------- */

static void bye_received(struct peer *p, const struct peer_bye *m) {
    struct error why;
    bool greeting = p->stage == PEER_GREETING;
    /* Before hello the peer's reason is the answer; later, what matters is that it left. */
    error_set(&why, greeting && m->code ? m->code : RDMAD_E_PEER_LOST, "%s at %s said: %s",
              p->name[0] ? p->name : "the daemon", p->address,
              m->text[0] ? m->text : error_text(m->code));
    peer_doom(p, &why);
}

static void ping_received(struct peer *p, const struct peer_ping *m) {
    struct peer_msg pong = {.type = PEER_MSG_PONG, .ping = *m};
    peer_send(p, &pong);
}

/* What is about channels, names, and leases of leases. */
static void dispatch_more(struct peer *p, const struct peer_msg *m) {
    switch (m->type) {
    case PEER_MSG_CHAN_REQ:
        return chan_req(p, &m->chan_req);
    case PEER_MSG_CHAN_REFUSE:
        return chan_refuse(p, &m->chan_refuse);
    case PEER_MSG_CHAN_BIND:
        return chan_bind(p, &m->chan_bind);
    case PEER_MSG_CHAN_OPEN:
        return chan_open(p, &m->chan_open);
    case PEER_MSG_CHAN_END:
        return chan_end(p, &m->chan_end);
    case PEER_MSG_DELEGATE_REQ:
        return grant_delegate_req(p, &m->delegate_req);
    case PEER_MSG_DELEGATE_REP:
        return claim_delegate_rep(p, &m->delegate_rep);
    case PEER_MSG_REQUEST_REQ:
        return grant_request_req(p, &m->request_req);
    case PEER_MSG_NAMES_REQ:
        return names_req(p, &m->names_req);
    case PEER_MSG_NAMES_REP:
        return names_rep(p, &m->names_rep);
    case PEER_MSG_WATCH_REQ:
        return names_watch_req(p, &m->watch_req);
    case PEER_MSG_UNWATCH:
        return names_unwatch(p, &m->unwatch);
    case PEER_MSG_WATCH_MORE:
        return names_watch_more(p, &m->watch_more);
    case PEER_MSG_NAME_EV:
        return names_ev(p, &m->name_ev);
    case PEER_MSG_KEEP_REQ:
        return grant_keep_req(p, &m->keep_req);
    case PEER_MSG_KEEP_REP:
        return claim_keep_rep(p, &m->keep_rep);
    default:
        peer_refuse(p, RDMAD_E_PROTOCOL, "a second HELLO");
    }
}

static void dispatch(struct peer *p, const struct peer_msg *m) {
    switch (m->type) {
    case PEER_MSG_BYE:
        return bye_received(p, &m->bye);
    case PEER_MSG_PING:
        return ping_received(p, &m->ping);
    case PEER_MSG_PONG:
        return; /* that it came is what counts */
    case PEER_MSG_ATTACH_REQ:
        return grant_attach_req(p, &m->attach_req);
    case PEER_MSG_ATTACH_REP:
        return claim_attach_rep(p, &m->attach_rep);
    case PEER_MSG_RELEASE:
        return grant_release(p, &m->release);
    case PEER_MSG_REVOKED:
        return claim_revoked(p, &m->revoked);
    case PEER_MSG_KEY_REQ:
        return grant_key_req(p, &m->key_req);
    case PEER_MSG_KEY_REP:
        return claim_key_rep(p, &m->key_rep);
    case PEER_MSG_USED:
        return grant_used(p, &m->used);
    case PEER_MSG_STOPPED:
        return grant_stopped(p, &m->stopped);
    case PEER_MSG_RENEWED:
        return claim_renewed(p, &m->ttl);
    case PEER_MSG_TTL_REQ:
        return grant_ttl_req(p, &m->ttl);
    case PEER_MSG_TTL_REP:
        return claim_ttl_rep(p, &m->ttl);
    case PEER_MSG_LINK_REQ:
        return grant_link_req(p, &m->link_req);
    case PEER_MSG_LINK_REP:
        return lane_link_rep(p, &m->link_rep);
    case PEER_MSG_LINK_GONE:
        return grant_link_gone(p, &m->link_gone);
    default:
        dispatch_more(p, m);
    }
}

static void frame_received(struct peer *p, const struct peer_msg *m) {
    if (p->stage == PEER_UP) {
        dispatch(p, m);
    } else if (m->type == PEER_MSG_HELLO) {
        hello_received(p, &m->hello);
    } else if (m->type == PEER_MSG_BYE) {
        bye_received(p, &m->bye);
    } else {
        peer_refuse(p, RDMAD_E_PROTOCOL, "a %s before HELLO", peer_wire_name(m->type));
    }
}

/* How long the frame is that comes next; 0: its head is not there yet. */
static int next_length(const struct peer *p, size_t *length, struct error *err) {
    uint8_t head[PEER_WIRE_HEAD];
    struct evbuffer *input = bufferevent_get_input(p->bev);
    *length = 0;
    if (evbuffer_copyout(input, head, sizeof(head)) < (ssize_t)sizeof(head))
        return 0;
    return peer_wire_length(head, !p->outgoing, length, err);
}

bool peer_has_frame(const struct peer *p) {
    struct error err;
    size_t length;
    return next_length(p, &length, &err) ||
           (length && evbuffer_get_length(bufferevent_get_input(p->bev)) >= length);
}

bool peer_take_frame(struct peer *p) {
    uint8_t frame[PEER_WIRE_MAX];
    struct evbuffer *input = bufferevent_get_input(p->bev);
    struct peer_msg m;
    struct error err;
    size_t length;

    if (next_length(p, &length, &err)) {
        if (err.code == RDMAD_E_VERSION)
            peer_refuse(p, err.code, "%s is not of our version: %s", p->address, err.text);
        else
            peer_refuse(p, err.code, "%s", err.text);
        return false;
    }
    if (!length || evbuffer_get_length(input) < length)
        return false;
    evbuffer_remove(input, frame, length);
    if (peer_wire_decode(frame, length, &m, &err)) {
        peer_refuse(p, err.code, "%s", err.text);
        return false;
    }
    frame_received(p, &m);
    return true;
}

static void readable(struct bufferevent *bev, void *arg) {
    struct peer *p = arg;
    (void)bev;
    p->heard_ns = state_now(p->peers->state);
    turn_heard(p);
}

static void drained(struct bufferevent *bev, void *arg) {
    (void)bev;
    names_go_on(arg);
}

static void happened(struct bufferevent *bev, short what, void *arg) {
    struct peer *p = arg;
    struct error why;
    int saved = EVUTIL_SOCKET_ERROR();

    (void)bev;
    if (what & BEV_EVENT_CONNECTED) {
        p->stage = PEER_GREETING;
        bufferevent_enable(p->bev, EV_READ);
        hello_send(p);
    } else if (p->stage == PEER_CONNECTING) {
        dial_failed(p, saved);
    } else {
        errno = saved;
        if (what & BEV_EVENT_EOF)
            error_set(&why, RDMAD_E_PEER_LOST, "the daemon at %s closed the connection",
                      p->address);
        else
            error_errno(&why, RDMAD_E_PEER_LOST, "the connection to the daemon at %s broke",
                        p->address);
        turn_ended(p, &why);
    }
}

int peer_start(struct peer *p, int fd) {
    p->bev = transport_new(p->peers->state->base, fd);
    if (!p->bev)
        return RDMAD_E_NOMEM;
    bufferevent_setcb(p->bev, readable, drained, happened, p);
    return 0;
}
