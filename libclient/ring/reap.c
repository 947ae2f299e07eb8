/* SPDX-License-Identifier: MIT */
/*
 * reap.c - completions come off the queue.
 *
 * The happy path: peek copies a completion, finds the slot by its token, ends what the op (and its
 * batch) held, and puts the user's user_data back; seen returns the slot. Completions that are not
 * for peek are laid aside on the way.
 *
 * The copy is not only for user_data: the daemon's memory is read once and judged after that. A
 * completion for something that was not asked for means that the daemon is broken, and the session
 * is given up.
 *
 * When the daemon is lost, what it had published is still delivered; after that each op in flight
 * completes from its slot with RDMAD_E_DAEMON_LOST. What a daemon that stops says it has not taken,
 * and can be that, waits for the next one instead, and so do receives that have no message yet
 * (keep.h). If the session finds another daemon the ring is revived there, by whoever comes to look
 * for completions next.
 */
#include "libclient/ring/reap.h"
#include "common/ringword.h"
#include "libclient/base/error.h"
#include "libclient/control/presence.h"
#include "libclient/lease/lease.h"
#include "libclient/ring/chain.h"
#include "libclient/ring/keep.h"
#include "libclient/ring/let_go.h"
#include "libclient/ring/revive.h"
#include "libclient/ring/slots.h"
#include "libclient/ring/wakeup.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define LOOKS_PER_CLOCK 1024u
#define CHECK_EVERY_NS UINT64_C(10000000)

enum kind { FOR_NOBODY, FOR_PEEK, FOR_DISPATCH };

/* ---- the daemon's end ---------------------------------------------------------------------- */

void rdmad_ring_lose(struct rdmad_ring *r, const char *why) {
    pthread_mutex_lock(&r->session->lock);
    rdmad_control_lose(r->session, RDMAD_E_DAEMON_LOST, why);
    pthread_mutex_unlock(&r->session->lock);
}

void rdmad_ring_closed(struct rdmad_ring *r) {
    struct rdmad_session *s = r->session;
    /* The daemon may have said on the socket why. */
    if (rdmad_check_gone(s))
        return;
    /* What lies there is the last that it said, also where the kernel closed the ring first. */
    pthread_mutex_lock(&s->lock);
    if (!rdmad_ring_is_stale(r))
        rdmad_control_receive(s);
    if (!rdmad_ring_is_stale(r))
        rdmad_control_gone(s, "rdmad closed the ring: it was stopped or has ended this session");
    pthread_mutex_unlock(&s->lock);
}

/* Every now and then, for a program that only ever peeks: is the daemon still there? */
static bool check_gone_sometimes(struct rdmad_ring *r) {
    struct timespec ts;
    if (!rdmad_is_open(r->session))
        return true;
    if (++r->empty_looks % LOOKS_PER_CLOCK)
        return false;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    uint64_t now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    if (now < r->next_check_ns)
        return false;
    r->next_check_ns = now + CHECK_EVERY_NS;
    if (r->expected)
        rdmad_presence_ask(r->session);
    return rdmad_check_gone(r->session);
}

/* Whether there are completions not taken yet, by the shared word. */
static bool cq_look(struct rdmad_ring *r) {
    uint32_t tail = ringword_peek(&r->daemon->cq_tail);
    if (tail == r->cq_tail)
        return r->cq_head != r->cq_tail;
    if (r->wakeup_state == RDMAD_WAKEUP_ARMED) {
        tail = ringword_disarm_and_peek(&r->client->cq_wait, &r->daemon->cq_tail);
        r->wakeup_state = RDMAD_WAKEUP_STALE;
    } else if (r->wakeup_state == RDMAD_WAKEUP_STALE) {
        rdmad_ring_drain(r); /* now the last byte has come */
        r->wakeup_state = RDMAD_WAKEUP_EMPTY;
    }
    if (tail - r->cq_head > r->expected) {
        rdmad_ring_lose(r, "rdmad published completions of ops that were never submitted; the "
                           "session is closed");
        return false;
    }
    r->cq_tail = tail;
    return true;
}

