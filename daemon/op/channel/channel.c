/* SPDX-License-Identifier: MIT */
/*
 * channel.c - the life of a channel's end, and its turn.
 *
 * Whatever happens to a channel only notes what has to be done and touches it; channels_run then
 * gives each that was touched its turn: what is whole completes, what may be sent is sent, and the
 * state is told if nothing else carried it. So a turn's worth of acknowledgements and credits is
 * one message; and the acknowledgement of a single one is none, if it is answered within a few
 * turns. A worker does not go to sleep on it.
 *
 * The end of a channel is a turn of the same kind, repeated until no op is left; the last word is
 * FIN. The other end's FIN, its lie, or the loss of its peer (over) ends the ops likewise.
 */
#include "daemon/op/channel/channel.h"
#include "daemon/op/seam/call.h"
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 8u /* in which one end answers the other's turn within this one */
/* How long an acknowledgement may wait: turns, unless they are long. */
#define ACK_TURNS 4u
#define ACK_NS 20000u
#define ACK_SKIPS 16u /* do not, after one that did in vain */

/* ---- a worker's channels ----------------------------------------------------------------- */

int channels_init(struct worker *w) {
    struct channels *all = calloc(1, sizeof(*all));
    if (!all)
        return RDMAD_E_NOMEM;
    for (unsigned i = 0; i < CHANNEL_BUCKETS; i++)
        list_init(&all->bucket[i]);
    list_init(&all->run);
    slab_init(&all->sends, sizeof(struct op_send), w->control);
    slab_init(&all->arrivals, sizeof(struct op_arrival), w->control);
    w->channels = all;
    return 0;
}

void channels_fini(struct worker *w) {
    struct channels *all = w->channels;
    if (!all)
        return;
    slab_fini(&all->sends);
    slab_fini(&all->arrivals);
    free(all);
    w->channels = NULL;
}

static struct list *bucket_of(struct channels *all, uint64_t number) {
    return &all->bucket[number * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (CHANNEL_BUCKETS - 1)];
}

struct op_channel *channel_find(const struct worker *w, uint64_t number) {
    list_for_each (pos, bucket_of(w->channels, number)) {
        struct op_channel *ch = list_entry(pos, struct op_channel, hash_node);
        if (ch->number == number)
            return ch;
    }
    return NULL;
}

void channel_touch(struct op_channel *ch) {
    if (list_empty(&ch->run_node) && ch->session)
        list_append(&ch->worker->channels->run, &ch->run_node);
}

bool channel_may_end(struct op_channel *ch) {
    if (ends_may(ch->session))
        return true;
    channel_touch(ch);
    return false;
}

void channel_op_end(struct op_channel *ch, struct op *op, const struct op_result *result) {
    ch->ops--;
    channel_touch(ch);
    op_end(ch->worker, op, result);
}

/* ---- doors ------------------------------------------------------------------------------- */

int channel_admit(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  struct op_request *rq) {
    struct op_channel *ch = slots_get(&r->session->channels, sqe->lease);
    (void)w;
    if (!ch)
        return RDMAD_E_HANDLE;
    if (ch->reason || ch->over)
        return channel_end_code(ch);
    return sqe->opcode == RDMAD_OP_SEND ? send_take(ch, r, sqe, rq) : recv_take(ch, r, sqe, rq);
}

void channel_op_cancel(struct worker *w, struct op *op, int status) {
    (void)w;
    if (op->opcode == RDMAD_OP_SEND)
        send_cancel(op->channel, op, status);
    else
        recv_cancel(op->channel, op, status);
}

void channels_lane_up(struct worker *w, struct op_lane *lane) {
    (void)w;
    list_for_each (pos, &lane->channels) {
        struct op_channel *ch = list_entry(pos, struct op_channel, lane_node);
        sends_resync(ch);
        channel_touch(ch);
    }
}

void channels_lane_down(struct worker *w, struct op_lane *lane) {
    (void)w;
    list_for_each (pos, &lane->channels) {
        struct op_channel *ch = list_entry(pos, struct op_channel, lane_node);
        sends_resync(ch);
        channel_touch(ch);
    }
}

void channels_lane_dropped(struct op_lane *lane) {
    for (struct list *pos; (pos = list_pop(&lane->channels));) {
        struct op_channel *ch = list_entry(pos, struct op_channel, lane_node);
        ch->lane = NULL;
        channel_over(ch, RDMAD_E_PEER_LOST, NULL);
    }
}

