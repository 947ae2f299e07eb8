/* SPDX-License-Identifier: MIT */
/*
 * submit.c - submitting.
 *
 * The happy path: reserve takes a slot and a sq entry; submit writes the slot's token into each new
 * entry, publishes the tail once, and wakes the daemon if it sleeps.
 *
 * Once the daemon is lost, what is submitted only marks its slots; reap.c completes them. While the
 * session is away the slots are postponed, and published when the ring is revived; but for the rest
 * of a batch of which the old daemon has the beginning.
 */
#include "libclient/ring/submit.h"
#include "common/ringword.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/control/control.h"
#include "libclient/control/presence.h"
#include "libclient/ring/chain.h"
#include "libclient/ring/keep.h"
#include "libclient/ring/reap.h"
#include "libclient/ring/slots.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

struct rdmad_sqe *rdmad_ring_reserve(rdmad_ring *r) {
    RDMAD_LIVE(r, RING);
    uint32_t at = r->sq_reserved & (r->entries - 1), index;
    struct rdmad_sqe *sqe = &r->sqe[at];
    struct rdmad_slot *slot;

    if (r->free_slots == 0 && r->silents)
        rdmad_ring_gather(r); /* some may have ended without anybody looking */
    if (r->free_slots == 0)
        return NULL;
    index = r->free_slot[--r->free_slots];
    slot = &r->slot[index];
    slot->state = RDMAD_SLOT_RESERVED;
    slot->callback = NULL;
    r->slot_of[at] = index;
    r->sq_reserved++;
    /* An entry that nobody prepares is refused by the daemon, not taken for the last one in this
     * place. */
    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = UINT8_MAX;
    return sqe;
}

void rdmad_ring_take_back(struct rdmad_ring *r, uint32_t count) {
    assert(count <= r->sq_reserved - r->sq_tail);
    while (count-- > 0) {
        uint32_t index = r->slot_of[--r->sq_reserved & (r->entries - 1)];
        rdmad_hold_end(&r->holds, index);
        rdmad_slot_free(r, index);
    }
}

int rdmad_fail_entry(const struct rdmad_ring *r, const struct rdmad_sqe *sqe) {
    return rdmad_fail(r->session, RDMAD_E_INVAL,
                      sqe ? "the entry is none that ring %llu has reserved and not submitted"
                          : "the entry is NULL: ring %llu had none free when it was reserved",
                      (unsigned long long)r->handle);
}

int rdmad_ring_unreserve(rdmad_ring *r, struct rdmad_sqe *sqe) {
    RDMAD_LIVE(r, RING);
    if (!rdmad_is_reserved(r, sqe))
        return rdmad_fail_entry(r, sqe);
    if (sqe != &r->sqe[(r->sq_reserved - 1) & (r->entries - 1)])
        return rdmad_fail(r->session, RDMAD_E_INVAL,
                          "the entry is not the one that ring %llu has reserved last: give those "
                          "back first, or make it a NOP",
                          (unsigned long long)r->handle);
    rdmad_ring_take_back(r, 1);
    return 0;
}

/* Of a batch that is complete with this entry, or of none, or in the middle of one. */
static void batch_commit(struct rdmad_ring *r, uint32_t index, bool more) {
    struct rdmad_slot *slot = &r->slot[index];
    slot->before = r->batch;
    slot->member = more;
    if (more) {
        r->batch = index;
        r->batch_members++;
        return;
    }
    slot->members = r->batch_members + 1;
    r->batch = RDMAD_NO_SLOT;
    r->batch_members = 0;
    r->expected++;
    if (slot->callback)
        r->calls++;
    else
        r->visible++;
}

/* The daemon refuses other silent entries: in a batch only the last entry may be, and a RECV is
 * useless without its completion. */
static bool entry_may_be_silent(const struct rdmad_sqe *sqe) {
    return sqe->opcode >= RDMAD_OP_READ && sqe->opcode <= RDMAD_OP_SEND &&
           !(sqe->flags & RDMAD_SQE_MORE);
}