/* ---- sorting ------------------------------------------------------------------------------- */

/* Nothing touches the op's memory any more, nor that of its batch's other members, whose slots are
 * free with that. */
static void op_end_holds(struct rdmad_ring *r, uint32_t index) {
    uint32_t member = r->slot[index].before, before;
    rdmad_hold_end(&r->holds, index);
    r->slot[index].before = RDMAD_NO_SLOT;
    for (; member != RDMAD_NO_SLOT; member = before) {
        before = r->slot[member].before;
        rdmad_hold_end(&r->holds, member);
        rdmad_slot_free(r, member);
    }
}

/* The op in that slot is over. */
static enum kind op_sort(struct rdmad_ring *r, uint32_t index, int status) {
    struct rdmad_slot *slot = &r->slot[index];
    if (index == r->entries) {
        slot->state = RDMAD_SLOT_FREE;
        return FOR_NOBODY;
    }
    op_end_holds(r, index);
    rdmad_chain_ended(r, slot, status);
    slot->state = RDMAD_SLOT_OVER;
    if (slot->silent)
        r->silents--;
    if (slot->silent && status == 0) {
        if (slot->callback)
            r->calls--;
        else
            r->visible--;
        rdmad_slot_free(r, index);
        return FOR_NOBODY;
    }
    return slot->callback ? FOR_DISPATCH : FOR_PEEK;
}

static void op_lay_aside(struct rdmad_ring *r, uint32_t index, enum kind kind,
                         const struct rdmad_cqe *cqe) {
    r->slot[index].cqe = *cqe;
    rdmad_slot_append(r, kind == FOR_PEEK ? &r->over : &r->called, index);
}

static bool op_in_flight(const struct rdmad_slot *slot) {
    return slot->state == RDMAD_SLOT_PUBLISHED || slot->state == RDMAD_SLOT_UNSENT ||
           rdmad_slot_is_ahead(slot);
}

/* Whether the session's daemon, and with it the op, is gone for good. */
static bool op_is_lost(const struct rdmad_ring *r, const struct rdmad_slot *slot) {
    return op_in_flight(slot) && (!rdmad_slot_is_ahead(slot) || rdmad_is_lost(r->session));
}

/* What is known of an op that the daemon took with it. */
static uint8_t lost_outcome(const struct rdmad_slot *slot) {
    bool begun =
        slot->state == RDMAD_SLOT_PUBLISHED || slot->state == RDMAD_SLOT_KEPT || slot->begun;
    if (!begun)
        return RDMAD_FAILED_UNTOUCHED;
    /* Their target is our own memory, which the daemon has let go of. */
    return slot->opcode == RDMAD_OP_READ || slot->opcode == RDMAD_OP_RECV ? RDMAD_FAILED_PARTIAL
                                                                          : RDMAD_UNKNOWN;
}

static void op_lose(struct rdmad_ring *r, uint32_t index) {
    struct rdmad_slot *slot = &r->slot[index];
    assert(op_in_flight(slot) && !slot->member);
    struct rdmad_cqe cqe = {
        .status = RDMAD_E_DAEMON_LOST, .opcode = slot->opcode, .outcome = lost_outcome(slot)};
    for (uint32_t i = slot->before; i != RDMAD_NO_SLOT; i = r->slot[i].before) {
        uint8_t outcome = lost_outcome(&r->slot[i]);
        if (outcome > cqe.outcome) /* they are in the order of what is known less and less */
            cqe.outcome = outcome;
    }
    if (slot->cut)
        rdmad_chain_explain(slot, &cqe);
    op_lay_aside(r, index, op_sort(r, index, cqe.status), &cqe);
}