/* ---- over -------------------------------------------------------------------------------- */

static void event_closed(struct mail *mail) {
    struct op_channel *ch = container_of(mail, struct op_channel, closed_mail);
    const struct plane_session *ps = ch->owner;
    if (!ch->forgotten && !ps->dropped && ps->plane->events.channel_closed)
        ps->plane->events.channel_closed(ps->plane->events.user, ch->cookie, &ch->closed_why);
}

void channel_over(struct op_channel *ch, int code, const char *why) {
    if (ch->over)
        return;
    ch->over = code;
    ch->over_first = !ch->reason;
    channel_touch(ch);
    if (!why || !ch->over_first)
        return;
    error_set(&ch->closed_why, code, "channel %lu: %s", (unsigned long)ch->number, why);
    mailbox_post(ch->worker->control, &ch->closed_mail, event_closed);
}

/* ---- messages ---------------------------------------------------------------------------- */

static void lie(struct op_channel *ch, const char *what) {
    char why[160];
    snprintf(why, sizeof(why), "the other end's daemon breaks the protocol: %s", what);
    channel_over(ch, RDMAD_E_PROTOCOL, why);
}

void channel_fin(struct op_channel *ch, const struct channel_message *m) {
    ch->closed = true;
    if (m->flags & CHANNEL_FLAG_ABRUPT)
        channel_over(ch, RDMAD_E_CANCELED, "the other end closed it abruptly");
    else
        channel_over(ch, RDMAD_E_CLOSED, "the other end closed it");
}

void channel_deliver(struct op_channel *ch, const struct channel_message *m) {
    if (ch->over || !ch->session)
        return;
    const char *wrong = sends_state(ch, &m->state);
    if (!wrong && (m->say == CHANNEL_DATA || m->say == CHANNEL_OFFER))
        wrong = receive_message(ch, m);
    if (wrong) {
        lie(ch, wrong);
        return;
    }
    if (m->say == CHANNEL_KEY) {
        receive_key(ch, m);
    } else if (m->say == CHANNEL_WITHDRAW) {
        receive_withdraw(ch, m);
    } else if (m->say == CHANNEL_FIN) {
        channel_fin(ch, m);
    }
    channel_touch(ch);
}

/* What comes by a link that is not the other end's last was void when it was sent again. */
static bool void_now(struct op_channel *ch, const struct channel_message *m, uint64_t number) {
    if (m->say != CHANNEL_SYNC)
        return number != ch->via;
    if ((int32_t)(m->state.epoch - ch->peer_epoch) <= 0)
        return true;
    ch->peer_epoch = m->state.epoch;
    ch->via = number;
    ch->tell = true;
    landings_void(ch);
    sends_rekey(ch); /* by the same link, too: what crossed this is of an epoch gone by */
    return false;
}

static void received(struct worker *w, uint64_t peer, uint64_t number,
                     const struct channel_message *m, const char *wrong) {
    struct op_channel *ch = channel_find(w, m->channel);
    if (!ch || !ch->remote || ch->peer_in != peer || ch->over)
        return;
    if (!wrong && channel_weak(ch))
        wrong = m->landing ? "a message that lands where none does" : weak_deliver(ch, m);
    if (wrong)
        lie(ch, wrong);
    else if (!channel_weak(ch) && !void_now(ch, m, number))
        channel_deliver(ch, m);
}

void channel_received(struct worker *w, uint64_t peer, uint64_t number, const uint8_t *bytes,
                      size_t size) {
    struct channel_message m;
    const char *wrong = channel_decode(&m, bytes, size, 0);
    received(w, peer, number, &m, wrong);
}

struct fabric_landing *channel_landing(struct worker *w, uint64_t peer, uint64_t number,
                                       const uint8_t *head, size_t size, uint64_t length) {
    struct channel_message m;
    struct fabric_landing *landing = NULL;
    const char *wrong = channel_decode(&m, head, size, length);
    m.landing = &landing;
    received(w, peer, number, &m, wrong);
    return landing;
}

/* ---- a turn ------------------------------------------------------------------------------ */

/* False: there was no room for it. */
static bool say(struct op_channel *ch, uint8_t what) {
    struct channel_message m;
    if (what == CHANNEL_SYNC)
        ch->epoch++;
    channel_say(ch, &m, what);
    if (what == CHANNEL_FIN && channel_weak(ch))
        weak_fin(ch, &m);
    if (what == CHANNEL_FIN && ch->reason != RDMAD_E_CLOSED)
        m.flags = CHANNEL_FLAG_ABRUPT;
    if (channel_carry(ch, &m, NULL) == 0)
        return true;
    if (what == CHANNEL_SYNC)
        ch->epoch--;
    return false;
}

