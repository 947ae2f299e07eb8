/* SPDX-License-Identifier: MIT */
/*
 * buf_lock.c - rdmad_buf_lock_*: the program as a holder of buffers.
 *
 * The happy path: the range is taken in the pool's map as an op would take it, and a record of it
 * goes into the pool's list, for unlock and for sentences. All under the holders' lock, so that two
 * threads that wait do not refuse each other by what they have taken of a range so far.
 *
 * Nobody has precedence: a thread that waits for a range which others keep taking in turns may wait
 * long. A thread that locks what it has locked itself waits for itself.
 */
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/control/control.h"
#include "libclient/memory/hold.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void rdmad_locks_dispose(struct rdmad_holders *h) {
    for (struct rdmad_buf_lock *l = h->locks, *next; l; l = next) {
        next = l->next;
        free(l);
    }
    h->locks = NULL;
}

/* With the holders' lock, released while waiting: RDMAD_E_BUSY when the time has passed. */
static int buf_lock_take(struct rdmad_pool *pool, const struct rdmad_buf_lock *l, int timeout_ms) {
    struct rdmad_holders *h = &pool->holders;
    uint64_t deadline_ns = rdmad_deadline_ns(timeout_ms);
    int rc = rdmad_hold_map_take(h->map, l->offset, l->length, l->writes), waited = 0;
    if (rc != RDMAD_E_BUSY || timeout_ms == 0)
        return rc;
    __atomic_add_fetch(&h->attention, 1, __ATOMIC_SEQ_CST);
    while ((rc = rdmad_hold_map_take(h->map, l->offset, l->length, l->writes)) == RDMAD_E_BUSY &&
           waited == 0)
        waited = rdmad_cond_wait(&h->changed, &h->lock, deadline_ns);
    __atomic_sub_fetch(&h->attention, 1, __ATOMIC_SEQ_CST);
    return rc;
}

static int buf_lock_fail(struct rdmad_pool *pool, const struct rdmad_buf_lock *l, int rc,
                         int timeout_ms) {
    char who[RDMAD_TEXT_MAX];

    if (rc != RDMAD_E_BUSY)
        return rdmad_fail(pool->session, rc, "no room for the record of a lock in pool %llu",
                          (unsigned long long)pool->handle);
    if (rdmad_holders_name(pool, l->offset, l->length, l->writes, 1, who, sizeof(who)) == 0)
        snprintf(who, sizeof(who), "somebody who has just given it up");
    return rdmad_fail(pool->session, RDMAD_E_TIMEOUT,
                      "no %s lock of %llu bytes at offset %llu of pool %llu within %d ms: held by "
                      "%s",
                      l->writes ? "write" : "read", (unsigned long long)l->length,
                      (unsigned long long)l->offset, (unsigned long long)pool->handle, timeout_ms,
                      who);
}

static bool buf_is_inside(const struct rdmad_pool *pool, const void *memory, size_t length,
                          uint64_t *offset) {
    *offset = (uintptr_t)memory - (uintptr_t)pool->base;
    return *offset <= pool->bytes && length <= pool->bytes - *offset;
}

static int buf_lock(struct rdmad_pool *pool, const void *memory, size_t length, bool writes,
                    int timeout_ms) {
    struct rdmad_holders *h = &pool->holders;
    struct rdmad_buf_lock *l;
    uint64_t offset;
    int rc;

    if (rdmad_is_inherited(pool->session))
        return rdmad_fail_lost(pool->session);
    if (rdmad_check_wait(pool->session, timeout_ms))
        return RDMAD_E_INVAL;
    if (!buf_is_inside(pool, memory, length, &offset))
        return rdmad_fail(pool->session, RDMAD_E_RANGE,
                          "the %zu bytes at %p are not all in pool %llu, which has %zu bytes at %p",
                          length, memory, (unsigned long long)pool->handle, pool->bytes,
                          (void *)pool->base);
    if (length == 0)
        return 0;
    l = malloc(sizeof(*l));
    if (!l)
        return rdmad_fail(pool->session, RDMAD_E_NOMEM, "out of memory for a lock");
    *l = (struct rdmad_buf_lock){
        .offset = offset, .length = length, .writes = writes, .thread = gettid()};
    pthread_mutex_lock(&h->lock);
    rc = buf_lock_take(pool, l, timeout_ms);
    if (!rc) {
        l->next = h->locks;
        h->locks = l;
    }
    pthread_mutex_unlock(&h->lock);
    if (rc) {
        rc = buf_lock_fail(pool, l, rc, timeout_ms);
        free(l);
    }
    return rc;
}

int rdmad_buf_lock_read(rdmad_pool *pool, const void *memory, size_t length, int timeout_ms) {
    RDMAD_LIVE(pool, POOL);
    return buf_lock(pool, memory, length, false, timeout_ms);
}

int rdmad_buf_lock_write(rdmad_pool *pool, void *memory, size_t length, int timeout_ms) {
    RDMAD_LIVE(pool, POOL);
    return buf_lock(pool, memory, length, true, timeout_ms);
}

/* The record of such a lock, the calling thread's if it has one; NULL: there is none. */
static struct rdmad_buf_lock **buf_lock_find(struct rdmad_holders *h, uint64_t offset,
                                             uint64_t length, bool writes) {
    struct rdmad_buf_lock **any = NULL;
    pid_t thread = gettid();

    for (struct rdmad_buf_lock **at = &h->locks; *at; at = &(*at)->next) {
        const struct rdmad_buf_lock *l = *at;
        if (l->offset != offset || l->length != length || l->writes != writes)
            continue;
        any = at;
        if (l->thread == thread)
            break;
    }
    return any;
}

static void buf_unlock(struct rdmad_pool *pool, const void *memory, size_t length, bool writes) {
    uint64_t offset = (uintptr_t)memory - (uintptr_t)pool->base;
    struct rdmad_holders *h = &pool->holders;
    struct rdmad_buf_lock **at, *l;
    if (length == 0 || rdmad_is_inherited(pool->session))
        return;
    pthread_mutex_lock(&h->lock);
    at = buf_lock_find(h, offset, length, writes);
    if (!at) {
        fprintf(
            stderr,
            "rdmad_buf_unlock_%s: no such lock is held: %zu bytes at %p of pool %llu. The range "
            "must be the one that was locked\n",
            writes ? "write" : "read", length, memory, (unsigned long long)pool->handle);
        abort();
    }
    l = *at;
    *at = l->next;
    pthread_mutex_unlock(&h->lock);
    free(l);
    rdmad_holders_drop(pool, offset, length, writes);
}

void rdmad_buf_unlock_read(rdmad_pool *pool, const void *memory, size_t length) {
    RDMAD_LIVE(pool, POOL);
    buf_unlock(pool, memory, length, false);
}

void rdmad_buf_unlock_write(rdmad_pool *pool, void *memory, size_t length) {
    RDMAD_LIVE(pool, POOL);
    buf_unlock(pool, memory, length, true);
}