/* Moves the user's user_data from the entry to its slot and leaves a token. */
static void entry_commit(struct rdmad_ring *r, uint32_t at, enum rdmad_slot_state state) {
    struct rdmad_sqe *sqe = &r->sqe[at];
    uint32_t index = r->slot_of[at], target;
    struct rdmad_slot *slot = &r->slot[index];
    if (sqe->opcode == RDMAD_OP_CANCEL) {
        target = rdmad_slot_find(r, sqe->lease);
        /* What is not in flight has a token that no op can have. */
        sqe->lease = target == RDMAD_NO_SLOT ? UINT64_MAX : rdmad_slot_token(r, target);
    }
    slot->user_data = sqe->user_data;
    slot->object = sqe->lease;
    slot->lease_offset = sqe->lease_offset;
    slot->length = sqe->length;
    slot->opcode = sqe->opcode;
    slot->order = r->submitted++;
    slot->silent = sqe->flags & RDMAD_SQE_SILENT && entry_may_be_silent(sqe);
    if (slot->silent) {
        sqe->flags &= (uint8_t)~RDMAD_SQE_SILENT; /* see ring.h */
        r->silents++;
    }
    slot->begun = slot->canceled = false;
    rdmad_chain_commit(r, sqe, slot, state != RDMAD_SLOT_PUBLISHED);
    slot->state = (uint8_t)state;
    slot->generation++;
    sqe->user_data = rdmad_slot_token(r, index);
    if (rdmad_opcode_may_be_kept(sqe->opcode) && r->message)
        r->message[index] = *sqe;
    batch_commit(r, index, sqe->flags & RDMAD_SQE_MORE);
}

static void ring_publish_tail(struct rdmad_ring *r) {
    rdmad_ring_publish_head(r); /* or the daemon might find no room for completions */
    if (ringword_publish_and_ask(&r->client->sq_tail, r->sq_tail, &r->daemon->sq_wait))
        eventfd_write(r->doorbell, 1);
}

/* Whether what is submitted now can wait for the next daemon. */
static bool ring_may_postpone(const struct rdmad_ring *r) {
    return !rdmad_is_lost(r->session) &&
           (r->batch == RDMAD_NO_SLOT || r->slot[r->batch].state == RDMAD_SLOT_POSTPONED);
}

/* The ring has no daemon, or none that knows it yet. */
static int ring_submit_away(struct rdmad_ring *r, uint32_t count) {
    bool postpone = ring_may_postpone(r);
    if (postpone && !r->postponed)
        r->sq_postponed = r->sq_tail;
    for (uint32_t i = r->sq_tail; i != r->sq_reserved; i++)
        entry_commit(r, i & (r->entries - 1), postpone ? RDMAD_SLOT_POSTPONED : RDMAD_SLOT_UNSENT);
    r->sq_tail = r->sq_reserved;
    if (postpone) {
        r->postponed += count;
        return (int)count;
    }
    if (r->state == RDMAD_RING_LOST)
        r->state = RDMAD_RING_LOST_UNSENT;
    return rdmad_fail_lost(r->session);
}

int rdmad_ring_submit(rdmad_ring *r) {
    RDMAD_LIVE(r, RING);
    uint32_t count = r->sq_reserved - r->sq_tail;
    if (count == 0)
        return 0;
    if (!rdmad_is_open(r->session) || rdmad_ring_is_stale(r)) {
        if (r->watched)
            rdmad_ring_gather(r); /* a ring of one thread: it may be revived by that */
        if (!rdmad_is_open(r->session) || rdmad_ring_is_stale(r))
            return ring_submit_away(r, count);
    }
    for (uint32_t i = r->sq_tail; i != r->sq_reserved; i++)
        entry_commit(r, i & (r->entries - 1), RDMAD_SLOT_PUBLISHED);
    r->sq_tail = r->sq_reserved;
    ring_publish_tail(r);
    return (int)count;
}

/* ---- all rings ----------------------------------------------------------------------------- */

/* With the lock. Rings belong to other threads; their shared words are anybody's to read. */
static bool rings_all_taken(const struct rdmad_session *s) {
    for (const struct rdmad_ring *r = s->rings; r; r = r->next) {
        if (!rdmad_ring_is_stale(r) &&
            (int32_t)(ringword_peek(&r->daemon->sq_head) - r->sq_mark) < 0)
            return false;
    }
    return true;
}