static bool can_say(const struct op_channel *ch) {
    return ch->open && !ch->over && (!ch->remote || channel_lane_up(ch));
}

static void end_ops(struct op_channel *ch) {
    if (ch->over || channel_stopped(ch))
        sends_end(ch);
    if (ch->over || ch->reason)
        receives_end(ch, channel_end_code(ch));
}

/* The acknowledgement of one message may wait for an answer to ride on, which in a conversation
 * comes at once and saves a message of the fabric each way. Where none came, the next do not wait:
 * a sender that sends one by one waits for each of them. */
static bool ack_may_wait(struct op_channel *ch) {
    struct worker *w = ch->worker;
    if (!ch->remote || ch->tell || ch->acks > 1 || ch->reason || ch->ack_turns > ACK_TURNS)
        return false;
    bool over = w->channels->hurry || ch->ack_turns == ACK_TURNS || w->now_ns - ch->ack_ns > ACK_NS;
    if (!over && !ch->ack_skips) {
        ch->ack_turns++;
        w->channels->acks_wait++;
        return true;
    }
    ch->ack_skips = ch->ack_skips ? ch->ack_skips - 1 : ACK_SKIPS;
    ch->ack_turns = ACK_TURNS + 1; /* not again if there is no room for it */
    return false;
}

static unsigned say_what_is_due(struct op_channel *ch, bool *again) {
    unsigned said = 0;
    if (ch->fresh && !channel_weak(ch)) {
        if (!say(ch, CHANNEL_SYNC)) {
            *again = true;
            return 0;
        }
        ch->fresh = false;
        said++;
    }
    said += channel_weak(ch) ? weak_run(ch, again) : sends_run(ch, again);
    if (ch->reason && ch->ops == 0 && !ch->fin_told) {
        ch->fin_tried = true;
        ch->fin_told = say(ch, CHANNEL_FIN);
        *again |= !ch->fin_told;
        return said + ch->fin_told;
    }
    if ((ch->tell || ch->acks) && !*again && !channel_weak(ch)) {
        if (ack_may_wait(ch)) {
            *again = true;
            return said;
        }
        bool told = say(ch, CHANNEL_STATE);
        *again |= !told;
        said += told;
    }
    return said;
}

static unsigned turn(struct op_channel *ch, bool *again) {
    uint32_t ops = ch->ops;
    end_ops(ch);
    receives_run(ch);
    unsigned said = can_say(ch) && !ch->fin_told ? say_what_is_due(ch, again) : 0;
    return said + (ops > ch->ops ? ops - ch->ops : 0);
}

unsigned channels_run(struct worker *w) {
    struct list *run = &w->channels->run, now, later;
    unsigned work = 0;
    list_init(&now);
    list_init(&later);
    w->channels->acks_wait = 0;
    for (unsigned round = 0; round < ROUNDS && !list_empty(run); round++) {
        list_splice(&now, run);
        for (struct list *pos; (pos = list_pop(&now));) {
            struct op_channel *ch = list_entry(pos, struct op_channel, run_node);
            bool again = false;
            work += turn(ch, &again);
            if (again && list_empty(pos))
                list_append(&later, pos);
            work += again && !ch->remote; /* no memory: nothing else will wake us */
        }
    }
    if (!list_empty(run))
        work++;
    list_splice(run, &later);
    w->channels->hurry = false;
    return work;
}

bool channels_hurry(struct worker *w) {
    w->channels->hurry = w->channels->acks_wait > 0;
    return w->channels->hurry;
}

/* ---- what the control thread asks -------------------------------------------------------- */

void table_channel_add(struct call *c) {
    struct worker *w = c->worker;
    const struct call_channel_add *about = call_channel_add(c);
    struct op_channel *ch = about->channel;
    struct channels *all = w->channels;
    struct op_session *s = &c->session->op;
    if (slots_put(&s->channels, about->handle, ch) < 0) {
        free(ch->fin);
        free(ch);
        call_fail(c, RDMAD_E_NOMEM, "channel: no room in the worker's table");
        return;
    }
    ch->session = s;
    if (about->lane) {
        ch->lane = &about->lane->op;
        list_append(&ch->lane->channels, &ch->lane_node);
    }
    list_append(bucket_of(all, ch->number), &ch->hash_node);
    call_finish(c);
}

