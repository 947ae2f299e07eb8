/* SPDX-License-Identifier: MIT */
/*
 * hold.c - taking and giving up.
 *
 * The happy path is the map's. When a range is refused and nobody can be named for it, somebody was
 * about to take or to drop it, and it is tried again.
 *
 * Somebody may wait for what is dropped: rdmad_buf_lock_*, or a piece that was freed while it was
 * held. A thread that waits raises attention, and then looks at the map once more; a thread that
 * drops changes the map under seq_cst, and then looks at attention. So one of them sees the other.
 */
#include "libclient/memory/hold.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/memory/deferred.h"
#include "libclient/memory/guard.h"
#include <assert.h>
#include <sched.h>
#include <stdio.h>

#define TRY_AGAIN_NS UINT64_C(10000000)

void rdmad_holds_add(struct rdmad_session *s, struct rdmad_holds *holds) {
    holds->next = s->holds;
    s->holds = holds;
}

void rdmad_holds_remove(struct rdmad_session *s, struct rdmad_holds *holds) {
    struct rdmad_holds **at;
    for (at = &s->holds; *at != holds; at = &(*at)->next)
        assert(*at);
    *at = holds->next;
}

static void holders_look_after_waiters(struct rdmad_pool *pool) {
    struct rdmad_holders *h = &pool->holders;
    if (__atomic_load_n(&h->attention, __ATOMIC_SEQ_CST) == 0)
        return;
    pthread_mutex_lock(&h->lock);
    rdmad_deferred_collect(pool);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

/* The range was refused: tries again until it is taken, or there is a holder to name. */
static int holders_take_again(struct rdmad_pool *pool, uint64_t offset, uint64_t length,
                              bool writes, char *who, size_t size) {
    uint64_t start = 0;
    int rc = RDMAD_E_BUSY;

    while (rc == RDMAD_E_BUSY) {
        holders_look_after_waiters(pool); /* what was taken and undone may have refused them */
        if (rdmad_holders_name(pool, offset, length, writes, 1, who, size))
            return rc;
        if (start == 0)
            start = rdmad_monotonic_ns();
        else if (rdmad_monotonic_ns() - start > TRY_AGAIN_NS) {
            snprintf(who, size, "another thread that is just taking it");
            return rc;
        }
        sched_yield();
        rc = rdmad_hold_map_take(pool->holders.map, offset, length, writes);
    }
    return rc;
}

int rdmad_holders_take(struct rdmad_pool *pool, uint64_t offset, uint64_t length, bool writes,
                       char *who, size_t size) {
    int rc = rdmad_hold_map_take(pool->holders.map, offset, length, writes);

    return rc == RDMAD_E_BUSY ? holders_take_again(pool, offset, length, writes, who, size) : rc;
}

void rdmad_holders_drop(struct rdmad_pool *pool, uint64_t offset, uint64_t length, bool writes) {
    if (rdmad_is_inherited(pool->session))
        return; /* its locks may be held by threads that are the parent's */
    rdmad_hold_map_drop(pool->holders.map, offset, length, writes);
    holders_look_after_waiters(pool);
}

static int hold_refuse(const struct rdmad_hold *h, int rc, const char *who) {
    const char *name = rdmad_hold_opcode_name(h->opcode);
    const char *object = rdmad_hold_object_name(h->opcode);
    if (rc == RDMAD_E_BUSY)
        return rdmad_fail(
            h->pool->session, rc,
            "%s of %s %llu cannot %s %llu bytes at offset %llu of pool %llu: they are "
            "held by %s",
            name, object, (unsigned long long)h->object, h->writes ? "fill" : "read",
            (unsigned long long)h->length, (unsigned long long)h->offset,
            (unsigned long long)h->pool->handle, who);
    if (rc == RDMAD_E_LIMIT)
        return rdmad_fail(h->pool->session, rc,
                          "more ops than can be counted (65535) read the same bytes of pool %llu: "
                          "take some completions first",
                          (unsigned long long)h->pool->handle);
    return rdmad_fail(h->pool->session, rc, "out of memory for the records of who uses pool %llu",
                      (unsigned long long)h->pool->handle);
}

/* The map's rc is not 0. Apart from the way of every op, which needs no room for a sentence. */
static __attribute__((noinline)) int hold_take_again(const struct rdmad_hold *h, int rc) {
    char who[RDMAD_TEXT_MAX];
    if (rc == RDMAD_E_BUSY)
        rc = holders_take_again(h->pool, h->offset, h->length, h->writes, who, sizeof(who));
    return rc ? hold_refuse(h, rc, who) : 0;
}

int rdmad_hold_op(struct rdmad_holds *holds, uint32_t slot, struct rdmad_pool *pool,
                  const void *memory, size_t length, bool writes, uint8_t opcode, uint64_t object,
                  uint64_t user_data) {
    struct rdmad_hold h = {.writes = writes,
                           .opcode = opcode,
                           .pool = pool,
                           .offset = (uintptr_t)memory - (uintptr_t)pool->base,
                           .length = length,
                           .user_data = user_data,
                           .object = object};
    int rc;

    rdmad_hold_end(holds, slot);
    if (length > pool->bytes - h.offset)
        h.length = pool->bytes - h.offset;
    if (h.length == 0)
        return 0;
    rc = rdmad_hold_map_take(pool->holders.map, h.offset, h.length, writes);
    if (rc)
        rc = hold_take_again(&h, rc);
    if (rc)
        return rc;
    rdmad_hold_set(&holds->hold[slot], &h);
    if (pool->guard)
        rdmad_guard_hold(pool, &h);
    return 0;
}

void rdmad_hold_end(struct rdmad_holds *holds, uint32_t slot) {
    struct rdmad_hold *at = &holds->hold[slot];
    struct rdmad_pool *pool = at->pool;
    if (!pool)
        return;
    if (pool->guard && !rdmad_is_inherited(pool->session)) /* or its records may be half made */
        rdmad_guard_release(pool, at);
    rdmad_hold_clear(at); /* what it held stays readable: this thread alone writes it */
    rdmad_holders_drop(pool, at->offset, at->length, at->writes);
}