static void loop_change(int epoll, int how, int fd) {
    struct epoll_event e = {.events = EPOLLIN};
    if (epoll >= 0)
        epoll_ctl(epoll, how, fd, &e);
}

/* The wakeup is readable for ever now. What wakes event loops instead is the next daemon. */
static void ring_leave_loops(struct rdmad_ring *r) {
    struct rdmad_session *s = r->session;
    loop_change(r->epoll, EPOLL_CTL_DEL, r->wakeup);
    loop_change(r->epoll, EPOLL_CTL_ADD, s->back_fd);
    pthread_mutex_lock(&s->lock);
    r->out_of_loops = true;
    if (r->watched)
        rdmad_event_unwatch(s, r->wakeup);
    pthread_mutex_unlock(&s->lock);
}

/* ---- what the daemon left ------------------------------------------------------------------ */

/* Entries in the ring from one place on, to be given to the next daemon; of a batch whole or not at
 * all. */

static bool slot_is_cancels(const struct rdmad_ring *r, const struct rdmad_slot *slot) {
    return slot == &r->slot[r->entries];
}

/* Whether all from there on can be left: it is in flight, and none was submitted without a daemon
 * before. What has ended is told by its slot, or by the order: another op has that slot since. The
 * blocking cancel's entry is its ring's last. */
static bool left_is_sound(const struct rdmad_ring *r, uint32_t from) {
    uint32_t count = r->sq_tail - from, reserved = r->sq_reserved - r->sq_tail;
    if (count > r->entries - reserved || (r->postponed && count < r->sq_tail - r->sq_postponed))
        return false;
    const struct rdmad_slot *before = NULL;
    for (uint32_t at = from; at != r->sq_tail; at++) {
        const struct rdmad_slot *slot = rdmad_slot_at(r, at);
        bool in_turn = slot_is_cancels(r, slot) ? at + 1 == r->sq_tail
                                                : !before || slot->order > before->order;
        if (!op_in_flight(slot) || !in_turn)
            return false;
        before = slot;
    }
    return true;
}

/* The first entry from which on all can wait: behind the last batch of which something was taken,
 * or of which something was submitted when it could not be postponed. */
static uint32_t left_first(struct rdmad_ring *r, uint32_t from) {
    bool cut = rdmad_slot_at(r, from)->before != RDMAD_NO_SLOT;
    uint32_t first = from;
    for (uint32_t at = from; at != r->sq_tail; at++) {
        const struct rdmad_slot *slot = rdmad_slot_at(r, at);
        cut = cut || slot->state == RDMAD_SLOT_UNSENT;
        if (!cut || slot->member)
            continue;
        first = at + 1;
        cut = false;
    }
    return cut ? r->sq_tail : first;
}

/* The op that it names has ended, or waits with it: whoever asked sees that. */
static void left_drop_cancel(struct rdmad_ring *r, uint32_t from) {
    if (r->sq_tail != from && slot_is_cancels(r, rdmad_slot_at(r, r->sq_tail - 1)))
        r->sq_reserved = --r->sq_tail;
}

/* A daemon that stops in good order says what it has not taken. That has not been begun, and is the
 * next daemon's; or, if there will be none, it is known to have done nothing. */
static void ops_take_back(struct rdmad_ring *r) {
    if (r->state != RDMAD_RING_LIVE || !ringword_peek(&r->daemon->sq_left))
        return;
    uint32_t from = ringword_peek(&r->daemon->sq_head);
    if (!left_is_sound(r, from)) {
        rdmad_ring_lose(r, "rdmad left entries in a ring that were not in flight; the session is "
                           "closed");
        return;
    }
    left_drop_cancel(r, from);
    if (r->sq_tail == from)
        return;
    uint32_t first = rdmad_is_lost(r->session) ? r->sq_tail : left_first(r, from);
    for (uint32_t at = from; at != r->sq_tail; at++)
        rdmad_slot_at(r, at)->state =
            (int32_t)(at - first) < 0 ? RDMAD_SLOT_UNSENT : RDMAD_SLOT_POSTPONED;
    r->sq_postponed = first;
    r->postponed = r->sq_tail - first;
}

