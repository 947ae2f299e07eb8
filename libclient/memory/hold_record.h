/* SPDX-License-Identifier: MIT */
/*
 * hold_record.h - what one op holds, as its own thread writes it and others read it.
 */
#ifndef RDMAD_LIBCLIENT_HOLD_RECORD_H
#define RDMAD_LIBCLIENT_HOLD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rdmad_pool;

/* The ring's thread writes it, threads that look for a holder read it: all fields are atomic, and
 * mean something only while version is even and did not change meanwhile. */
struct rdmad_hold {
    uint32_t version;
    bool writes;
    uint8_t opcode;
    struct rdmad_pool *pool; /* NULL: holds nothing */
    uint64_t offset, length;
    uint64_t user_data;
    uint64_t object; /* the lease's or channel's number, for sentences */
};

static inline void rdmad_hold_set(struct rdmad_hold *h, const struct rdmad_hold *to) {
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

static inline void rdmad_hold_clear(struct rdmad_hold *h) {
    uint32_t version = __atomic_load_n(&h->version, __ATOMIC_RELAXED);

    __atomic_store_n(&h->version, version + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&h->pool, NULL, __ATOMIC_RELEASE);
    __atomic_store_n(&h->version, version + 2, __ATOMIC_RELEASE);
}

/* False: it changes right now. */
static inline bool rdmad_hold_get(const struct rdmad_hold *h, struct rdmad_hold *out) {
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

/* "READ", and "lease" or "channel". Async-signal-safe. */
const char *rdmad_hold_opcode_name(uint8_t opcode);
const char *rdmad_hold_object_name(uint8_t opcode);

#endif
