/* SPDX-License-Identifier: MIT */
/*
 * hold.c - what ops hold, and the sentences about it.
 *
 * The happy path is the map's. Only a refusal asks who: all slots of the session's rings are looked
 * through, under the session's lock, while their threads go on. A slot's record is written after
 * its range was taken and cleared before it is dropped, so whoever is named did hold the range;
 * when nobody can be named, somebody was about to take or to drop it, and it is tried again.
 *
 * What is dropped may be waited for: by rdmad_buf_lock_*, or by a piece that was freed while it was
 * held. Who waits raises attention, and then looks at the map once more; who drops changes the map
 * under seq_cst and then looks at attention; so one of them sees the other.
 */
#include "libclient/hold.h"
#include "libclient/guard.h"
#include "libclient/ring.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

#define TRY_AGAIN_NS UINT64_C(10000000)

bool rdmad_holders_init(struct rdmad_holders *h, uint64_t bytes) {
    pthread_condattr_t attr;

    h->map = rdmad_hold_map_new(bytes);
    if (!h->map)
        return false;
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&h->changed, &attr);
    pthread_condattr_destroy(&attr);
    return true;
}

void rdmad_holders_fini(struct rdmad_holders *h) {
    if (!h->map)
        return;
    rdmad_deferred_dispose(h);
    rdmad_locks_dispose(h);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    rdmad_hold_map_free(h->map);
    rdmad_hold_map_free(h->lent_map);
}

/* ---- a slot's record ----------------------------------------------------------------------- */

static void set_hold(struct rdmad_hold *h, const struct rdmad_hold *to) {
    uint32_t version = __atomic_load_n(&h->version, __ATOMIC_RELAXED);

    /* Each store is a release: none shows before the odd version does, nor after the even one. */
    __atomic_store_n(&h->version, version + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&h->pool, to->pool, __ATOMIC_RELEASE);
    __atomic_store_n(&h->offset, to->offset, __ATOMIC_RELEASE);
    __atomic_store_n(&h->length, to->length, __ATOMIC_RELEASE);
    __atomic_store_n(&h->user_data, to->user_data, __ATOMIC_RELEASE);
    __atomic_store_n(&h->object, to->object, __ATOMIC_RELEASE);
    __atomic_store_n(&h->writes, to->writes, __ATOMIC_RELEASE);
    __atomic_store_n(&h->opcode, to->opcode, __ATOMIC_RELEASE);
    __atomic_store_n(&h->version, version + 2, __ATOMIC_RELEASE);
}

static void clear_hold(struct rdmad_hold *h) {
    uint32_t version = __atomic_load_n(&h->version, __ATOMIC_RELAXED);

    __atomic_store_n(&h->version, version + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&h->pool, NULL, __ATOMIC_RELEASE);
    __atomic_store_n(&h->version, version + 2, __ATOMIC_RELEASE);
}

/* False: it changes right now. */
static bool get_hold(const struct rdmad_hold *h, struct rdmad_hold *out) {
    uint32_t version = __atomic_load_n(&h->version, __ATOMIC_ACQUIRE);

    out->pool = __atomic_load_n(&h->pool, __ATOMIC_ACQUIRE);
    out->offset = __atomic_load_n(&h->offset, __ATOMIC_ACQUIRE);
    out->length = __atomic_load_n(&h->length, __ATOMIC_ACQUIRE);
    out->user_data = __atomic_load_n(&h->user_data, __ATOMIC_ACQUIRE);
    out->object = __atomic_load_n(&h->object, __ATOMIC_ACQUIRE);
    out->writes = __atomic_load_n(&h->writes, __ATOMIC_ACQUIRE);
    out->opcode = __atomic_load_n(&h->opcode, __ATOMIC_ACQUIRE);
    return version % 2 == 0 && __atomic_load_n(&h->version, __ATOMIC_RELAXED) == version;
}

/* ---- sentences ----------------------------------------------------------------------------- */

bool rdmad_holder_fits(const struct rdmad_holder_list *list, uint64_t offset, uint64_t length,
                       bool writes) {
    return (writes || list->writes) && offset < list->offset + list->length &&
           list->offset < offset + length;
}

void rdmad_holder_add(struct rdmad_holder_list *list, const char *format, ...) {
    va_list ap;
    int n;

    if (list->count++ >= list->max || list->used + 1 >= list->size)
        return;
    if (list->count > 1)
        list->used += (size_t)snprintf(list->text + list->used, list->size - list->used, "; ");
    if (list->used + 1 >= list->size) {
        list->used = list->size - 1;
        return;
    }
    va_start(ap, format);
    n = vsnprintf(list->text + list->used, list->size - list->used, format, ap);
    va_end(ap);
    list->used += n < 0 ? 0 : (size_t)n;
    if (list->used >= list->size)
        list->used = list->size - 1;
}

const char *rdmad_hold_opcode_name(uint8_t opcode) {
    static const char *const name[RDMAD_OP_COUNT] = {
        [RDMAD_OP_READ] = "READ", [RDMAD_OP_WRITE] = "WRITE", [RDMAD_OP_NOTIFY] = "NOTIFY",
        [RDMAD_OP_SEND] = "SEND", [RDMAD_OP_RECV] = "RECV",
    };

    return opcode < RDMAD_OP_COUNT && name[opcode] ? name[opcode] : "transfer";
}

const char *rdmad_hold_object_name(uint8_t opcode) {
    return opcode == RDMAD_OP_SEND || opcode == RDMAD_OP_RECV ? "channel" : "lease";
}