/* Every op in flight ends. A batch that was not complete yet ends when it is. */
static void ops_lose(struct rdmad_ring *r) {
    if (r->state == RDMAD_RING_LOST && !(rdmad_is_lost(r->session) && (r->postponed || r->kept)))
        return;
    ops_take_back(r);
    bool lost = rdmad_is_lost(r->session); /* or is, by that */
    if (!lost)
        rdmad_ring_keep(r);
    r->slot[r->entries].state = RDMAD_SLOT_FREE;
    for (uint32_t i = 0; i < r->entries; i++) {
        if (!op_is_lost(r, &r->slot[i]))
            continue;
        if (r->slot[i].member)
            rdmad_hold_end(&r->holds, i);
        else
            op_lose(r, i);
    }
    if (lost)
        r->postponed = r->kept = 0;
    if (r->state == RDMAD_RING_LIVE)
        ring_leave_loops(r);
    r->state = RDMAD_RING_LOST;
}

/* Why a channel has not outlived the daemon that had it. A receive that was begun on one that is
 * not there was on it when it was closed here. */
static void cqe_explain_channel(struct rdmad_ring *r, const struct rdmad_slot *slot,
                                struct rdmad_cqe *cqe) {
    struct rdmad_session *s = r->session;
    pthread_mutex_lock(&s->lock);
    int left = s->channel_left ? s->channel_left(s, slot->object) : 0;
    pthread_mutex_unlock(&s->lock);
    if (left)
        cqe->status = left;
    else if (slot->begun)
        cqe->status = RDMAD_E_CLOSED;
}

/* Why a lease that the daemon has forgotten had ended, if we were told. A NOTIFIED names a lease
 * that was granted here. */
static void cqe_explain_lease(struct rdmad_ring *r, const struct rdmad_slot *slot,
                              struct rdmad_cqe *cqe) {
    struct rdmad_session *s = r->session;
    struct rdmad_lease *lease;

    pthread_mutex_lock(&s->lock);
    rdmad_control_look(s);
    lease = rdmad_lease_find(s, slot->opcode == RDMAD_OP_NOTIFIED, slot->object);
    if (lease && lease->ended) {
        cqe->status = lease->ended;
        cqe->lease_id = lease->id;
    }
    pthread_mutex_unlock(&s->lock);
}

static bool op_is_message(const struct rdmad_slot *slot) {
    return slot->opcode == RDMAD_OP_SEND || slot->opcode == RDMAD_OP_RECV;
}

/* The daemon knows neither what came before it nor what it has forgotten. */
static void cqe_explain(struct rdmad_ring *r, const struct rdmad_slot *slot,
                        struct rdmad_cqe *cqe) {
    if (slot->begun && cqe->outcome == RDMAD_FAILED_UNTOUCHED)
        cqe->outcome = RDMAD_FAILED_PARTIAL;
    if (cqe->status == RDMAD_E_NO_LEASE && slot->object)
        cqe_explain_lease(r, slot, cqe);
    else if (cqe->status == RDMAD_E_HANDLE && op_is_message(slot))
        cqe_explain_channel(r, slot, cqe);
}

static bool op_is_owed(const struct rdmad_ring *r, uint32_t index, uint64_t generation) {
    return index <= r->entries && r->slot[index].state == RDMAD_SLOT_PUBLISHED &&
           !r->slot[index].member && r->slot[index].generation == generation;
}

/* Whoever copies what came relies on it. */
static bool cqe_fits(const struct rdmad_slot *slot, const struct rdmad_cqe *cqe) {
    return cqe->status || slot->opcode != RDMAD_OP_RECV || cqe->bytes <= slot->length;
}

