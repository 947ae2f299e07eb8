/* SPDX-License-Identifier: MIT */
/*
 * turn.c - a channel's turn.
 *
 * Whatever happens to a channel only notes what has to be done and touches it; channels_run then
 * gives each that was touched its turn: what the other end of this daemon said is read, what is
 * whole completes, what may be sent is sent, and the state is told if nothing else carried it. So
 * all acknowledgements and credits of a turn are one message; and the acknowledgement of a single
 * message needs none, if an answer on which it can ride is sent within a few turns. A worker does
 * not go to sleep before it is sent.
 *
 * What the link has no room for waits in the lane, channel by channel: the first of them asks again
 * in each turn, and when the link takes what it says the others follow. So a link that takes
 * nothing costs a turn the same however many channels have something to say on it. A channel that
 * is touched meanwhile has its turn as any, and keeps its place.
 *
 * The end of a channel is a turn of the same kind, repeated until no op is left; the last word is
 * FIN. The other end's FIN, its lie, or the loss of its peer (over) ends the ops likewise.
 */
#include "daemon/op/channel/turn.h"
#include "daemon/op/channel/carry.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/channel/deliver.h"
#include "daemon/op/channel/inbox.h"
#include "daemon/op/channel/receives.h"
#include "daemon/op/channel/rest.h"
#include "daemon/op/channel/sends.h"
#include "daemon/op/channel/sync.h"
#include "daemon/op/channel/weak.h"
#include "daemon/op/engine/rings.h"
#include "daemon/op/engine/user.h"
#include <assert.h>

#define LETTERS 64u  /* of the other end that are read in a turn */
#define ROUNDS 8u    /* in which one end answers the other's turn within this one */
#define REKEYS 2048u /* SENDs in a turn that are looked at because other ends began anew */
#define COPIES \
    262144u        /* bytes of messages that are copied in a turn; the next begins with the rest */
#define FOLLOW 64u /* channels that get room on a link which was full, in a turn */
/* How long an acknowledgement may wait: turns, unless they are long. */
#define ACK_TURNS 4u
#define ACK_NS 20000u
#define ACK_SKIPS 16u /* do not, after one that did in vain */

/* False: there was no room for it. */
static bool turn_say(struct op_channel *ch, uint8_t what) {
    if (what == CHANNEL_SYNC)
        ch->sync.epoch++;
    struct channel_message *m = channel_begin(ch, what);
    if (m && what == CHANNEL_TOTAL)
        m->total = ch->out.next_seq;
    if (m && (what == CHANNEL_FIN || what == CHANNEL_TOTAL) && ch->end.reason != RDMAD_E_CLOSED)
        m->flags = CHANNEL_FLAG_ABRUPT;
    if (m && channel_carry(ch, m, NULL) == 0)
        return true;
    if (what == CHANNEL_SYNC)
        ch->sync.epoch--;
    return false;
}

static void end_ops(struct op_channel *ch) {
    if (channel_over(ch) || channel_stopped(ch)) {
        if (channel_weak(ch))
            weak_end(ch, channel_end_code(ch));
        else
            sends_end(ch);
    }
    if (channel_over(ch) || channel_ending(ch))
        receives_end(ch, channel_end_code(ch));
}

/* The acknowledgement of one message may wait for an answer to ride on, which in a conversation
 * comes at once and saves a message of the fabric each way. Where none came, the next do not wait:
 * a sender that sends one by one waits for each of them. */
static bool ack_may_wait(struct op_channel *ch) {
    struct worker *w = ch->worker;
    if (!ch->remote || ch->due.state || ch->due.acks > 1 || channel_ending(ch) ||
        ch->due.ack_turns > ACK_TURNS)
        return false;
    bool over = w->channels->hurry || ch->due.ack_turns == ACK_TURNS ||
                w->now_ns - ch->due.acks_since_ns > ACK_NS;
    if (!over && !ch->due.ack_skips) {
        ch->due.ack_turns++;
        w->channels->acks_wait++;
        return true;
    }
    ch->due.ack_skips = ch->due.ack_skips ? ch->due.ack_skips - 1 : ACK_SKIPS;
    ch->due.ack_turns = ACK_TURNS + 1; /* not again if there is no room for it */
    return false;
}

