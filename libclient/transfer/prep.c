/* SPDX-License-Identifier: MIT */
/*
 * prep.c - filling in entries: pointers become {pool, offset}, leases and channels become handles.
 *
 * The happy path: the entry's memory is held for the op from here on (hold.h), and the fields are
 * set. Which pool a buffer lies in is looked up under the session's lock once, and then remembered
 * in the ring, as most programs use one pool. Ranges are left to the daemon, which must check them
 * anyway.
 *
 * An entry whose prep failed holds nothing and keeps the opcode that the daemon refuses. An entry
 * may be prepared again, as something else; what it said before is gone then.
 */
#include "libclient/transfer/prep.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/channel/channel.h"
#include "libclient/lease/lease.h"
#include "libclient/ring/slots.h"
#include "libclient/ring/submit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory {
    const void *at;
    size_t length;
    bool filled; /* by the op; else it is read */
};

static bool prep_hint_fits(const struct rdmad_ring *r, const void *buffer) {
    return (uintptr_t)buffer - (uintptr_t)r->hint.base < r->hint.bytes &&
           r->hint.pools_destroyed ==
               __atomic_load_n(&r->session->pools_destroyed, __ATOMIC_ACQUIRE);
}

static bool prep_find_pool(struct rdmad_ring *r, const void *buffer) {
    struct rdmad_session *s = r->session;
    if (prep_hint_fits(r, buffer))
        return true;
    pthread_mutex_lock(&s->lock);
    struct rdmad_pool *pool = rdmad_pool_of(s, buffer);
    if (pool) {
        r->hint.pool = pool;
        r->hint.base = pool->base;
        r->hint.bytes = pool->bytes;
        r->hint.handle = pool->handle;
        r->hint.pools_destroyed = s->pools_destroyed;
    }
    pthread_mutex_unlock(&s->lock);
    return pool != NULL;
}

/* Nothing of what the entry said before stays. */
static int prep_begin(struct rdmad_ring *r, struct rdmad_sqe *sqe, uint64_t user_data) {
    if (!rdmad_is_reserved(r, sqe))
        return rdmad_fail_entry(r, sqe);
    if (sqe->opcode != UINT8_MAX) {
        rdmad_hold_end(&r->holds, rdmad_slot_of(r, sqe));
        memset(sqe, 0, sizeof(*sqe));
        sqe->opcode = UINT8_MAX;
    }
    sqe->user_data = user_data;
    return 0;
}

/* Names memory in the entry, and holds it; number is its lease's or channel's, for a refusal. */
static int prep_memory(struct rdmad_ring *r, struct rdmad_sqe *sqe, enum rdmad_opcode opcode,
                       uint64_t number, const struct memory *m) {
    int rc;

    if (rdmad_is_inherited(r->session))
        return rdmad_fail_lost(r->session); /* who holds it may be a thread that is the parent's */
    if (!prep_find_pool(r, m->at))
        return rdmad_fail(r->session, RDMAD_E_RANGE,
                          "%p lies in no pool of this session: transfers need memory that "
                          "rdmad_alloc gave out",
                          m->at);
    rc = rdmad_hold_op(&r->holds, rdmad_slot_of(r, sqe), r->hint.pool, m->at, m->length, m->filled,
                       (uint8_t)opcode, number, sqe->user_data);
    if (rc)
        return rc;
    sqe->pool = r->hint.handle;
    sqe->pool_offset = (uintptr_t)m->at - (uintptr_t)r->hint.base;
    sqe->length = m->length;
    return 0;
}

/* ---- leases -------------------------------------------------------------------------------- */

static int prep_fail_lease(const struct rdmad_ring *r, const struct rdmad_lease *lease) {
    return rdmad_fail(r->session, RDMAD_E_INVAL,
                      rdmad_lease_is_own(lease)
                          ? "lease %llu is this session's own grant: its memory is at "
                            "hand, or attach to its URI"
                          : "lease %llu was attached by another session than the ring",
                      (unsigned long long)lease->id);
}

