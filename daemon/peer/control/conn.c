/* SPDX-License-Identifier: MIT */
/*
 * conn.c - one connection to a peer: frames out, frames in, and the way it ends.
 *
 * The end has one way, whatever began it (end of file, a malformed frame, silence, a goodbye, too
 * much unread output): peer_end notes the reason and wakes an event; from the loop, those above
 * close the socket and tell everybody. So whoever handles a message may end the connection in the
 * middle of anything.
 */
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/tls.h"
#include "daemon/peer/control/transport.h"
#include "daemon/peer/wire/wire.h"
#include <assert.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* How much output may wait for a peer on which nothing depends, and which is told names at most. */
#define OUTPUT_IDLE (1024u * 1024u)

/* ---- out --------------------------------------------------------------------------------- */

static size_t conn_output_max(const struct peer *p) {
    return peer_is_relied_on(p) ? p->output_max : OUTPUT_IDLE;
}

static void conn_bound_output(struct peer *p) {
    struct error why;
    if (transport_unsent(p->way) <= conn_output_max(p))
        return;
    error_set(&why, RDMAD_E_PEER_LOST, "the peer does not read: %zu bytes wait for it",
              conn_output_max(p));
    peer_end(p, &why);
}

/* Before both have said hello anything else is a fault to the other end, which ends the connection;
 * and nobody knows yet who that is. */
static bool conn_may_say(const struct peer *p, const struct peer_msg *m) {
    return p->stage == PEER_UP || m->type == PEER_MSG_HELLO || m->type == PEER_MSG_BYE;
}

void peer_send(struct peer *p, const struct peer_msg *m) {
    uint8_t frame[PEER_WIRE_MAX];
    if (!p->way || p->ending || !conn_may_say(p, m))
        return;
    size_t length = peer_wire_encode(m, frame);
    struct error why;
    peer_wire_set_version(frame, p->version ? p->version : peer_versions.lowest);
    if (!transport_write(p->way, frame, length)) {
        error_set(&why, RDMAD_E_NOMEM, "out of memory for a message to the peer");
        peer_end(p, &why);
    } else {
        conn_bound_output(p);
    }
}

/* ---- the end ----------------------------------------------------------------------------- */

void peer_end(struct peer *p, const struct error *why) {
    if (p->ending)
        return;
    assert(p->stage != PEER_LOST);
    p->ending = true;
    p->why = *why;
    if (p->way)
        transport_read_pause(p->way);
    event_active(p->end_event, EV_TIMEOUT, 0);
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
    p->unused |= !p->ending && !code;
    peer_end(p, &why);
}

/* ---- in ---------------------------------------------------------------------------------- */

/* How long the frame is that comes next; 0: its head is not there yet. */
static int conn_next_length(const struct peer *p, size_t *length, struct error *err) {
    uint8_t head[PEER_WIRE_HEAD];
    struct evbuffer *input = transport_input(p->way);
    *length = 0;
    if (evbuffer_copyout(input, head, sizeof(head)) < (ssize_t)sizeof(head))
        return 0;
    return peer_wire_length(head, !p->outgoing, length, err);
}

/* What was said before both had agreed is hello's to judge. */
static bool conn_agreed(const struct peer *p, const struct peer_msg *m) {
    return !p->version || p->heard_version == p->version || m->type == PEER_MSG_BYE;
}

bool peer_has_frame(const struct peer *p) {
    struct error err;
    size_t length;
    return transport_has_record(p->way) || conn_next_length(p, &length, &err) ||
           (length && evbuffer_get_length(transport_input(p->way)) >= length);
}

/* What has come is no frame. */
static void conn_refuse_head(struct peer *p, const struct error *err) {
    uint8_t head[TLS_RECORD_HEAD];
    if (!p->secured &&
        evbuffer_copyout(transport_input(p->way), head, sizeof(head)) == (ssize_t)sizeof(head) &&
        tls_record_length(head))
        peer_refuse(p, RDMAD_E_PERM,
                    "%s talks TLS, and %.64s has no identity: rdmactl cluster join gives it one",
                    p->address, p->peers->state->node_name);
    else if (err->code == RDMAD_E_VERSION)
        peer_refuse(p, err->code, "%s is not of our version: %s", p->address, err->text);
    else
        peer_refuse(p, err->code, "%s", err->text);
}

/* If one is there. */
static void conn_open_record(struct peer *p) {
    struct error why, err;
    if (!transport_has_record(p->way))
        return;
    if (transport_open_record(p->way, &why)) {
        error_set(&err, why.code, "%s: %.400s", p->address, why.text);
        peer_end(p, &err);
    } else {
        conn_bound_output(p); /* TLS answers some records by itself */
    }
}

bool peer_take_frame(struct peer *p, struct peer_msg *out) {
    uint8_t frame[PEER_WIRE_MAX];
    struct evbuffer *input = transport_input(p->way);
    struct error err;
    size_t length;

    assert(!p->ending);
    if (conn_next_length(p, &length, &err)) {
        conn_refuse_head(p, &err);
        return false;
    }
    if (!length || evbuffer_get_length(input) < length) {
        conn_open_record(p);
        return false;
    }
    evbuffer_remove(input, frame, length);
    p->heard_version = peer_wire_version(frame);
    if (peer_wire_decode(frame, length, out, &err)) {
        peer_refuse(p, err.code, "%s", err.text);
        return false;
    }
    if (!conn_agreed(p, out)) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "a %s of version %u, where %u was agreed on",
                    peer_wire_name(out->type), p->heard_version, p->version);
        return false;
    }
    return true;
}