static bool say_last(struct op_channel *ch) {
    assert(ch->end.fin != FIN_TOLD);
    bool told = turn_say(ch, channel_weak(ch) ? CHANNEL_TOTAL : CHANNEL_FIN);
    ch->end.fin = told ? FIN_TOLD : FIN_TRIED;
    return told;
}

static unsigned say_what_is_due(struct op_channel *ch, bool *again) {
    unsigned said = 0;
    if (ch->sync.state == SYNC_DUE) {
        if (!turn_say(ch, CHANNEL_SYNC)) {
            *again = true;
            return 0;
        }
        sync_said(ch);
        said++;
    }
    if (!list_empty(&ch->out.waiting) || !list_empty(&ch->out.due))
        said += channel_weak(ch) ? weak_run(ch, again) : sends_run(ch, again);
    if (channel_ending(ch) && ch->ops == 0) {
        bool told = say_last(ch);
        *again |= !told;
        return said + told;
    }
    if ((ch->due.state || ch->due.acks) && !*again && !channel_weak(ch)) {
        if (ack_may_wait(ch)) {
            *again = true;
            return said;
        }
        bool told = turn_say(ch, CHANNEL_STATE);
        *again |= !told;
        said += told;
    }
    return said;
}

/* What the other end of this daemon said since. What that asks for is done in this very turn. */
static void read_inbox(struct op_channel *ch) {
    struct channel_letter *letter;
    const struct channels *all = ch->worker->channels;
    for (unsigned n = 0; n < LETTERS && all->copied < COPIES && (letter = inbox_take(ch)); n++) {
        channel_deliver(ch, &letter->message);
        letter_put(ch->worker, letter);
    }
    list_remove(&ch->run_node);
    if (!list_empty(&ch->inbox))
        channel_touch(ch);
}

static unsigned turn_run(struct op_channel *ch, bool *again) {
    uint32_t ops = ch->ops;
    if (!list_empty(&ch->inbox))
        read_inbox(ch);
    if (ch->sync.resting)
        channel_rest_run(ch);
    end_ops(ch);
    receives_run(ch);
    if (ops > ch->ops)
        rings_flush(ch->worker); /* what is acknowledged next has completed, whatever happens */
    unsigned said = channel_can_say(ch) && ch->end.fin != FIN_TOLD ? say_what_is_due(ch, again) : 0;
    return said + (ops > ch->ops ? ops - ch->ops : 0);
}

/* What was not said then waits for room, or for one of its own posts to come back, which touches
 * it; or it is one of later, with a turn in the worker's next. */
static unsigned channel_turn(struct op_channel *ch, struct list *later) {
    bool again = false;
    list_remove(&ch->run_node);
    list_remove(&ch->unended_node);
    ch->due.full = false;
    unsigned work = turn_run(ch, &again);
    if (!ch->due.full) {
        list_remove(&ch->full_node);
        if (again && list_empty(&ch->run_node) && channel_may_post(ch))
            list_append(later, &ch->run_node);
    } else if (list_empty(&ch->full_node)) {
        list_append(&ch->lane->full, &ch->full_node);
        if (list_empty(&ch->lane->full_node))
            list_append(&ch->worker->channels->full, &ch->lane->full_node);
    }
    return work + (again && !ch->remote); /* no memory: nothing else will wake us */
}

/* One that found room, but not for all, goes behind those that found none. */
static unsigned lane_run(struct op_lane *lane, struct list *later) {
    unsigned work = 0;
    struct list *pos;
    for (unsigned n = 0; (pos = list_first(&lane->full)); n++) {
        struct op_channel *ch = list_entry(pos, struct op_channel, full_node);
        if (n == FOLLOW)
            return work + 1;
        unsigned done = channel_turn(ch, later);
        work += done;
        if (!ch->due.full)
            continue;
        if (done) {
            list_remove(pos);
            list_append(&lane->full, pos);
        }
        break;
    }
    return work;
}