/* memory may be NULL. */
static int prep_on_lease(struct rdmad_ring *r, struct rdmad_sqe *sqe, enum rdmad_opcode opcode,
                         const struct rdmad_lease *lease, uint64_t offset,
                         const struct memory *memory, uint64_t user_data) {
    int rc = prep_begin(r, sqe, user_data);

    if (rc)
        return rc;
    if (rdmad_lease_is_own(lease) || lease->session != r->session)
        return prep_fail_lease(r, lease);
    if (memory) {
        rc = prep_memory(r, sqe, opcode, rdmad_lease_number(lease), memory);
        if (rc)
            return rc;
    }
    sqe->opcode = (uint8_t)opcode;
    sqe->lease = lease->handle;
    sqe->lease_offset = offset;
    return 0;
}

int rdmad_prep_write(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease, uint64_t offset,
                     const void *buffer, size_t length, uint64_t user_data) {
    RDMAD_LIVE(ring, RING);
    RDMAD_LIVE(lease, LEASE);
    const struct memory m = {.at = buffer, .length = length};

    return prep_on_lease(ring, sqe, RDMAD_OP_WRITE, lease, offset, &m, user_data);
}

int rdmad_prep_read(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease, uint64_t offset,
                    void *buffer, size_t length, uint64_t user_data) {
    RDMAD_LIVE(ring, RING);
    RDMAD_LIVE(lease, LEASE);
    const struct memory m = {.at = buffer, .length = length, .filled = true};

    return prep_on_lease(ring, sqe, RDMAD_OP_READ, lease, offset, &m, user_data);
}

int rdmad_prep_write_notify(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                            uint64_t offset, const void *buffer, size_t length, uint32_t imm,
                            uint64_t user_data) {
    RDMAD_LIVE(ring, RING);
    RDMAD_LIVE(lease, LEASE);
    const struct memory m = {.at = buffer, .length = length};
    int rc = prep_on_lease(ring, sqe, RDMAD_OP_NOTIFY, lease, offset, length || buffer ? &m : NULL,
                           user_data);

    if (!rc)
        sqe->imm = imm;
    return rc;
}

static int prep_atomic(struct rdmad_ring *r, struct rdmad_sqe *sqe, enum rdmad_opcode opcode,
                       const struct rdmad_lease *lease, uint64_t offset, uint64_t compare,
                       uint64_t swap, uint64_t user_data) {
    int rc = prep_on_lease(r, sqe, opcode, lease, offset, NULL, user_data);

    if (rc)
        return rc;
    sqe->compare = compare;
    sqe->swap = swap;
    sqe->length = sizeof(uint64_t);
    return 0;
}

int rdmad_prep_cas(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease, uint64_t offset,
                   uint64_t expected, uint64_t desired, uint64_t user_data) {
    RDMAD_LIVE(ring, RING);
    RDMAD_LIVE(lease, LEASE);
    return prep_atomic(ring, sqe, RDMAD_OP_CAS, lease, offset, expected, desired, user_data);
}

int rdmad_prep_fetch_add(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                         uint64_t offset, uint64_t add, uint64_t user_data) {
    RDMAD_LIVE(ring, RING);
    RDMAD_LIVE(lease, LEASE);
    return prep_atomic(ring, sqe, RDMAD_OP_FADD, lease, offset, 0, add, user_data);
}

int rdmad_prep_notified(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                        uint64_t user_data) {
    RDMAD_LIVE(ring, RING);
    RDMAD_LIVE(lease, LEASE);
    int rc = prep_begin(ring, sqe, user_data);

    if (rc)
        return rc;
    if (!rdmad_lease_is_own(lease) || lease->session != ring->session)
        return rdmad_fail(ring->session, RDMAD_E_INVAL,
                          "lease %llu was not granted by the ring's session: only its owner takes "
                          "its notifications",
                          (unsigned long long)rdmad_lease_number(lease));
    __atomic_store_n(&ring->session->takes_notices, true, __ATOMIC_RELAXED);
    sqe->opcode = RDMAD_OP_NOTIFIED;
    sqe->lease = rdmad_lease_number(lease);
    return 0;
}

