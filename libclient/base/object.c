/* SPDX-License-Identifier: MIT */
/*
 * object.c - the ends of objects: marked, and kept for a while.
 */
#include "libclient/base/object.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define KEPT_BYTES ((size_t)1 << 20) /* of each kind, in a process */

/* Those that have ended, oldest first. */
static struct kept {
    struct rdmad_object *first, *last;
    size_t bytes;
} kept[RDMAD_KIND_COUNT];
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static const char *const kind_name[RDMAD_KIND_COUNT] = {
    [RDMAD_KIND_SESSION] = "session", [RDMAD_KIND_POOL] = "pool",
    [RDMAD_KIND_LEASE] = "lease",     [RDMAD_KIND_RING] = "ring",
    [RDMAD_KIND_SERVICE] = "service", [RDMAD_KIND_CHANNEL] = "channel",
};

_Noreturn void rdmad_object_misused(const void *handle, enum rdmad_kind kind, const char *call) {
    const struct rdmad_object *o = handle;
    uint64_t mark = o ? __atomic_load_n(&o->mark, __ATOMIC_RELAXED) : 0;
    uint64_t alive = mark - RDMAD_OBJECT_ALIVE;
    const char *since = mark == RDMAD_OBJECT_GONE + kind ? o->gone_since : NULL;

    if (!o)
        fprintf(stderr, "rdmad misuse: %s: the %s is NULL\n", call, kind_name[kind]);
    else if (since)
        fprintf(stderr, "rdmad misuse: %s: %s %llu (%p) is gone since %s\n", call, kind_name[kind],
                (unsigned long long)o->number, handle, since);
    else if (alive < RDMAD_KIND_COUNT)
        fprintf(stderr, "rdmad misuse: %s: %p is a %s, not a %s\n", call, handle, kind_name[alive],
                kind_name[kind]);
    else
        fprintf(stderr, "rdmad misuse: %s: %p is no %s, or one that is gone since long\n", call,
                handle, kind_name[kind]);
    abort();
}

void rdmad_object_end(struct rdmad_object *o, enum rdmad_kind kind, uint64_t number,
                      const char *call) {
    uint64_t alive = RDMAD_OBJECT_ALIVE + kind;

    rdmad_object_check(o, kind, call);
    o->number = number;
    o->gone_since = call;
    if (!__atomic_compare_exchange_n(&o->mark, &alive, RDMAD_OBJECT_GONE + kind, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        rdmad_object_misused(o, kind, call);
}

/* With the lock: frees the oldest while there is more than is to be kept. */
static void free_old(struct kept *k) {
    while (k->first && k->bytes > KEPT_BYTES) {
        struct rdmad_object *old = k->first;
        k->first = old->next;
        if (!k->first)
            k->last = NULL;
        k->bytes -= old->size;
        free(old);
    }
}

void rdmad_object_retire(struct rdmad_object *o, size_t size) {
    struct kept *k = &kept[o->mark - RDMAD_OBJECT_GONE];
    o->next = NULL;
    o->size = size;
    pthread_mutex_lock(&kept_lock);
    if (k->last)
        k->last->next = o;
    else
        k->first = o;
    k->last = o;
    k->bytes += size;
    free_old(k);
    pthread_mutex_unlock(&kept_lock);
}

void rdmad_objects_lock(void) {
    pthread_mutex_lock(&kept_lock);
}

void rdmad_objects_unlock(void) {
    pthread_mutex_unlock(&kept_lock);
}
