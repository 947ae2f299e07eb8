/* SPDX-License-Identifier: MIT */
/*
 * ring.c - submitting and completing.
 *
 * The happy path: reserve takes a slot and a sq entry; submit writes the slot's token into each new
 * entry, publishes the tail once, and rings the doorbell if the daemon sleeps; peek copies a
 * completion, finds the slot by its token, and puts the user's user_data back; seen returns the
 * slot and, at the end of a batch, publishes the head.
 *
 * The copy is not only for user_data: the daemon's memory is read once and judged after that. A
 * completion for something that was not asked for means that the daemon is broken, and the session
 * is given up.
 *
 * When the daemon is lost, what it had published is still delivered; after that each op in flight
 * completes from its slot with RDMAD_E_DAEMON_LOST.
 */
#include "libclient/ring.h"

#include "common/ringword.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LOOKS_PER_CLOCK 1024u
#define CHECK_EVERY_NS UINT64_C(10000000)

struct rdmad_ring *rdmad_ring_new(struct rdmad_session *s, const struct rdmad_ring_parts *parts) {
    struct rdmad_ring *r = calloc(1, sizeof(*r));
    uint32_t n = parts->sq_entries;

    if (!r)
        return NULL;
    r->session = s;
    r->handle = parts->handle;
    r->client = parts->client;
    r->daemon = parts->daemon;
    r->sqe = (struct rdmad_sqe *)((char *)parts->client + RDMAD_RING_ENTRIES_OFFSET);
    r->cqe = (const struct rdmad_cqe *)((const char *)parts->daemon + RDMAD_RING_ENTRIES_OFFSET);
    r->doorbell = parts->doorbell;
    r->entries = n;
    r->cq_entries = parts->cq_entries;
    r->spin_max_ns = r->spin_ns = s->spin_ns;
    r->slot = calloc(n, sizeof(*r->slot));
    r->free_slot = calloc(n, sizeof(*r->free_slot));
    r->slot_of = calloc(n, sizeof(*r->slot_of));
    if (!r->slot || !r->free_slot || !r->slot_of) {
        rdmad_ring_free(r);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        r->free_slot[i] = n - 1 - i;
    r->free_slots = n;
    return r;
}

void rdmad_ring_free(struct rdmad_ring *r) {
    free(r->slot);
    free(r->free_slot);
    free(r->slot_of);
    free(r);
}

/* ---- submitting ---------------------------------------------------------------------------- */

struct rdmad_sqe *rdmad_ring_reserve(rdmad_ring *r) {
    uint32_t at = r->sq_reserved & (r->entries - 1), slot;
    struct rdmad_sqe *sqe = &r->sqe[at];

