/* SPDX-License-Identifier: MIT */
/*
 * weak.c - channels of the weaker kinds: datagrams, and messages that nobody acknowledges.
 *
 * No credits, no acknowledgements, nothing sent again. A SEND is done when the fabric says that it
 * has left. A message that is longer than one SEND goes as pieces, one after the other, and the
 * receiver puts them together in the receive that is first in line; if a piece is missing, that
 * receive takes the next message instead. A message for which there is no receive is dropped. What
 * was dropped, and what the numbers show to be missing, is counted at the receiver (stats.lost):
 * when the next message comes, or the end of the channel.
 *
 * No message is received twice, even if the network doubles it. A datagram that others have
 * overtaken is still received; an unacknowledged message is not, because those come in order.
 */
#include "daemon/op/channel/weak.h"
#include "daemon/base/guard.h"
#include "daemon/op/channel/carry.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/channel/recv.h"
#include <assert.h>

#define BUDGET 64u /* SENDs in a turn of the channel */
#define LATE_MAX 64u
#define LOST_MAX (UINT64_C(1) << 32) /* at a time */

/* ---- out --------------------------------------------------------------------------------- */

uint64_t weak_most(const struct fabric_link *link, uint32_t kind) {
    uint64_t most = kind == RDMAD_CHANNEL_DATAGRAM ? link->max_datagram : link->max_send;
    return most > CHANNEL_HEAD ? most - CHANNEL_HEAD : 0;
}

/* The next piece of it, or the whole. */
static int send_piece(struct op_channel *ch, struct op_send *s) {
    const struct op *op = s->op;
    assert(ch->remote && channel_weak(ch) && s->where == SEND_WAITING);
    struct channel_message *m = channel_begin(ch, CHANNEL_PIECE);
    uint64_t left = op->length - s->at, most = weak_most(ch->lane->route.link, ch->kind);
    if (ch->kind == RDMAD_CHANNEL_DATAGRAM && op->length > most)
        return RDMAD_E_RANGE;
    send_describe(s, m);
    m->seq = ch->out.next_seq;
    m->length = left < most ? left : most;
    m->payload = op->local + s->at;
    m->piece = (struct channel_piece){.whole = op->length, .at = s->at};
    int rc = channel_carry(ch, m, s);
    if (rc < 0)
        return rc;
    s->at += m->length;
    if (s->at == op->length) {
        ch->out.next_seq++;
        send_left(s);
    }
    return 0;
}

unsigned weak_run(struct op_channel *ch, bool *again) {
    unsigned count = 0;
    for (struct op_send *s; (s = send_first(ch));) {
        if (s->post.posted)
            break; /* its completion lets it go on */
        if (channel_is_held(ch))
            break;
        if (count == BUDGET) {
            channel_touch(ch);
            break;
        }
        int rc = send_piece(ch, s);
        if (rc == RDMAD_E_AGAIN)
            *again = true;
        if (rc == RDMAD_E_AGAIN || rc == RDMAD_E_PEER_LOST)
            break;
        if (rc < 0)
            weak_over(s, rc);
        count++;
    }
    return count;
}

static void weak_over_as(struct op_send *s, int status, bool untouched) {
    if (s->where == SEND_WAITING && s->at)
        s->channel->out.next_seq++; /* what comes next is another message */
    send_over(s, status, untouched ? RDMAD_FAILED_UNTOUCHED : RDMAD_UNKNOWN);
}

void weak_over(struct op_send *s, int status) {
    weak_over_as(s, status, s->at == 0);
}

void weak_posted(struct op_send *s, const struct fabric_op *fop) {
    bool first = s->at == fop->length - fop->head_size;
    if (s->where == SEND_LEAVING)
        send_settle(s);
    else if (fop->status)
        weak_over_as(s, s->cancel ? s->cancel : fop->status,
                     first && fop->outcome == RDMAD_FAILED_UNTOUCHED);
    else if (s->where == SEND_SENT)
        send_over(s, RDMAD_OK, RDMAD_DONE);
    else if (s->cancel)
        weak_over(s, s->cancel);
}

static void weak_cancel_send(struct op_send *s, int status) {
    struct op_channel *ch = s->channel;
    s->asked = true;
    if (!s->cancel)
        s->cancel = status;
    if (s->post.posted) {
        op_fabric_wake(ch->fabric, ch->worker->now_ns);
        ch->fabric->ops->cancel(&s->post.part.fop, s->cancel);
    } else {
        weak_over(s, s->cancel);
    }
}