/* With the lock. An entry before the mark stays as it was submitted until it is taken; what its
 * owner writes over was taken by then. */
static bool ring_has_send(const struct rdmad_ring *r, uint64_t channel) {
    uint32_t i = ringword_peek(&r->daemon->sq_head);
    if (r->sq_mark - i > r->entries)
        i = r->sq_mark;
    for (; i != r->sq_mark; i++) {
        const struct rdmad_sqe *sqe = &r->sqe[i & (r->entries - 1)];
        if (__atomic_load_n(&sqe->opcode, __ATOMIC_ACQUIRE) == RDMAD_OP_SEND &&
            __atomic_load_n(&sqe->lease, __ATOMIC_ACQUIRE) == channel &&
            (int32_t)(ringword_peek(&r->daemon->sq_head) - i) <= 0)
            return true;
    }
    return false;
}

/* With the lock. */
static bool rings_have_send(const struct rdmad_session *s, uint64_t channel) {
    for (const struct rdmad_ring *r = s->rings; r; r = r->next) {
        if (!rdmad_ring_is_stale(r) && ring_has_send(r, channel))
            return true;
    }
    return false;
}

bool rdmad_rings_taken(struct rdmad_session *s, uint64_t channel) {
    struct timespec moment = {.tv_nsec = 20000};
    uint64_t began_ns = rdmad_monotonic_ns();
    uint64_t deadline_ns = began_ns + s->default_timeout_ns;
    uint64_t prod_ns = rdmad_ns_later(began_ns, s->call_timeout_ns);
    pthread_mutex_lock(&s->lock);
    for (struct rdmad_ring *r = s->rings; r; r = r->next)
        r->sq_mark = ringword_peek(&r->client->sq_tail);
    /* A session with as many ops in flight as it may have waits for some to end. */
    while (!rings_all_taken(s) && rdmad_monotonic_ns() < deadline_ns) {
        pthread_mutex_unlock(&s->lock);
        nanosleep(&moment, NULL);
        if (rdmad_monotonic_ns() >= prod_ns) { /* or it hangs, and takes none */
            rdmad_control_prod(s);
            prod_ns = UINT64_MAX;
        }
        if (rdmad_check_gone(s))
            return true; /* what becomes of it is not up to this daemon */
        pthread_mutex_lock(&s->lock);
    }
    bool taken = !rings_have_send(s, channel);
    pthread_mutex_unlock(&s->lock);
    return taken;
}

/* ---- the blocking cancel's entry ----------------------------------------------------------- */

/* All slots being in flight, the sq may be full of entries that the daemon has not taken yet. */
static bool ring_sq_has_room(struct rdmad_ring *r) {
    uint32_t used = r->sq_tail - ringword_peek(&r->daemon->sq_head);
    if (used > r->entries)
        rdmad_ring_lose(r, "rdmad took more entries than were submitted; the session is closed");
    return used < r->entries;
}

bool rdmad_ring_publish_cancel(struct rdmad_ring *r, uint32_t target) {
    struct timespec moment = {.tv_nsec = 20000};
    struct rdmad_slot *own = &r->slot[r->entries];
    assert(target < r->entries && own->state == RDMAD_SLOT_FREE && r->batch == RDMAD_NO_SLOT);
    while (rdmad_is_open(r->session) && !rdmad_ring_is_stale(r) && !ring_sq_has_room(r)) {
        nanosleep(&moment, NULL);
        rdmad_presence_ask(r->session);
        rdmad_check_gone(r->session);
    }
    if (!rdmad_is_open(r->session) || rdmad_ring_is_stale(r))
        return false;
    own->state = RDMAD_SLOT_PUBLISHED;
    own->generation++;
    r->slot_of[r->sq_tail & (r->entries - 1)] = r->entries;
    r->sqe[r->sq_tail++ & (r->entries - 1)] =
        (struct rdmad_sqe){.opcode = RDMAD_OP_CANCEL,
                           .lease = rdmad_slot_token(r, target),
                           .user_data = rdmad_slot_token(r, r->entries)};
    r->sq_reserved = r->sq_tail;
    r->expected++;
    ring_publish_tail(r);
    return true;
}