    if (r->free_slots == 0)
        return NULL;
    slot = r->free_slot[--r->free_slots];
    r->slot[slot].state = RDMAD_SLOT_RESERVED;
    r->slot_of[at] = slot;
    r->sq_reserved++;
    /* An entry that nobody prepares is refused by the daemon, not taken for the last one in this
     * place. */
    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = UINT8_MAX;
    return sqe;
}

/* Moves the user's user_data from the entry to its slot and leaves a token. */
static void seal_entry(struct rdmad_ring *r, uint32_t at, enum rdmad_slot_state state) {
    struct rdmad_sqe *sqe = &r->sqe[at];
    uint32_t index = r->slot_of[at];
    struct rdmad_slot *slot = &r->slot[index];

    slot->user_data = sqe->user_data;
    slot->lease = sqe->lease;
    slot->lease_offset = sqe->lease_offset;
    slot->length = sqe->length;
    slot->opcode = sqe->opcode;
    slot->state = (uint8_t)state;
    slot->generation++;
    sqe->user_data = (uint64_t)slot->generation << 32 | index;
}

static void publish_head(struct rdmad_ring *r) {
    if (r->cq_head_published == r->cq_head)
        return;
    ringword_publish(&r->client->cq_head, r->cq_head);
    r->cq_head_published = r->cq_head;
}

int rdmad_ring_submit(rdmad_ring *r) {
    uint32_t count = r->sq_reserved - r->sq_tail;
    bool lost = rdmad_is_lost(r->session);

    if (count == 0)
        return 0;
    for (uint32_t i = r->sq_tail; i != r->sq_reserved; i++)
        seal_entry(r, i & (r->entries - 1), lost ? RDMAD_SLOT_UNSENT : RDMAD_SLOT_PUBLISHED);
    r->sq_tail = r->sq_reserved;
    __atomic_add_fetch(&r->in_flight, count, __ATOMIC_RELAXED);
    if (lost)
        return rdmad_fail_lost(r->session);
    publish_head(r); /* or the daemon might find no room for completions */
    if (ringword_publish_and_ask(&r->client->sq_tail, r->sq_tail, &r->daemon->sq_wait))
        send(r->doorbell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* full is as good as rung */
    return (int)count;
}

/* ---- completing ---------------------------------------------------------------------------- */

bool rdmad_ring_drain(struct rdmad_ring *r) {
    char bytes[64];
    ssize_t n;

    do
        n = recv(r->doorbell, bytes, sizeof(bytes), MSG_DONTWAIT);
    while (n == (ssize_t)sizeof(bytes) || (n < 0 && errno == EINTR));
    return n > 0 || (n < 0 && errno == EAGAIN);
}

static void lose(struct rdmad_ring *r, const char *why) {
    pthread_mutex_lock(&r->session->lock);
    rdmad_control_lose(r->session, RDMAD_E_DAEMON_LOST, why);
    pthread_mutex_unlock(&r->session->lock);
}

void rdmad_ring_closed(struct rdmad_ring *r) {
    /* The daemon may have said on the socket why. */
    if (!rdmad_check_lost(r->session))
        lose(r, "rdmad closed the ring: it was stopped or has ended this session");
}

/* Whether there are completions not taken yet, by the shared word. */
static bool look(struct rdmad_ring *r) {
    uint32_t tail = ringword_peek(&r->daemon->cq_tail);

    if (tail == r->cq_tail)
        return r->cq_head != r->cq_tail;
    if (r->armed) {
        tail = ringword_disarm_and_peek(&r->client->cq_wait, &r->daemon->cq_tail);
        r->armed = false;
    } else if (r->rung) {
        rdmad_ring_drain(r); /* now the last byte has come */
        r->rung = false;
    }
    if (tail - r->cq_head > __atomic_load_n(&r->in_flight, __ATOMIC_RELAXED)) {
        lose(r, "rdmad published completions of ops that were never submitted; the session is "
                "closed");
        return false;
    }
    r->cq_tail = tail;
    return true;
}

/* Every now and then, for a program that only ever peeks: is the daemon still there? */
static bool check_lost_sometimes(struct rdmad_ring *r) {
    struct timespec ts;
    uint64_t now;

    if (rdmad_is_lost(r->session))
        return true;
    if (++r->empty_looks % LOOKS_PER_CLOCK)
        return false;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    if (now < r->next_check_ns)
        return false;
    r->next_check_ns = now + CHECK_EVERY_NS;
    return rdmad_check_lost(r->session);
}

static int hold(struct rdmad_ring *r, uint32_t slot, const struct rdmad_cqe **cqe) {
    r->current_slot = slot;
    r->current.user_data = r->slot[slot].user_data;
    r->holding = true;
    *cqe = &r->current;
    return 0;
}

/* The completion of an op that the daemon took with it. */
static int take_lost(struct rdmad_ring *r, const struct rdmad_cqe **cqe) {
    r->dead = true;
    for (uint32_t i = 0; i < r->entries; i++) {
        const struct rdmad_slot *slot = &r->slot[i];
        if (slot->state != RDMAD_SLOT_PUBLISHED && slot->state != RDMAD_SLOT_UNSENT)
            continue;
        r->current = (struct rdmad_cqe){.status = RDMAD_E_DAEMON_LOST, .opcode = slot->opcode};
        if (slot->state == RDMAD_SLOT_UNSENT)
            r->current.outcome = RDMAD_FAILED_UNTOUCHED;
        else /* a READ's target is our own memory, which nobody writes any more */
            r->current.outcome =
                slot->opcode == RDMAD_OP_READ ? RDMAD_FAILED_PARTIAL : RDMAD_UNKNOWN;
        return hold(r, i, cqe);
    }
    return RDMAD_E_AGAIN;
}

/* The reason why a lease that the daemon has forgotten had ended, if we were told. */
static void explain_handle(struct rdmad_ring *r, const struct rdmad_slot *slot) {
    struct rdmad_session *s = r->session;
    struct rdmad_lease *lease;

    pthread_mutex_lock(&s->lock);
    lease = rdmad_lease_find(s, false, slot->lease);
    if (lease && lease->ended) {
        r->current.status = lease->ended;
        r->current.lease_id = lease->id;
    }
    pthread_mutex_unlock(&s->lock);
}

/* The next published completion; there is one. */
static int take(struct rdmad_ring *r, const struct rdmad_cqe **cqe) {
    uint32_t index;

    r->current = r->cqe[r->cq_head & (r->cq_entries - 1)];
    index = (uint32_t)r->current.user_data;
    if (index >= r->entries || r->slot[index].state != RDMAD_SLOT_PUBLISHED ||
        r->slot[index].generation != r->current.user_data >> 32) {
        lose(r, "rdmad completed an op that is not in flight; the session is closed");
        return take_lost(r, cqe);
    }
    r->cq_head++;
    if (r->current.status == RDMAD_E_NO_LEASE && r->slot[index].lease)
        explain_handle(r, &r->slot[index]);
    return hold(r, index, cqe);
}

/* Nothing is published: an old doorbell byte must not keep an event loop awake, and a daemon that
 * is gone must be noticed. */
static int take_nothing(struct rdmad_ring *r, const struct rdmad_cqe **cqe) {
    bool rung = r->rung, lost;

    if (rung && !rdmad_ring_drain(r))
        rdmad_ring_closed(r);
    lost = check_lost_sometimes(r);
    /* After a drain, and for the last words of a daemon that is gone, look once more. */
    if ((rung || lost) && !r->dead && look(r))
        return take(r, cqe);
    return lost ? take_lost(r, cqe) : RDMAD_E_AGAIN;
}

int rdmad_ring_peek(rdmad_ring *r, const struct rdmad_cqe **cqe) {
    if (r->holding) {
        *cqe = &r->current;
        return 0;
    }
    if (r->dead || (r->cq_head == r->cq_tail && !look(r)))
        return take_nothing(r, cqe);
    return take(r, cqe);
}

void rdmad_ring_seen(rdmad_ring *r, const struct rdmad_cqe *cqe) {
    if (!r->holding || cqe != &r->current)
        return;
    r->holding = false;
    r->slot[r->current_slot].state = RDMAD_SLOT_FREE;
    r->free_slot[r->free_slots++] = r->current_slot;
    __atomic_sub_fetch(&r->in_flight, 1, __ATOMIC_RELAXED);
    if (r->cq_head == r->cq_tail && !r->dead)
        publish_head(r);
}

int rdmad_ring_arm(rdmad_ring *r) {
    if (rdmad_is_lost(r->session) && __atomic_load_n(&r->in_flight, __ATOMIC_RELAXED) == 0)
        return rdmad_fail_lost(r->session);
    if (r->holding || r->dead || look(r) || rdmad_is_lost(r->session))
        return RDMAD_E_AGAIN;
    /* Drain, arm, look again: a byte that comes after the drain is for something that the last look
     * has not seen. */
    rdmad_ring_drain(r);
    r->rung = true;
    r->armed = true;
    if (ringword_arm_and_peek(&r->client->cq_wait, &r->daemon->cq_tail) == r->cq_tail)
        return 0;
    look(r);
    return RDMAD_E_AGAIN;
}

int rdmad_ring_fd(rdmad_ring *r) {
    return r->doorbell;
}