static enum kind cqe_refuse(struct rdmad_ring *r, const char *why) {
    rdmad_ring_lose(r, why);
    ops_lose(r);
    return FOR_NOBODY;
}

/* The next published completion; there is one. */
static enum kind cqe_take(struct rdmad_ring *r, struct rdmad_cqe *cqe, uint32_t *out) {
    *cqe = r->cqe[r->cq_head & (r->cq_entries - 1)];
    uint32_t index = (uint32_t)cqe->user_data;
    if (!op_is_owed(r, index, cqe->user_data >> 32))
        return cqe_refuse(r, "rdmad completed an op that is not in flight; the session is closed");
    if (!cqe_fits(&r->slot[index], cqe))
        return cqe_refuse(r, "rdmad received more than there was room for; the session is closed");
    *out = index;
    r->expected--;
    if (++r->cq_head == r->cq_tail)
        rdmad_ring_publish_head(r);
    if (r->slot[index].cut)
        rdmad_chain_explain(&r->slot[index], cqe);
    else if (cqe->status)
        cqe_explain(r, &r->slot[index], cqe);
    else if (r->slot[index].opcode == RDMAD_OP_CANCEL)
        rdmad_ring_canceled(r, r->slot[index].object);
    return op_sort(r, index, cqe->status);
}

static bool cq_has(struct rdmad_ring *r) {
    return r->state == RDMAD_RING_LIVE && (r->cq_head != r->cq_tail || cq_look(r));
}

/* Nothing is published: an old wakeup must not keep an event loop awake, and a daemon that
 * is gone must be noticed. True: something may have come meanwhile. */
static bool cq_look_closer(struct rdmad_ring *r) {
    bool rung = r->wakeup_state != RDMAD_WAKEUP_EMPTY, gone;
    rdmad_ring_show_alive(r);
    if (rung && r->state == RDMAD_RING_LIVE && !rdmad_ring_drain(r))
        rdmad_ring_closed(r);
    gone = rdmad_ring_is_stale(r) || check_gone_sometimes(r);
    /* After a drain look once more; and, below, for the last words of a daemon that is gone. */
    if (rung && cq_has(r))
        return true;
    if (!gone || (r->state == RDMAD_RING_LIVE && !rdmad_ring_has_let_go(r)))
        return false;
    if (cq_has(r))
        return true;
    ops_lose(r);
    return rdmad_is_open(r->session) && rdmad_ring_revive(r) && cq_has(r);
}

void rdmad_ring_gather(struct rdmad_ring *r) {
    struct rdmad_cqe cqe;
    uint32_t index;
    while (cq_has(r) || cq_look_closer(r)) {
        enum kind kind = cqe_take(r, &cqe, &index);
        if (kind != FOR_NOBODY)
            op_lay_aside(r, index, kind, &cqe);
    }
}

/* ---- what the program sees ----------------------------------------------------------------- */

static int cqe_give(struct rdmad_ring *r, uint32_t index, const struct rdmad_cqe **cqe) {
    r->current_slot = index;
    r->current.user_data = r->slot[index].user_data;
    r->slot[index].state = RDMAD_SLOT_TAKEN;
    r->holding = true;
    *cqe = &r->current;
    return 0;
}

static int cqe_give_first(struct rdmad_ring *r, const struct rdmad_cqe **cqe) {
    uint32_t index = r->over.first;
    rdmad_slot_take_out(r, &r->over, index);
    r->current = r->slot[index].cqe;
    return cqe_give(r, index, cqe);
}

int rdmad_ring_peek(rdmad_ring *r, const struct rdmad_cqe **cqe) {
    RDMAD_LIVE(r, RING);
    uint32_t index;
    if (r->holding) {
        *cqe = &r->current;
        return 0;
    }
    while (r->over.first == RDMAD_NO_SLOT && (cq_has(r) || cq_look_closer(r))) {
        enum kind kind = cqe_take(r, &r->current, &index);
        if (kind == FOR_PEEK)
            return cqe_give(r, index, cqe);
        if (kind == FOR_DISPATCH)
            op_lay_aside(r, index, kind, &r->current);
    }
    return r->over.first == RDMAD_NO_SLOT ? RDMAD_E_AGAIN : cqe_give_first(r, cqe);
}

