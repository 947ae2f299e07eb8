/* SPDX-License-Identifier: MIT */
/*
 * weak.c - channels of the weaker kinds: datagrams, and messages that nobody acknowledges.
 *
 * No credits, no acknowledgements, nothing sent again. A SEND is done when the fabric says that it
 * has left. A message that is longer than one SEND goes as pieces, one after the other, and the
 * receiver puts them together in the receive that is first in line; a piece that is missing leaves
 * that receive to the next message. A message for which there is no receive is dropped. What was
 * dropped, and what the numbers show to be missing, is counted at the receiver (stats.lost).
 *
 * Of DATA's state only two fields are used: limit is the length of the whole message, heard where
 * this piece of it begins.
 */
#include "daemon/base/guard.h"
#include "daemon/op/channel.h"

#define BUDGET 64u /* SENDs in a turn of the channel */

/* ---- out --------------------------------------------------------------------------------- */

static uint64_t most_of(const struct op_channel *ch) {
    const struct fabric_link *link = ch->lane->route.link;
    uint64_t most = ch->kind == RDMAD_CHANNEL_DATAGRAM ? link->max_datagram : link->max_send;
    return most > CHANNEL_HEAD ? most - CHANNEL_HEAD : 0;
}

/* The next piece of it, or the whole. */
static int send_piece(struct op_channel *ch, struct op_send *s) {
    const struct op *op = s->op;
    struct channel_message m = {.say = CHANNEL_DATA, .channel = ch->peer_number};
    uint64_t left = op->length - s->at, most = most_of(ch);
    if (ch->kind == RDMAD_CHANNEL_DATAGRAM && op->length > most)
        return RDMAD_E_RANGE;
    send_describe(s, &m);
    m.seq = ch->next_seq;
    m.length = left < most ? left : most;
    m.payload = op->local + s->at;
    m.state.limit = op->length;
    m.state.heard = s->at;
    int rc = channel_carry(ch, &m, s);
    if (rc < 0)
        return rc;
    s->at += m.length;
    if (s->at == op->length) {
        ch->next_seq++;
        send_left(s);
    }
    return 0;
}

unsigned weak_run(struct op_channel *ch, bool *again) {
    unsigned count = 0;
    for (struct list *pos; (pos = list_first(&ch->waiting));) {
        struct op_send *s = list_entry(pos, struct op_send, node);
        if (s->post.posted)
            break; /* its completion lets it go on */
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

void weak_over(struct op_send *s, int status) {
    if (s->where == SEND_WAITING && s->at)
        s->channel->next_seq++; /* what comes next is another message */
    send_over(s, status, s->at ? RDMAD_UNKNOWN : RDMAD_FAILED_UNTOUCHED);
}

void weak_posted(struct op_send *s, const struct fabric_op *fop) {
    if (s->where == SEND_LEAVING)
        send_settle(s);
    else if (fop->status)
        weak_over(s, s->cancel ? s->cancel : fop->status);
    else if (s->where == SEND_SENT)
        send_over(s, RDMAD_OK, RDMAD_DONE);
    else if (s->cancel)
        weak_over(s, s->cancel);
}

void weak_cancel(struct op_send *s) {
    const struct worker *w = s->channel->worker;
    if (s->post.posted)
        w->link.ops->cancel(&s->post.part.fop, s->cancel);
    else
        weak_over(s, s->cancel);
}

void weak_end(struct op_channel *ch, int code) {
    for (struct list *pos; (pos = list_first(&ch->waiting));) {
        struct op_send *s = list_entry(pos, struct op_send, node);
        weak_over(s, code);
    }
    list_for_each_safe (pos, &ch->sent) {
        struct op_send *s = list_entry(pos, struct op_send, node);
        if (!s->cancel)
            send_cancel(ch, s->op, code);
    }
}

/* ---- in ---------------------------------------------------------------------------------- */

static void count_lost(struct op_channel *ch, uint64_t n) {
    counter_add(&ch->stats->lost, n);
}

/* By its number: what is missing before it. One that comes late was counted as lost. */
static void count_gap(struct op_channel *ch, uint64_t seq) {
    uint64_t *next = &ch->mine.next;
    if (seq >= *next) {
        count_lost(ch, seq - *next);
        *next = seq + 1;
    } else if (ch->stats->lost) {
        counter_sub(&ch->stats->lost, 1);
    }
}

static struct op *first_receive(struct op_channel *ch) {
    struct list *pos = list_first(&ch->recvs);
    return pos ? list_entry(pos, struct op, node) : NULL;
}

static void take_it(struct op_channel *ch, struct op *op, const struct op_arrival *as) {
    recv_unpost(ch, op);
    recv_done(ch, op, as);
}

static void put_piece(struct op_channel *ch, struct op *op, const struct channel_message *m) {
    const uint64_t at = m->state.heard, whole = m->state.limit;
    const void *fault = m->length ? guard_copy(op->local + at, m->payload, m->length) : NULL;
    struct op_arrival as = {.length = whole, .imm = m->imm, .flags = m->flags};
    op->some_partial = true;
    if (fault) {
        ch->worker->local.env.memory_fault(ch->worker, fault);
        ch->assembling = NULL;
        recv_cancel(ch, op, RDMAD_E_FAULT);
        return;
    }
    ch->assembled = at + m->length;
    ch->assembling = ch->assembled < whole ? op : NULL;
    if (!ch->assembling)
        take_it(ch, op, &as);
}

void weak_receive(struct op_channel *ch, const struct channel_message *m) {
    const uint64_t at = m->state.heard, whole = m->state.limit;
    struct op *op = first_receive(ch);
    if (ch->assembling && (m->seq != ch->assembling_seq || at != ch->assembled)) {
        ch->assembling = NULL;
        count_lost(ch, 1);
    }
    if (at) {
        if (ch->assembling && op == ch->assembling)
            put_piece(ch, op, m);
        return; /* else its beginning is missing, and counted */
    }
    count_gap(ch, m->seq);
    if (!op) {
        count_lost(ch, 1);
    } else if (whole > op->length) {
        struct op_arrival as = {.length = whole, .small = true, .imm = m->imm, .flags = m->flags};
        take_it(ch, op, &as);
    } else {
        ch->assembling_seq = m->seq;
        ch->assembling_length = whole; /* which fits: all its pieces must say so */
        put_piece(ch, op, m);
    }
}

const char *weak_deliver(struct op_channel *ch, const struct channel_message *m) {
    if (m->say == CHANNEL_FIN) {
        channel_fin(ch, m);
    } else if (m->say == CHANNEL_DATA) {
        if (m->state.heard > m->state.limit || m->length > m->state.limit - m->state.heard)
            return "a piece that is not within its message";
        if (m->length == 0 && m->state.limit)
            return "a piece of no bytes";
        if (ch->assembling && m->seq == ch->assembling_seq &&
            m->state.limit != ch->assembling_length)
            return "pieces of a message that differ in how long it is";
        weak_receive(ch, m);
    }
    return NULL;
}
