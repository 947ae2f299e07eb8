/* SPDX-License-Identifier: MIT */
/*
 * object.h - every object behind a handle begins with a mark that says what it is, and whether it
 * is still alive. A program that uses a handle after its end is told so in a sentence, and ended.
 *
 * The happy path: rdmad_object_init when it is made; every public call looks at the mark first, one
 * comparison in a cache line that it needs anyway. At its end rdmad_object_end changes the mark,
 * and rdmad_object_retire puts the memory aside instead of freeing it: the last MiB of each kind is
 * kept, so that a call with an old handle reads an old mark, and not memory that is something else
 * by now. What is older than that is really freed.
 */
#ifndef RDMAD_LIBCLIENT_OBJECT_H
#define RDMAD_LIBCLIENT_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rdmad_kind {
    RDMAD_KIND_SESSION,
    RDMAD_KIND_POOL,
    RDMAD_KIND_LEASE,
    RDMAD_KIND_RING,
    RDMAD_KIND_SERVICE,
    RDMAD_KIND_CHANNEL,
    RDMAD_KIND_COUNT
};

#define RDMAD_OBJECT_ALIVE UINT64_C(0x616c6976652e0000) /* plus the kind */
#define RDMAD_OBJECT_GONE UINT64_C(0x676f6e652e2e0000)

/* The first member of its object. */
struct rdmad_object {
    uint64_t mark; /* atomic */
    uint64_t number;
    const char *gone_since; /* the call */
    struct rdmad_object *next;
    size_t size;
};

static inline void rdmad_object_init(struct rdmad_object *o, enum rdmad_kind kind) {
    o->mark = RDMAD_OBJECT_ALIVE + kind;
}

/* Says what is wrong with the handle and aborts. */
_Noreturn void rdmad_object_misused(const void *handle, enum rdmad_kind kind, const char *call);

/* Whether it is one of that kind and has not ended. */
static inline bool rdmad_object_is(const struct rdmad_object *o, enum rdmad_kind kind) {
    return __atomic_load_n(&o->mark, __ATOMIC_RELAXED) == RDMAD_OBJECT_ALIVE + kind;
}

static inline void rdmad_object_check(const void *handle, enum rdmad_kind kind, const char *call) {
    const struct rdmad_object *o = handle;

    if (__builtin_expect(!o || !rdmad_object_is(o, kind), 0))
        rdmad_object_misused(handle, kind, call);
}

/* At the beginning of a public call. */
#define RDMAD_LIVE(handle, kind) rdmad_object_check(handle, RDMAD_KIND_##kind, __func__)

/* The object is gone since that call; number is for sentences. A second call for the same object
 * aborts. */
void rdmad_object_end(struct rdmad_object *o, enum rdmad_kind kind, uint64_t number,
                      const char *call);
/* To be called instead of free for an object of that size that has ended, once nobody uses it any
 * more. */
void rdmad_object_retire(struct rdmad_object *o, size_t size);

/* For fork.c: no other thread is in the middle of this file while a process forks. */
void rdmad_objects_lock(void);
void rdmad_objects_unlock(void);

#endif
