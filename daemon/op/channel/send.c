/* SPDX-License-Identifier: MIT */
/*
 * send.c - one SEND: it waits, is sent, and leaves.
 *
 * send_take queues it (waiting); when it was handed to the fabric or to the other end it is sent
 * (send_left); send_over says what became of it. It is told to its client as soon as neither the
 * fabric nor a window has its buffer (send_settle).
 *
 * A large message has a window, which the receiver READs. It is for the one connection on which the
 * receiver reads (via). When that is another, the window is opened anew and the new key told; the
 * READ waits meanwhile like any op on a lease whose link broke, and goes on where it was.
 */
#include "daemon/op/channel/send.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/engine/account.h"
#include "daemon/op/engine/life.h"
#include <assert.h>

static void prepend(struct list *head, struct list *node) {
    list_append(head->next, node);
}

static void count_waits(struct op_channel *ch, int by) {
    ch->out.waits = (uint32_t)((int)ch->out.waits + by);
    __atomic_store_n(&ch->stats->sends_waiting, ch->out.waits, __ATOMIC_RELAXED);
}

static void send_window_changed(struct op_window *ow, const struct error *err);

void send_begin_window(struct op_send *s) {
    assert(s->window.state == OP_WINDOW_NONE);
    op_window_init(&s->window, s->channel->worker, s->channel->fabric, send_window_changed);
}

int send_take(struct op_channel *ch, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq) {
    struct worker *w = ch->worker;
    struct op_send *s = slab_get(&w->channels->sends);
    if (!s)
        return RDMAD_E_NOMEM;
    *s = (struct op_send){.channel = ch, .where = SEND_WAITING};
    list_init(&s->due_node);
    s->op = op_new(w, r, sqe, rq);
    s->op->channel = ch;
    s->op->channel_data = s;
    s->op->far = ch->remote;
    if (ch->remote)
        send_begin_window(s);
    ch->ops++;
    counter_add(&ch->stats->sends, 1);
    if (ch->sync.state == SYNC_DONE && ch->out.next_seq + ch->out.waits >= ch->out.limit)
        counter_add(&ch->stats->stalls, 1); /* the other end's state will give it a turn */
    else
        channel_touch(ch);
    list_append(&ch->out.waiting, &s->node);
    count_waits(ch, 1);
    return 0;
}

void send_free(struct op_send *s) {
    if (s->where == SEND_WAITING)
        count_waits(s->channel, -1);
    list_remove(&s->node);
    list_remove(&s->due_node);
    slab_put(&s->channel->worker->channels->sends, s);
}

static void send_end(struct op_send *s, int status, uint8_t outcome) {
    struct op *op = s->op;
    assert(op && !s->post.posted && s->window.state == OP_WINDOW_NONE);
    struct op_result result = {.status = status, .outcome = outcome};
    if (outcome == RDMAD_DONE) {
        result.bytes = op->length;
        counter_add(&s->channel->stats->messages_sent, 1);
        counter_add(&s->channel->stats->bytes_sent, op->length);
    }
    s->op = NULL;
    counter_add(&s->channel->stats->sends, (uint64_t)-1);
    channel_op_end(s->channel, op, &result);
}

int send_drive_window(struct op_send *s) {
    const struct op_channel *ch = s->channel;
    struct op_window *ow = &s->window;
    struct error err;
    if (!ch->remote)
        return 0;
    if (!s->wants_window || !ch->via || s->lost_via == ch->via) {
        op_window_want_none(ow, RDMAD_E_LEASE_RELEASED);
        return 0;
    }
    if (ow->wanted && ow->spec.via == ch->via)
        return 0;
    assert(s->op);
    ow->spec = (struct fabric_window_spec){.peer = ch->peer_in,
                                           .via = ch->via,
                                           .base = s->op->local,
                                           .memory = s->op->memory,
                                           .length = s->op->length,
                                           .rights = RDMAD_RIGHT_READ,
                                           .deadline_ns = CLOCK_NEVER,
                                           .owner = user_id_number(s->op->session->account->who),
                                           .audit = &ow->worker->channels->audit};
    int rc = op_window_want(ow, &err);
    if (rc == RDMAD_E_PEER_LOST) {
        s->lost_via = ch->via; /* until there is another */
        return 0;
    }
    s->wants_window = rc >= 0;
    return rc < 0 ? rc : 0;
}