/* Before others, who would take the room that there is now. */
static unsigned full_lanes_run(struct worker *w, struct list *later) {
    unsigned work = 0;
    list_for_each_safe (pos, &w->channels->full) {
        struct op_lane *lane = list_entry(pos, struct op_lane, full_node);
        work += lane_run(lane, later);
        if (list_empty(&lane->full))
            list_remove(pos);
    }
    return work;
}

/* Those of a session that have more ops to end, until one of them has some left again: the others
 * would as well. */
static unsigned session_run(struct op_session *s, struct list *later) {
    unsigned work = 0;
    for (struct list *pos; (pos = list_first(&s->unended));) {
        work += channel_turn(list_entry(pos, struct op_channel, unended_node), later);
        if (!list_empty(pos))
            break;
    }
    return work;
}

static unsigned unended_run(struct worker *w, struct list *later) {
    unsigned work = 0;
    list_for_each_safe (pos, &w->channels->unended) {
        struct op_session *s = list_entry(pos, struct op_session, unended_node);
        work += session_run(s, later);
        if (list_empty(&s->unended))
            list_remove(pos);
    }
    return work;
}

/* A peer may begin anew whenever it likes. What it is told meanwhile keeps to what it said last,
 * and new keys may come later. */
static unsigned anew_run(struct worker *w) {
    struct list *anew = &w->channels->anew, *pos;
    for (unsigned looked = 0; looked < REKEYS && (pos = list_pop(anew));) {
        struct op_channel *ch = list_entry(pos, struct op_channel, anew_node);
        looked += channel_over(ch) ? 1 : sends_rekey(ch);
        channel_touch(ch);
    }
    return !list_empty(anew);
}

/* One that has sent something goes behind the others that were held. */
static unsigned released_run(struct op_user *u, struct list *later) {
    struct channels *all = u->worker->channels;
    unsigned work = 0;
    for (unsigned n = 0; n < FOLLOW && all->copied < COPIES && !user_owes_bytes(u); n++) {
        struct list *pos = list_pop(&u->held);
        if (!pos)
            break;
        struct op_channel *ch = list_entry(pos, struct op_channel, held_node);
        all->released = ch;
        work += channel_turn(ch, later);
        all->released = NULL;
    }
    if (list_empty(&u->held) || user_owes_bytes(u))
        list_remove(&u->released_node);
    return work + !list_empty(&u->released_node);
}

/* Of those whose users may send again, each other time behind what these have on routes. */
static unsigned all_released_run(struct worker *w, struct list *later) {
    unsigned work = 0;
    list_for_each_safe (pos, &w->released) {
        struct op_user *u = list_entry(pos, struct op_user, released_node);
        work += u->routes_first ? 1 : released_run(u, later);
        u->routes_first = false;
    }
    return work;
}

unsigned channels_run(struct worker *w) {
    struct list *run = &w->channels->run, now, later;
    list_init(&now);
    list_init(&later);
    w->channels->acks_wait = 0;
    w->channels->copied = 0;
    unsigned work = anew_run(w);
    if (!list_empty(&w->released))
        work += all_released_run(w, &later);
    work += unended_run(w, &later);
    work += full_lanes_run(w, &later);
    for (unsigned round = 0; round < ROUNDS && !list_empty(run); round++) {
        list_splice(&now, run);
        for (struct list *pos; (pos = list_pop(&now));) {
            work += channel_turn(list_entry(pos, struct op_channel, run_node), &later);
            if (w->channels->copied >= COPIES)
                break;
        }
        if (!list_empty(&now)) { /* they are the first then */
            list_splice(&now, run);
            list_splice(run, &now);
            break;
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