void rdmad_ring_seen(rdmad_ring *r, const struct rdmad_cqe *cqe) {
    RDMAD_LIVE(r, RING);
    if (!r->holding || cqe != &r->current) {
        fprintf(stderr,
                "rdmad misuse: rdmad_ring_seen: %p is not the completion that ring %llu brought "
                "last, or was seen before\n",
                (const void *)cqe, (unsigned long long)r->handle);
        abort();
    }
    r->holding = false;
    r->visible--;
    rdmad_slot_free(r, r->current_slot);
}

/* Whether a completion is there for the program to take. */
static bool cq_has_for_program(struct rdmad_ring *r) {
    return r->holding || r->over.count || r->called.count;
}

int rdmad_ring_arm(rdmad_ring *r) {
    RDMAD_LIVE(r, RING);
    if (r->expected)
        rdmad_presence_ask(r->session); /* of an event loop with a timer */
    rdmad_ring_gather(r);
    if (cq_has_for_program(r))
        return RDMAD_E_AGAIN;
    if (rdmad_is_lost(r->session) && r->state != RDMAD_RING_LIVE)
        return rdmad_fail_lost(r->session);
    if (!rdmad_is_open(r->session) || rdmad_ring_is_stale(r)) {
        if (r->state != RDMAD_RING_LIVE)
            return 0; /* an event tells when to go on */
        if (rdmad_ring_has_let_go(r))
            return RDMAD_E_AGAIN;
    } /* until then completions may come, and then the end of its wakeups */
    /* Drain, arm, look again: a byte that comes after the drain is for something that the last look
     * has not seen. */
    rdmad_ring_drain(r);
    rdmad_ring_show_alive(r); /* the byte may have been for that */
    r->wakeup_state = RDMAD_WAKEUP_ARMED;
    if (ringword_arm_and_peek(&r->client->cq_wait, &r->daemon->cq_tail) == r->cq_tail)
        return 0;
    cq_look(r);
    return RDMAD_E_AGAIN;
}

/* With the lock. Of a ring that the next daemon makes anew: what wakes event loops is another
 * descriptor then; and none until it is tried again. */
static bool ring_fill_fd(struct rdmad_ring *r, int epoll) {
    struct epoll_event e = {.events = EPOLLIN};
    if (r->wake_ns)
        return true;
    int wakes = r->state == RDMAD_RING_LIVE ? r->wakeup : r->session->back_fd;
    return epoll_ctl(epoll, EPOLL_CTL_ADD, wakes, &e) == 0;
}

static int ring_make_fd(struct rdmad_ring *r) {
    struct rdmad_session *s = r->session;
    int epoll = epoll_create1(EPOLL_CLOEXEC), rc = 0;
    pthread_mutex_lock(&s->lock); /* or it might be woken before it is known */
    if (epoll >= 0 && ring_fill_fd(r, epoll))
        r->epoll = epoll;
    else
        rc = rdmad_fail_errno(s, RDMAD_E_SYSTEM, "cannot make the descriptor of ring %llu",
                              (unsigned long long)r->handle);
    pthread_mutex_unlock(&s->lock);
    if (rc && epoll >= 0)
        close(epoll);
    return rc ? rc : epoll;
}

int rdmad_ring_fd(rdmad_ring *r) {
    RDMAD_LIVE(r, RING);
    if (rdmad_is_inherited(r->session))
        return rdmad_fail_lost(r->session);
    if (r->session->back_fd < 0)
        return r->wakeup;
    return r->epoll >= 0 ? r->epoll : ring_make_fd(r);
}
