/* SPDX-License-Identifier: MIT */
/*
 * receives.c - messages meet the RECVs of a channel, and complete.
 *
 * The happy path: a RECV is posted (recv.c); the message with the number that is expected takes the
 * first that is posted, and its bytes go straight there: copied now (small), as they come
 * (landing.c) or READ (large, reading.c); it completes when all before it have. A small one behind
 * none is over before receive_message returns.
 *
 * Not so happy: no receive is posted (it was taken back after its credit was told): the message is
 * refused, which sends the sender back to it. The receive is too small: both ends are told, and the
 * next message takes the next receive. A RECV is cancelled when its message has come, but is not
 * over: everything from that message on is refused, and comes again. The message is withdrawn while
 * it is being READ: its receive goes back to the front of those posted.
 *
 * Inside op_cancel no READ or landing is cancelled, and no op ends but the one that is cancelled,
 * because the caller may be walking a list of ops. The rest is left to the channel's turn
 * (receives_run).
 */
#include "daemon/op/channel/receives.h"
#include "daemon/base/guard.h"
#include "daemon/op/channel/arrivals.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/channel/landing.h"
#include "daemon/op/channel/reading.h"
#include "daemon/op/channel/recv.h"

/* How many more messages the other end may send. */
static uint64_t credit(struct op_channel *ch) {
    return recv_first(ch) ? ch->in.posted : 0;
}

void recv_cancel(struct op_channel *ch, struct op *op, int status) {
    struct op_arrival *a = op->channel_data;
    if (!a) {
        recv_drop(ch, op, status);
        return;
    }
    if (!a->cancel)
        a->cancel = status;
    if (a->seq < ch->in.rollback)
        ch->in.rollback = a->seq;
    channel_touch(ch);
}

/* ---- over, in order ---------------------------------------------------------------------- */

static bool may_advance(const struct op_channel *ch) {
    return !((ch->in.state.small | ch->in.state.gone) >> (CHANNEL_KEEPS_UP - 1));
}

static void state_advance(struct op_channel *ch, bool small, bool gone) {
    struct channel_state *mine = &ch->in.state;
    mine->next++;
    mine->small = mine->small << 1 | small;
    mine->gone = mine->gone << 1 | gone;
    ch->due.state |= small || gone;
    if (ch->due.acks++ == 0)
        ch->due.acks_since_ns = ch->worker->now_ns;
}

/* What the other end knows need not be kept. */
void receives_heard(struct op_channel *ch, uint64_t next) {
    uint64_t unheard = ch->in.state.next - next;
    uint64_t mask = unheard < CHANNEL_KEEPS_UP ? (UINT64_C(1) << unheard) - 1 : ~UINT64_C(0);
    ch->in.heard = next;
    ch->in.state.small &= mask;
    ch->in.state.gone &= mask;
}

/* The message and its receive are over. */
static void message_deliver(struct op_channel *ch, struct op *op, const struct op_arrival *a) {
    state_advance(ch, a->small, false);
    recv_done(ch, op, a);
}

static void arrival_over(struct op_arrival *a) {
    assert(!arrival_under_way(a));
    arrival_drop(a);
}

static void complete_in_order(struct op_channel *ch) {
    for (struct list *pos; (pos = list_first(&ch->in.arrivals)) && may_advance(ch);) {
        struct op_arrival *a = list_entry(pos, struct op_arrival, node);
        if (!arrival_done(a) || a->seq >= ch->in.rollback)
            return;
        if (a->op && op_ending(a->op)) { /* nobody would hear of it */
            recv_cancel(ch, a->op, RDMAD_E_CANCELED);
            return;
        }
        if (a->op && !channel_may_end(ch))
            return;
        if (a->op)
            message_deliver(ch, a->op, a);
        else
            state_advance(ch, false, true);
        arrival_over(a);
    }
}

/* ---- coming in --------------------------------------------------------------------------- */

/* From now on no message but number expect is taken. */
static void message_refuse(struct op_channel *ch) {
    ch->in.refusing = true;
    ch->in.state.refusals++;
    ch->in.state.limit = ch->in.limit_told = ch->in.state.expect + credit(ch);
    ch->due.state = true;
}

/* Copies its bytes into the receive. Returns NULL, or the address if the memory of either client
 * has vanished. */
static const void *copy_in(struct op_channel *ch, const struct op *op,
                           const struct channel_message *m) {
    const void *fault = m->length ? guard_copy(op->local, m->payload, m->length) : NULL;
    ch->worker->channels->copied += m->length;
    if (fault)
        ch->worker->local.env.memory_fault(ch->worker, fault);
    return fault;
}

