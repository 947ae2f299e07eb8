/* SPDX-License-Identifier: MIT */
/*
 * prep.c - filling in entries: pointers become {pool, offset}, leases become handles.
 *
 * Which pool a buffer lies in is looked up under the session's lock once, and then remembered in
 * the ring, as most programs use one pool. Ranges are left to the daemon, which must check them
 * anyway. An entry whose prep failed keeps the opcode that the daemon refuses.
 */
#include "libclient/ring.h"

static bool hint_fits(const struct rdmad_ring *r, const void *buffer) {
    return (uintptr_t)buffer - (uintptr_t)r->hint.base < r->hint.bytes &&
           r->hint.pools_destroyed ==
               __atomic_load_n(&r->session->pools_destroyed, __ATOMIC_ACQUIRE);
}

static bool find_pool(struct rdmad_ring *r, const void *buffer) {
    struct rdmad_session *s = r->session;
    struct rdmad_pool *pool;

    if (hint_fits(r, buffer))
        return true;
    pthread_mutex_lock(&s->lock);
    pool = rdmad_pool_of(s, buffer);
    if (pool) {
        r->hint.base = pool->base;
        r->hint.bytes = pool->bytes;
        r->hint.handle = pool->handle;
        r->hint.pools_destroyed = s->pools_destroyed;
    }
    pthread_mutex_unlock(&s->lock);
    return pool != NULL;
}

static int prepare(struct rdmad_ring *r, struct rdmad_sqe *sqe, enum rdmad_opcode opcode,
                   const struct rdmad_lease *lease, uint64_t offset, const void *buffer,
                   size_t length, uint64_t user_data) {
    sqe->user_data = user_data;
    if (lease->owner || lease->session != r->session)
        return rdmad_fail(r->session, RDMAD_E_INVAL,
                          lease->owner ? "lease %llu is this session's own grant: its memory is at "
                                         "hand, or attach to its URI"
                                       : "lease %llu was attached by another session than the ring",
                          (unsigned long long)lease->id);
    if (!find_pool(r, buffer))
        return rdmad_fail(r->session, RDMAD_E_RANGE,
                          "%p lies in no pool of this session: transfers need memory that "
                          "rdmad_alloc gave out",
                          buffer);
    sqe->opcode = (uint8_t)opcode;
    sqe->pool = r->hint.handle;
    sqe->pool_offset = (uintptr_t)buffer - (uintptr_t)r->hint.base;
    sqe->length = length;
    sqe->lease = lease->handle;
    sqe->lease_offset = offset;
    return 0;
}

int rdmad_prep_write(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease, uint64_t offset,
                     const void *buffer, size_t length, uint64_t user_data) {
    return prepare(ring, sqe, RDMAD_OP_WRITE, lease, offset, buffer, length, user_data);
}

int rdmad_prep_read(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease, uint64_t offset,
                    void *buffer, size_t length, uint64_t user_data) {
    return prepare(ring, sqe, RDMAD_OP_READ, lease, offset, buffer, length, user_data);
}

void rdmad_prep_nop(struct rdmad_sqe *sqe, uint64_t user_data) {
    sqe->opcode = RDMAD_OP_NOP;
    sqe->user_data = user_data;
}

void rdmad_sqe_set_timeout(struct rdmad_sqe *sqe, uint64_t timeout_ns) {
    sqe->timeout_ns = timeout_ns;
}