/* ---- channels ------------------------------------------------------------------------------ */

int rdmad_prep_message(struct rdmad_ring *r, struct rdmad_sqe *sqe, enum rdmad_opcode opcode,
                       uint64_t channel, const void *buffer, size_t length, uint64_t user_data) {
    const struct memory m = {.at = buffer, .length = length, .filled = opcode == RDMAD_OP_RECV};
    int rc = prep_begin(r, sqe, user_data);
    if (!rc)
        rc = prep_memory(r, sqe, opcode, channel, &m);
    if (rc)
        return rc;
    sqe->opcode = (uint8_t)opcode;
    sqe->lease = channel;
    return 0;
}

static int prep_on_channel(struct rdmad_ring *r, struct rdmad_sqe *sqe, enum rdmad_opcode opcode,
                           const struct rdmad_channel *channel, const void *buffer, size_t length,
                           uint64_t user_data) {
    if (channel->session == r->session)
        return rdmad_prep_message(r, sqe, opcode, channel->handle, buffer, length, user_data);
    int rc = prep_begin(r, sqe, user_data);
    return rc ? rc
              : rdmad_fail(r->session, RDMAD_E_INVAL,
                           "channel %llu belongs to another session than the ring",
                           (unsigned long long)channel->handle);
}

int rdmad_prep_send(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_channel *channel,
                    const void *buffer, size_t length, uint64_t user_data) {
    RDMAD_LIVE(ring, RING);
    RDMAD_LIVE(channel, CHANNEL);
    return prep_on_channel(ring, sqe, RDMAD_OP_SEND, channel, buffer, length, user_data);
}

int rdmad_prep_recv(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_channel *channel, void *buffer,
                    size_t size, uint64_t user_data) {
    RDMAD_LIVE(ring, RING);
    RDMAD_LIVE(channel, CHANNEL);
    return prep_on_channel(ring, sqe, RDMAD_OP_RECV, channel, buffer, size, user_data);
}

/* ---- the rest ------------------------------------------------------------------------------ */

int rdmad_prep_nop(rdmad_ring *ring, struct rdmad_sqe *sqe, uint64_t user_data) {
    RDMAD_LIVE(ring, RING);
    int rc = prep_begin(ring, sqe, user_data);
    if (!rc)
        sqe->opcode = RDMAD_OP_NOP;
    return rc;
}

int rdmad_prep_cancel(rdmad_ring *ring, struct rdmad_sqe *sqe, uint64_t target,
                      uint64_t user_data) {
    RDMAD_LIVE(ring, RING);
    int rc = prep_begin(ring, sqe, user_data);

    if (rc)
        return rc;
    sqe->opcode = RDMAD_OP_CANCEL;
    sqe->lease = target; /* until it is submitted: ring/submit.c */
    return 0;
}

/* These are not told the ring, and return nothing. */
static void prep_no_null(const struct rdmad_sqe *sqe, const char *call) {
    if (sqe)
        return;
    fprintf(stderr, "rdmad misuse: %s: the entry is NULL: rdmad_ring_reserve had none free\n",
            call);
    abort();
}

void rdmad_sqe_set_imm(struct rdmad_sqe *sqe, uint32_t imm) {
    prep_no_null(sqe, __func__);
    sqe->imm = imm;
    sqe->flags |= RDMAD_SQE_IMM;
}

void rdmad_sqe_set_flags(struct rdmad_sqe *sqe, unsigned flags) {
    prep_no_null(sqe, __func__);
    /* What is no flag must not look like one: the daemon refuses the entry. */
    sqe->flags |= (uint8_t)(flags > UINT8_MAX ? ~RDMAD_SQE_FLAGS : flags);
}

void rdmad_sqe_set_deadline(struct rdmad_sqe *sqe, uint64_t timeout_ms) {
    prep_no_null(sqe, __func__);
    sqe->timeout_ns = rdmad_ms_to_ns(timeout_ms);
}