static bool of_receive(const struct op *op, const void *address) {
    return (uintptr_t)address - (uintptr_t)op->local < op->length;
}

static void arrival_begin(struct op_arrival *a, const struct op_arrival *as, struct op *op) {
    *a = *as;
    a->op = op;
    if (op)
        op->channel_data = a;
    arrival_keep(a);
}

/* The receive at the front is for this one. False: it could not be taken. */
static bool take_small(struct op_channel *ch, const struct op_arrival *as,
                       const struct channel_message *m) {
    struct op *op = list_entry(list_first(&ch->in.recvs), struct op, node);
    bool over = list_empty(&ch->in.arrivals) && may_advance(ch);
    struct op_arrival *a = over ? NULL : arrival_new(ch, as->seq);
    if (!over && !a)
        return false;
    struct op_arrival now = *as;
    const void *fault = now.small ? NULL : copy_in(ch, op, m);
    now.state = ARRIVAL_WHOLE;
    if (fault && !of_receive(op, fault)) {
        op->some_partial = true;
        now.state = ARRIVAL_GONE;
        op = NULL; /* the sender's: its message is gone */
    } else {
        recv_unpost(ch, op);
    }
    if (fault && op) {
        if (a)
            arrival_unused(ch, a);
        recv_end(ch, op, RDMAD_E_FAULT, RDMAD_FAILED_PARTIAL);
        return false;
    }
    if (!over)
        arrival_begin(a, &now, op);
    else if (op)
        message_deliver(ch, op, &now);
    else
        state_advance(ch, false, true);
    return true;
}

static bool take_large(struct op_channel *ch, const struct op_arrival *as,
                       const struct channel_message *m) {
    struct op *op = list_entry(list_first(&ch->in.recvs), struct op, node);
    struct op_arrival *a = arrival_new(ch, as->seq);
    if (!a)
        return false;
    recv_unpost(ch, op);
    arrival_begin(a, as, op);
    if (a->small)
        a->state = ARRIVAL_WHOLE;
    if (m->landing && !a->small)
        *m->landing = landing_start(a);
    if (a->small || m->landing || reading_start(a, m))
        return true;
    recv_repost(ch, op);
    arrival_over(a);
    return false;
}

const char *receive_message(struct op_channel *ch, const struct channel_message *m) {
    struct channel_state *mine = &ch->in.state;
    if (m->seq < mine->expect)
        return "it sends a message again that was taken";
    if (ch->in.rollback != CLOCK_NEVER)
        return NULL; /* about to be refused, with those before it */
    if (ch->sync.parting)
        return NULL; /* refused before it came */
    if (m->seq > mine->expect) {
        if (!ch->in.refusing)
            message_refuse(ch);
        return NULL;
    }
    if (m->seq >= mine->limit)
        return "it sends more than there are receives for";
    if (m->seq - mine->next >= CHANNEL_WINDOW) /* they are walked */
        return "it has more messages on their way than there may be";
    const struct op *op = recv_first(ch);
    if (!op) {
        message_refuse(ch);
        return NULL;
    }
    const struct op_arrival as = {.channel = ch,
                                  .seq = m->seq,
                                  .length = m->length,
                                  .imm = m->imm,
                                  .flags = m->flags,
                                  .small = m->length > op->length};
    /* Before it may be over: that tells the state. */
    mine->expect++;
    ch->in.refusing = false;
    bool whole = m->type == CHANNEL_DATA && !m->landing;
    if (whole ? take_small(ch, &as, m) : take_large(ch, &as, m))
        return NULL;
    mine->expect--;
    message_refuse(ch);
    return NULL;
}

/* If the message was refused or is over, neither a key nor a withdrawal matters. */
void receive_key(struct op_channel *ch, const struct channel_message *m) {
    struct op_arrival *a = arrival_find(ch, m->seq);
    if (a && a->state == ARRIVAL_READING && channel_key_good(ch, m))
        reading_key(a, m);
}

void receive_withdraw(struct op_channel *ch, const struct channel_message *m) {
    struct op_arrival *a = arrival_find(ch, m->seq);
    if (!a || arrival_done(a))
        return;
    a->withdrawn = true;
    arrival_note(a);
}

/* ---- the channel's turn ------------------------------------------------------------------ */

