/* SPDX-License-Identifier: MIT */
/*
 * send.h - one SEND of a channel: where it is, and how it ends.
 */
#ifndef RDMAD_OP_CHANNEL_SEND_H
#define RDMAD_OP_CHANNEL_SEND_H

#include "daemon/op/channel/channel.h"

enum send_due { SEND_DUE_NOTHING, SEND_DUE_KEY, SEND_DUE_WITHDRAW };

/*
 * Where it is, which is also in which of the channel's lists:
 *
 *              send_left           send_over
 *     WAITING -----------> SENT --------------> LEAVING --> told, and gone
 *      |  ^                 |  \                 ^  ^
 *      |  |   send_return   |   \ send_give_up   |  |
 *      |  +-----------------+    +--> GIVEN_UP --+  |
 *      |  +-----------------------------+           |
 *      +--------------------------------------------+
 *
 * SENT: it has a number. LEAVING: it is over, and told as soon as neither the fabric nor a window
 * has its buffer. GIVEN_UP, among those sent: it is told likewise, before the other end said what
 * became of it; then it has no op any more, but keeps its number until it is passed.
 */
struct op_send {
    struct list node;
    struct list due_node; /* in out.due, unless the key that is to be said is not there yet */
    struct op_channel *channel;
    struct op *op;
    enum { SEND_WAITING, SEND_SENT, SEND_GIVEN_UP, SEND_LEAVING } where;
    enum send_due due; /* SENT: is to be said of it */
    uint64_t seq;
    struct channel_post post;
    int cancel;      /* the status with which it is to end, unless it is delivered */
    bool asked;      /* it was cancelled, so its end has a bound */
    int status;      /* LEAVING: how it ended */
    uint8_t outcome; /* likewise */
    uint64_t at;     /* weak.c: how much of it was sent */
    uint64_t paid;   /* sends.c: for how much of an offer its user's rate was charged */
    bool large;      /* it was offered */
    bool wants_window;
    uint64_t lost_via; /* the other end has no such link any more */
    struct op_window window;
};

/* An sqe that was admitted: it waits. */
int send_take(struct op_channel *ch, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq);
void send_free(struct op_send *s);         /* it has no op any more */
void send_begin_window(struct op_send *s); /* of a channel to a peer: it has none yet */
/* It is over, and is told when neither the fabric nor a window has its buffer. */
void send_over(struct op_send *s, int status, uint8_t outcome);
/* Brings its window to what it wants. A SEND that is over ends here when its window and its post
 * are gone, and s is freed. */
void send_settle(struct op_send *s);
/* Opens or closes its window, for the receiver's present link, as s->wants_window says. Returns 0,
 * or why it cannot have one; then it does not want one any more. */
int send_drive_window(struct op_send *s);
static inline bool send_window_ready(const struct op_send *s) {
    return s->window.state == OP_WINDOW_OPEN && s->window.spec.via == s->channel->via;
}
void send_left(struct op_send *s);                   /* from waiting to sent */
void send_return(struct op_send *s);                 /* from sent to the front of those waiting */
void send_give_up(struct op_send *s);                /* that is sent */
void send_owe(struct op_send *s, enum send_due due); /* that is sent */
void send_ask_back(struct op_send *s);               /* that is sent: WITHDRAW is due */
struct op_send *send_first(struct op_channel *ch);   /* that is to be sent next; or NULL */
void send_describe(const struct op_send *s, struct channel_message *m);

#endif
