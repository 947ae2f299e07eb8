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
#include "daemon/peer/wire/wire.h"
#include <assert.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
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

void peer_send(struct peer *p, const struct peer_msg *m) {
    uint8_t frame[PEER_WIRE_MAX];
    if (!p->bev || p->ending)
        return;
    size_t length = peer_wire_encode(m, frame);
    struct error why;
    if (bufferevent_write(p->bev, frame, length) != 0) {
        error_set(&why, RDMAD_E_NOMEM, "out of memory for a message to the peer");
        peer_end(p, &why);
    } else if (evbuffer_get_length(bufferevent_get_output(p->bev)) > conn_output_max(p)) {
        error_set(&why, RDMAD_E_PEER_LOST, "the peer does not read: %zu bytes wait for it",
                  conn_output_max(p));
        peer_end(p, &why);
    }
}

/* ---- the end ----------------------------------------------------------------------------- */

void peer_end(struct peer *p, const struct error *why) {
    if (p->ending)
        return;
    assert(p->stage != PEER_LOST);
    p->ending = true;
    p->why = *why;
    if (p->bev)
        bufferevent_disable(p->bev, EV_READ);
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
    peer_end(p, &why);
}

/* ---- in ---------------------------------------------------------------------------------- */

/* How long the frame is that comes next; 0: its head is not there yet. */
static int conn_next_length(const struct peer *p, size_t *length, struct error *err) {
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
    return conn_next_length(p, &length, &err) ||
           (length && evbuffer_get_length(bufferevent_get_input(p->bev)) >= length);
}

bool peer_take_frame(struct peer *p, struct peer_msg *out) {
    uint8_t frame[PEER_WIRE_MAX];
    struct evbuffer *input = bufferevent_get_input(p->bev);
    struct error err;
    size_t length;

    assert(!p->ending);
    if (conn_next_length(p, &length, &err)) {
        if (err.code == RDMAD_E_VERSION)
            peer_refuse(p, err.code, "%s is not of our version: %s", p->address, err.text);
        else
            peer_refuse(p, err.code, "%s", err.text);
        return false;
    }
    if (!length || evbuffer_get_length(input) < length)
        return false;
    evbuffer_remove(input, frame, length);
    if (peer_wire_decode(frame, length, out, &err)) {
        peer_refuse(p, err.code, "%s", err.text);
        return false;
    }
    return true;
}