static void list_ring(const struct rdmad_ring *r, const struct rdmad_pool *pool,
                      struct rdmad_holder_list *list) {
    for (uint32_t i = 0; i < r->entries; i++) {
        struct rdmad_hold h;
        bool before;
        if (!get_hold(&r->slot[i].hold, &h) || h.pool != pool ||
            !rdmad_holder_fits(list, h.offset, h.length, h.writes))
            continue;
        before = h.offset < list->offset;
        rdmad_holder_add(
            list,
            "op %s of %s %llu (user_data %llu, %llu bytes at buffer%c%llu) on ring "
            "%llu",
            rdmad_hold_opcode_name(h.opcode), rdmad_hold_object_name(h.opcode),
            (unsigned long long)h.object, (unsigned long long)h.user_data,
            (unsigned long long)h.length, before ? '-' : '+',
            (unsigned long long)(before ? list->offset - h.offset : h.offset - list->offset),
            (unsigned long long)r->handle);
    }
}

unsigned rdmad_holders_name(struct rdmad_pool *pool, uint64_t offset, uint64_t length, bool writes,
                            unsigned max, char *who, size_t size) {
    struct rdmad_holder_list list = {.offset = offset,
                                     .length = length,
                                     .writes = writes,
                                     .max = max,
                                     .text = who,
                                     .size = size};
    struct rdmad_session *s = pool->session;

    who[0] = '\0';
    pthread_mutex_lock(&s->lock);
    for (const struct rdmad_ring *r = s->rings; r; r = r->next)
        list_ring(r, pool, &list);
    pthread_mutex_lock(&pool->holders.lock);
    rdmad_locks_list(pool, &list);
    pthread_mutex_unlock(&pool->holders.lock);
    pthread_mutex_unlock(&s->lock);
    return list.count;
}

/* ---- taking and dropping ------------------------------------------------------------------- */

static void look_after_waiters(struct rdmad_pool *pool) {
    struct rdmad_holders *h = &pool->holders;

    if (__atomic_load_n(&h->attention, __ATOMIC_SEQ_CST) == 0)
        return;
    pthread_mutex_lock(&h->lock);
    rdmad_deferred_collect(pool);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

int rdmad_holders_take(struct rdmad_pool *pool, uint64_t offset, uint64_t length, bool writes,
                       char *who, size_t size) {
    int rc = rdmad_hold_map_take(pool->holders.map, offset, length, writes);
    uint64_t start = 0;

    while (rc == RDMAD_E_BUSY) {
        look_after_waiters(pool); /* who may have been refused by what was undone */
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

void rdmad_holders_drop(struct rdmad_pool *pool, uint64_t offset, uint64_t length, bool writes) {
    if (pool->session->inherited)
        return; /* its locks may be held by threads that are the parent's */
    rdmad_hold_map_drop(pool->holders.map, offset, length, writes);
    look_after_waiters(pool);
}

static int refuse(const struct rdmad_ring *r, const struct rdmad_hold *h, int rc, const char *who) {
    const char *name = rdmad_hold_opcode_name(h->opcode);
    const char *object = rdmad_hold_object_name(h->opcode);

    if (rc == RDMAD_E_BUSY)
        return rdmad_fail(
            r->session, rc,
            "%s of %s %llu cannot %s %llu bytes at offset %llu of pool %llu: they are "
            "held by %s",
            name, object, (unsigned long long)h->object, h->writes ? "fill" : "read",
            (unsigned long long)h->length, (unsigned long long)h->offset,
            (unsigned long long)h->pool->handle, who);
    if (rc == RDMAD_E_LIMIT)
        return rdmad_fail(r->session, rc,
                          "more ops than can be counted (65535) read the same bytes of pool %llu: "
                          "take some completions first",
                          (unsigned long long)h->pool->handle);
    return rdmad_fail(r->session, rc, "out of memory for the records of who uses pool %llu",
                      (unsigned long long)h->pool->handle);
}

int rdmad_hold_op(struct rdmad_ring *r, uint32_t slot, struct rdmad_pool *pool, const void *memory,
                  size_t length, bool writes, uint8_t opcode, uint64_t object, uint64_t user_data) {
    struct rdmad_hold h = {.writes = writes,
                           .opcode = opcode,
                           .pool = pool,
                           .offset = (uintptr_t)memory - (uintptr_t)pool->base,
                           .length = length,
                           .user_data = user_data,
                           .object = object};
    char who[RDMAD_TEXT_MAX];
    int rc;

    rdmad_hold_end(r, slot);
    if (length > pool->bytes - h.offset)
        h.length = pool->bytes - h.offset;
    if (h.length == 0)
        return 0;
    rc = rdmad_holders_take(pool, h.offset, h.length, writes, who, sizeof(who));
    if (rc)
        return refuse(r, &h, rc, who);
    set_hold(&r->slot[slot].hold, &h);
    if (pool->guard)
        rdmad_guard_hold(pool, &h);
    return 0;
}

void rdmad_hold_end(struct rdmad_ring *r, uint32_t slot) {
    struct rdmad_hold *at = &r->slot[slot].hold, h;

    if (!at->pool)
        return;
    h = *at;
    if (h.pool->guard)
        rdmad_guard_release(h.pool, &h);
    clear_hold(at);
    rdmad_holders_drop(h.pool, h.offset, h.length, h.writes);
}
