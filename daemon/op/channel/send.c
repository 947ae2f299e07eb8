/* SPDX-License-Identifier: MIT */
/*
 * send.c - one SEND: it waits, is sent, and leaves.
 *
 * send_take queues it (waiting); when it was handed to the fabric or to the other end it is sent
 * (send_left); send_over says what became of it. It is told to its client as soon as neither the
 * fabric nor a window has its buffer (send_settle).
 */
#include "daemon/op/channel/send.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/channel/rendezvous.h"
#include "daemon/op/engine/life.h"

static void prepend(struct list *head, struct list *node) {
    list_append(head->next, node);
}

static void count_waits(struct op_channel *ch, int by) {
    ch->waits = (uint32_t)((int)ch->waits + by);
    __atomic_store_n(&ch->stats->sends_waiting, ch->waits, __ATOMIC_RELAXED);
}

int send_take(struct op_channel *ch, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq) {
    struct worker *w = ch->worker;
    struct op_send *s = slab_get(&w->channels->sends);
    if (!s)
        return RDMAD_E_NOMEM;
    *s = (struct op_send){.channel = ch, .where = SEND_WAITING};
    s->op = op_new(w, r, sqe, rq);
    s->op->channel = ch;
    s->op->channel_data = s;
    s->window.send = s;
    s->window.worker = w;
    s->window.seat = ch->seat;
    ch->ops++;
    if (ch->synced && ch->next_seq + ch->waits >= ch->limit)
        counter_add(&ch->stats->stalls, 1); /* the other end's state will give it a turn */
    else
        channel_touch(ch);
    list_append(&ch->waiting, &s->node);
    count_waits(ch, 1);
    return 0;
}

void send_free(struct op_send *s) {
    if (s->where == SEND_WAITING)
        count_waits(s->channel, -1);
    list_remove(&s->node);
    slab_put(&s->channel->worker->channels->sends, s);
}

static void send_end(struct op_send *s, int status, uint8_t outcome) {
    struct op *op = s->op;
    struct op_result result = {.status = status, .outcome = outcome};
    if (outcome == RDMAD_DONE) {
        result.bytes = op->length;
        counter_add(&s->channel->stats->messages_sent, 1);
        counter_add(&s->channel->stats->bytes_sent, op->length);
    }
    s->op = NULL;
    channel_op_end(s->channel, op, &result);
}

void send_settle(struct op_send *s) {
    if (!window_drive(s) || s->post.posted || !window_none(s))
        return;
    if (s->where == SEND_LEAVING) {
        send_end(s, s->status, s->outcome);
        send_free(s);
    } else if (s->given_up && s->op) {
        send_end(s, s->cancel, RDMAD_UNKNOWN);
    }
}

void send_over(struct op_send *s, int status, uint8_t outcome) {
    struct op_channel *ch = s->channel;
    if (s->where == SEND_LEAVING)
        return;
    if (s->where == SEND_WAITING)
        count_waits(ch, -1);
    s->where = SEND_LEAVING;
    s->status = status;
    s->outcome = outcome;
    s->wants_window = false;
    list_remove(&s->node);
    if (!s->op) { /* it was given up, and is not told twice */
        slab_put(&ch->worker->channels->sends, s);
        return;
    }
    list_append(&ch->leaving, &s->node);
    send_settle(s);
}

void send_left(struct op_send *s) {
    s->where = SEND_SENT;
    count_waits(s->channel, -1);
    list_remove(&s->node);
    list_append(&s->channel->sent, &s->node);
}

void send_return(struct op_send *s) {
    s->where = SEND_WAITING;
    count_waits(s->channel, 1);
    list_remove(&s->node);
    prepend(&s->channel->waiting, &s->node);
}

/* Those before it may be ending, but not gone yet: none overtakes them, for the other end would
 * take it for the next. So it sees what it would if they all went at once. */
struct op_send *send_first(struct op_channel *ch) {
    struct list *pos = channel_stopped(ch) ? NULL : list_first(&ch->waiting);
    struct op_send *s = pos ? list_entry(pos, struct op_send, node) : NULL;
    return s && !op_ending(s->op) ? s : NULL;
}

void send_describe(const struct op_send *s, struct channel_message *m) {
    const struct op *op = s->op;
    m->seq = s->seq;
    m->length = op->length;
    m->key = (struct channel_key){s->key.bytes, s->key.size};
    m->payload = op->local;
    if (op->flags & RDMAD_SQE_IMM) {
        m->flags |= CHANNEL_FLAG_IMM;
        m->imm = op->imm;
    }
    if (op->flags & RDMAD_SQE_LEASE)
        m->flags |= CHANNEL_FLAG_LEASE;
}