void send_owe(struct op_send *s, enum send_due due) {
    s->due = due;
    list_remove(&s->due_node);
    if (due != SEND_DUE_NOTHING)
        list_append(&s->channel->out.due, &s->due_node);
}

/* It will end with that status and outcome, once nothing has its buffer. */
static void send_leave(struct op_send *s, int status, uint8_t outcome) {
    assert(s->where != SEND_LEAVING && !list_empty(&s->node));
    if (s->where == SEND_WAITING)
        count_waits(s->channel, -1);
    s->where = SEND_LEAVING;
    s->status = status;
    s->outcome = outcome;
    s->wants_window = false;
    send_owe(s, SEND_DUE_NOTHING);
    list_remove(&s->node);
    list_append(&s->channel->out.leaving, &s->node);
}

/* There is no window for the message, and there will be none. A SEND that still waits is over with
 * that. */
static void send_window_failed(struct op_send *s, int code) {
    struct op_channel *ch = s->channel;
    s->wants_window = false;
    if (s->where == SEND_WAITING) {
        send_leave(s, code, RDMAD_FAILED_UNTOUCHED);
    } else if (s->where == SEND_SENT && s->op && !s->cancel) {
        s->cancel = code;
        send_ask_back(s);
    }
    channel_touch(ch);
}

void send_settle(struct op_send *s) {
    int rc = send_drive_window(s);
    if (rc < 0)
        send_window_failed(s, rc);
    if (s->post.posted || s->window.state != OP_WINDOW_NONE)
        return;
    if (s->where == SEND_LEAVING) {
        send_end(s, s->status, s->outcome);
        send_free(s);
    } else if (s->where == SEND_GIVEN_UP && s->op) {
        send_end(s, s->cancel, RDMAD_UNKNOWN);
    }
}

void send_over(struct op_send *s, int status, uint8_t outcome) {
    if (s->where == SEND_LEAVING)
        return;
    send_leave(s, status, outcome);
    if (s->op)
        send_settle(s);
    else /* it was given up, and is not told twice */
        send_free(s);
}

static void send_window_changed(struct op_window *ow, const struct error *err) {
    struct op_send *s = container_of(ow, struct op_send, window);
    struct op_channel *ch = s->channel;
    if (err && err->code == RDMAD_E_PEER_LOST)
        s->lost_via = ow->spec.via;
    else if (err)
        send_window_failed(s, err->code);
    else if (ow->state == OP_WINDOW_OPEN)
        send_owe(s, s->due); /* its key may be */
    channel_touch(ch);
    send_settle(s);
}

void send_left(struct op_send *s) {
    assert(s->where == SEND_WAITING && s->op);
    s->where = SEND_SENT;
    count_waits(s->channel, -1);
    list_remove(&s->node);
    list_append(&s->channel->out.sent, &s->node);
}

void send_return(struct op_send *s) {
    assert(s->where == SEND_SENT || s->where == SEND_GIVEN_UP);
    s->where = SEND_WAITING;
    send_owe(s, SEND_DUE_NOTHING);
    count_waits(s->channel, 1);
    list_remove(&s->node);
    prepend(&s->channel->out.waiting, &s->node);
}

void send_give_up(struct op_send *s) {
    assert(s->where == SEND_SENT && s->cancel);
    s->where = SEND_GIVEN_UP;
}

void send_ask_back(struct op_send *s) {
    assert(s->where == SEND_SENT && s->cancel);
    send_owe(s, SEND_DUE_WITHDRAW);
}

/* Those before it may be ending, but not gone yet: none overtakes them, because the other end would
 * take it for the next. So it sees what it would if they all went at once. */
struct op_send *send_first(struct op_channel *ch) {
    bool none = channel_stopped(ch) || ch->sync.parting;
    struct list *pos = none ? NULL : list_first(&ch->out.waiting);
    struct op_send *s = pos ? list_entry(pos, struct op_send, node) : NULL;
    return s && !op_ending(s->op) ? s : NULL;
}

void send_describe(const struct op_send *s, struct channel_message *m) {
    const struct op *op = s->op;
    m->seq = s->seq;
    m->length = op->length;
    m->key = (struct channel_key){s->window.key.bytes, s->window.key.size};
    m->payload = op->local;
    if (op->flags & RDMAD_SQE_IMM) {
        m->flags |= CHANNEL_FLAG_IMM;
        m->imm = op->imm;
    }
    if (op->flags & RDMAD_SQE_LEASE)
        m->flags |= CHANNEL_FLAG_LEASE;
}