/* A READ or a landing that is over: its message is whole, or gone, or is to come again. */
static void settle_reading(struct op_arrival *a) {
    struct op_channel *ch = a->channel;
    assert(a->state == ARRIVAL_ENDED && a->op);
    ch->in.stopping -= a->seq >= ch->in.stopped_from;
    reading_close(a);
    if (a->status == RDMAD_OK) {
        a->state = ARRIVAL_WHOLE;
    } else if (a->status == RDMAD_E_PEER_LOST || a->seq >= ch->in.rollback) {
        a->state = ARRIVAL_VOID;
        if (a->seq < ch->in.rollback)
            ch->in.rollback = a->seq;
    } else {
        a->state = ARRIVAL_GONE;
        recv_repost(ch, a->op);
        a->op = NULL;
    }
}

static void arrival_stop(struct op_arrival *a) {
    if (a->state == ARRIVAL_READING)
        reading_stop(a);
    else
        landing_stop(a, RDMAD_E_CANCELED);
}

/* Those from number rollback on, each once. */
static void stop_from_rollback(struct op_channel *ch) {
    uint64_t to = ch->in.stopped_from;
    if (ch->in.rollback >= to)
        return;
    ch->in.stopped_from = ch->in.rollback;
    struct op_arrival *a = arrival_find(ch, ch->in.rollback);
    assert(a);
    for (struct list *pos = &a->node; pos != &ch->in.arrivals; pos = pos->next) {
        a = list_entry(pos, struct op_arrival, node);
        if (a->seq >= to)
            return;
        if (!arrival_under_way(a))
            continue;
        ch->in.stopping++;
        arrival_stop(a);
    }
}

/* Only what changed is looked at: others may be very many, and wait for long. */
static void tidy(struct op_channel *ch) {
    do {
        stop_from_rollback(ch);
        for (struct list *pos; (pos = list_pop(&ch->in.attention));) {
            struct op_arrival *a = list_entry(pos, struct op_arrival, attention_node);
            if (a->withdrawn)
                arrival_stop(a);
            if (a->state == ARRIVAL_ENDED)
                settle_reading(a);
        }
    } while (ch->in.rollback < ch->in.stopped_from);
}

/* Everything from number rollback on is as if it had not come. The rest of many in a later turn. */
static void roll_back(struct op_channel *ch) {
    for (struct list *pos; (pos = ch->in.arrivals.prev) != &ch->in.arrivals;) {
        struct op_arrival *a = list_entry(pos, struct op_arrival, node);
        struct op *op = a->op;
        int cancel = a->cancel;
        if (a->seq < ch->in.rollback)
            break;
        if (op && cancel && !channel_may_end(ch))
            return;
        arrival_over(a);
        if (op && cancel)
            recv_end(ch, op, cancel, RDMAD_FAILED_PARTIAL);
        else if (op)
            recv_repost(ch, op);
    }
    ch->in.state.expect = ch->in.rollback;
    ch->in.rollback = ch->in.stopped_from = CLOCK_NEVER;
    message_refuse(ch);
    channel_touch(ch); /* if it ends, so do the receives that are posted again */
}

/* It rides on whatever is told; by itself only when the sender is about to run out. */
static void raise_limit(struct op_channel *ch) {
    struct channel_state *mine = &ch->in.state;
    uint64_t limit = mine->expect + credit(ch);
    if (limit > mine->limit)
        mine->limit = limit;
    if (mine->limit > ch->in.limit_told && ch->in.limit_told <= mine->expect + ch->in.posted / 2)
        ch->due.state = true;
}

void receives_run(struct op_channel *ch) {
    if (!list_empty(&ch->in.arrivals)) {
        tidy(ch);
        complete_in_order(ch);
    }
    stop_from_rollback(ch);
    if (ch->in.rollback != CLOCK_NEVER && !ch->in.stopping)
        roll_back(ch);
    if (ch->in.rollback == CLOCK_NEVER)
        raise_limit(ch);
}

void receives_refuse(struct op_channel *ch) {
    message_refuse(ch);
    channel_touch(ch);
}

/* What has come, but did not complete, is as if it had not. */
void receives_rest(struct op_channel *ch) {
    if (!list_empty(&ch->in.arrivals) && ch->in.state.next < ch->in.rollback)
        ch->in.rollback = ch->in.state.next;
}

bool receives_rested(const struct op_channel *ch) {
    return list_empty(&ch->in.arrivals) && ch->in.rollback == CLOCK_NEVER;
}

void receives_begin_anew(struct op_channel *ch) {
    ch->in.refusing = false;
    ch->in.state = (struct channel_state){.next = 0};
    ch->in.limit_told = ch->in.heard = 0;
}

void receives_end(struct op_channel *ch, int status) {
    for (struct list *pos; (pos = list_first(&ch->in.recvs)) && channel_may_end(ch);)
        recv_cancel(ch, list_entry(pos, struct op, node), status);
    receives_rest(ch); /* so they are posted again, and end like the others */
}
