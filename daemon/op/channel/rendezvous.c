/* SPDX-License-Identifier: MIT */
/*
 * rendezvous.c - large messages at the sender: the window that the receiver READs.
 *
 * The window is for the one connection on which the receiver reads (via). When that is
 * another, the window is opened anew and the new key told; the READ waits meanwhile like any op on
 * a lease whose link broke, and goes on where it was. Windows are driven: window_drive looks at
 * what is there, what is wanted, and takes the next step; what takes its time says so later.
 */
#include "daemon/op/channel/rendezvous.h"
#include "daemon/op/channel/core.h"

bool window_ready(const struct op_send *s) {
    return s->window.state == WINDOW_OPEN && s->window.spec.via == s->channel->via;
}

/* There is no window for the message, and there will be none. One that waits is over with that. */
static void failed(struct op_send *s, int code) {
    struct op_channel *ch = s->channel;
    s->wants_window = false;
    if (s->where == SEND_WAITING) {
        send_over(s, code, RDMAD_FAILED_UNTOUCHED);
    } else if (s->where == SEND_SENT && s->op && !s->cancel) {
        s->cancel = code;
        s->withdraw = ch->news = true;
    }
    channel_touch(ch);
}

/* False: it was over with that. */
static bool open_window(struct op_send *s) {
    struct op_channel *ch = s->channel;
    struct op_window *ow = &s->window;
    const struct seat *seat = ow->seat;
    ow->spec = (struct fabric_window_spec){.peer = ch->peer_in,
                                           .via = ch->via,
                                           .cookie = ow,
                                           .base = s->op->local,
                                           .memory = s->op->memory,
                                           .length = s->op->length,
                                           .rights = RDMAD_RIGHT_READ,
                                           .deadline_ns = CLOCK_NEVER,
                                           .audit = &ow->worker->channels->audit};
    struct error err;
    int rc = seat->ops->window_open(seat->fabric, &ow->spec, &ow->window, &s->key, &err);
    bool over = false;
    if (rc == FABRIC_PENDING) {
        ow->state = WINDOW_OPENING;
    } else if (rc == 0) {
        ow->state = WINDOW_OPEN;
    } else if (rc == RDMAD_E_PEER_LOST) {
        s->lost_via = ch->via; /* until there is another */
    } else {
        over = s->where == SEND_WAITING;
        failed(s, rc);
    }
    return !over;
}

static void close_window(struct op_send *s) {
    struct op_window *ow = &s->window;
    bool gone = ow->seat->ops->window_close(ow->window, RDMAD_E_LEASE_RELEASED);
    ow->state = gone ? WINDOW_NONE : WINDOW_CLOSING;
}

bool window_drive(struct op_send *s) {
    const struct op_channel *ch = s->channel;
    struct op_window *ow = &s->window;
    bool wanted = s->wants_window && ch->via;
    bool there = ow->state == WINDOW_OPEN || ow->state == WINDOW_OPENING;
    if (!ch->remote)
        return true;
    if ((there || wanted) && ow->state != WINDOW_CLOSING)
        seat_wake(ow->seat, ow->worker->now_ns);
    if (there && (!wanted || ow->spec.via != ch->via))
        close_window(s);
    if (wanted && ow->state == WINDOW_NONE && s->lost_via != ch->via)
        return open_window(s);
    return true;
}

void send_window_opened(struct op_send *s, const struct fabric_blob *key, const struct error *err) {
    if (err) {
        s->window.state = WINDOW_NONE;
        if (err->code == RDMAD_E_PEER_LOST)
            s->lost_via = s->window.spec.via;
        else
            failed(s, err->code);
        return;
    }
    s->window.state = WINDOW_OPEN;
    s->key = *key;
    s->channel->news = true;
    channel_touch(s->channel);
    window_drive(s);
}

void send_window_closed(struct op_send *s) {
    s->window.state = WINDOW_NONE;
    channel_touch(s->channel);
    send_settle(s);
}