void weak_cancel(struct op *op, int status) {
    weak_cancel_send(op->channel_data, status);
}

void weak_end(struct op_channel *ch, int code) {
    for (struct list *pos; (pos = list_first(&ch->out.waiting)) && channel_may_end(ch);) {
        struct op_send *s = list_entry(pos, struct op_send, node);
        weak_over(s, code);
    }
    list_for_each_safe (pos, &ch->out.sent) {
        struct op_send *s = list_entry(pos, struct op_send, node);
        if (!s->cancel)
            weak_cancel_send(s, code);
    }
}

/* ---- in ---------------------------------------------------------------------------------- */

static void count_lost(struct op_channel *ch, uint64_t n) {
    counter_add(&ch->stats->lost, n);
}

/* By its number: what is missing before it is counted. False: it came before, or comes too late. */
static bool piece_admit(struct op_channel *ch, uint64_t seq) {
    uint64_t *next = &ch->in.state.next;
    if (seq >= *next) {
        uint64_t missing = seq - *next;
        count_lost(ch, missing);
        ch->pieces.seen = (missing + 1 < LATE_MAX ? ch->pieces.seen << (missing + 1) : 0) | 1;
        *next = seq + 1;
        return true;
    }
    uint64_t back = *next - 1 - seq;
    if (ch->kind == RDMAD_CHANNEL_UNACKED || back >= LATE_MAX || ch->pieces.seen >> back & 1)
        return false;
    ch->pieces.seen |= UINT64_C(1) << back;
    counter_sub(&ch->stats->lost, 1); /* it was counted when others overtook it */
    return true;
}

static void take_it(struct op_channel *ch, struct op *op, const struct op_arrival *as) {
    recv_unpost(ch, op);
    recv_done(ch, op, as);
}

static void put_piece(struct op_channel *ch, struct op *op, const struct channel_message *m) {
    const uint64_t at = m->piece.at, whole = m->piece.whole;
    const void *fault = m->length ? guard_copy(op->local + at, m->payload, m->length) : NULL;
    struct op_arrival as = {.length = whole, .imm = m->imm, .flags = m->flags};
    op->some_partial = true;
    if (fault) {
        ch->worker->local.env.memory_fault(ch->worker, fault);
        ch->pieces.op = op; /* until it ends */
        recv_drop(ch, op, RDMAD_E_FAULT);
        return;
    }
    ch->pieces.assembled = at + m->length;
    ch->pieces.op = ch->pieces.assembled < whole ? op : NULL;
    if (!ch->pieces.op)
        take_it(ch, op, &as);
}

static void take_piece(struct op_channel *ch, const struct channel_message *m) {
    const uint64_t at = m->piece.at, whole = m->piece.whole;
    struct op *op = recv_first(ch);
    if (ch->pieces.op && (m->seq != ch->pieces.seq || at != ch->pieces.assembled))
        recv_drop_pieces(ch);
    if (at) {
        if (ch->pieces.op && op == ch->pieces.op)
            put_piece(ch, op, m);
        return; /* else its beginning is missing, and counted */
    }
    if (!piece_admit(ch, m->seq))
        return;
    if (!op) {
        count_lost(ch, 1);
    } else if (whole > op->length) {
        struct op_arrival as = {.length = whole, .small = true, .imm = m->imm, .flags = m->flags};
        take_it(ch, op, &as);
    } else {
        ch->pieces.seq = m->seq;
        ch->pieces.whole = whole; /* which fits: all its pieces must say so */
        put_piece(ch, op, m);
    }
}

static bool runs_ahead(const struct op_channel *ch, uint64_t next) {
    return next > ch->in.state.next && next - ch->in.state.next > LOST_MAX;
}

const char *weak_receive(struct op_channel *ch, const struct channel_message *m) {
    if (channel_has_state(m->type))
        return "a message of a channel with acknowledgements";
    if (runs_ahead(ch, m->type == CHANNEL_TOTAL ? m->total : m->seq))
        return "a number beyond all that can have been lost";
    if (m->type == CHANNEL_TOTAL) {
        if (m->total > ch->in.state.next)
            count_lost(ch, m->total - ch->in.state.next);
        return NULL;
    }
    if (ch->pieces.op && m->seq == ch->pieces.seq && m->piece.whole != ch->pieces.whole)
        return "pieces of a message that differ in how long it is";
    take_piece(ch, m);
    return NULL;
}