void table_channel_open(struct call *c) {
    const struct call_channel_open *about = call_channel_open(c);
    struct op_channel *ch = slots_get(&c->session->op.channels, about->handle);
    if (ch && !ch->open) {
        ch->open = true;
        ch->peer_number = about->peer_number;
        ch->peer_worker = about->peer_worker;
        ch->synced = !ch->remote;
        ch->fresh = ch->remote;
        ch->tell = true;
        channel_touch(ch);
    }
    call_finish(c);
}

static bool end_settled(const struct op_channel *ch) {
    if (ch->ops)
        return false;
    return ch->fin_told || !can_say(ch) || (ch->fin_tried && ch->remote && !ch->linger);
}

/* The other end does not know of it yet: what still comes is counted where nobody looks, because
 * the control thread may let go of its numbers now. */
static bool channel_end_settled(struct call *c) {
    struct op_channel *ch = call_channel_end(c)->channel;
    if (!end_settled(ch))
        return false;
    ch->stats = &ch->unwatched;
    return true;
}

static void begin_end(struct op_channel *ch, int reason, bool linger) {
    if (!ch->reason || !linger) {
        ch->reason = reason;
        ch->linger = linger;
    }
    channel_touch(ch);
}

/* A handle that names nothing is no error for these two: the add may have failed. */
void table_channel_end(struct call *c) {
    struct call_channel_end *about = call_channel_end(c);
    struct op_channel *ch = slots_get(&c->session->op.channels, about->handle);
    if (!ch) {
        call_finish(c);
        return;
    }
    begin_end(ch, about->reason, about->linger);
    about->channel = ch;
    call_wait(c, channel_end_settled);
}

static void free_channel(struct mail *mail) {
    free(container_of(mail, struct op_channel, free_mail));
}

/* The fabric has nothing of it any more. Its last mail follows any that told of its end. */
void channel_posts_gone(struct op_channel *ch) {
    if (ch->posted_sends)
        return;
    free(ch->fin);
    mailbox_post(ch->worker->control, &ch->free_mail, free_channel);
}

static void forget(struct op_channel *ch) {
    for (struct list *pos; (pos = list_pop(&ch->sent));) /* given up: without ops */
        slab_put(&ch->worker->channels->sends, list_entry(pos, struct op_send, node));
    for (struct list *pos; (pos = list_pop(&ch->arrivals));) { /* taken back: without receives */
        struct op_arrival *a = list_entry(pos, struct op_arrival, node);
        landing_stop(a, RDMAD_E_CANCELED);
        slab_put(&ch->worker->channels->arrivals, a);
    }
    slots_remove(&ch->session->channels, ch->handle);
    ch->stats = &ch->unwatched;
    ch->session = NULL;
    list_remove(&ch->hash_node);
    list_remove(&ch->run_node);
    list_remove(&ch->lane_node);
    ch->lane = NULL;
    channel_posts_gone(ch);
}

static bool channel_forget_settled(struct call *c) {
    struct op_channel *ch = call_channel_end(c)->channel;
    if (!end_settled(ch))
        return false;
    forget(ch);
    return true;
}

void table_channel_forget(struct call *c) {
    struct call_channel_end *about = call_channel_end(c);
    struct op_channel *ch = slots_get(&c->session->op.channels, about->handle);
    if (!ch) {
        call_finish(c);
        return;
    }
    begin_end(ch, RDMAD_E_CLOSED, false);
    about->channel = ch;
    call_wait(c, channel_forget_settled);
}

void channels_session_end(struct op_session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    /* What was closed before the session's end stays so, and waits for nothing any more. */
    for (struct op_channel *ch; (ch = slots_next(&s->channels, &cursor, &handle));)
        begin_end(ch, ch->reason == RDMAD_E_CLOSED ? RDMAD_E_CLOSED : RDMAD_E_CANCELED, false);
}

bool channels_session_settled(struct op_session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    for (struct op_channel *ch; (ch = slots_next(&s->channels, &cursor, &handle));)
        if (!end_settled(ch))
            return false;
    return true;
}

void channels_session_gone(struct worker *w, struct op_session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    (void)w;
    for (struct op_channel *ch; (ch = slots_next(&s->channels, &cursor, &handle));)
        forget(ch);
}
