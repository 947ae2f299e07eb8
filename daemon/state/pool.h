/* SPDX-License-Identifier: MIT */
/*
 * pool.h - the memory of a session: a sealed memfd, mapped here for as long as anything uses it.
 *
 * The fabric's devices know it as long as it is mapped (plane_memory_add). A pool is referenced by
 * its session's table and by each live lease on it; the last reference unmaps it on the
 * registration thread and gives its charge back. Its descriptor goes to the client and is closed
 * here at once.
 */
#ifndef RDMAD_STATE_POOL_H
#define RDMAD_STATE_POOL_H

#include "daemon/base/offload.h"
#include "daemon/state/session.h"

struct pool {
    struct session *session; /* held */
    uint64_t handle;
    void *base;
    size_t bytes;
    bool imported;
    struct fabric_memory *memory; /* what it is to the fabric's devices; NULL: nothing */
    uint32_t flags;
    unsigned refs;    /* the table's, and one a lease not yet ended */
    unsigned leases;  /* live leases on it */
    unsigned budgets; /* of services */
    struct quota_charge bytes_charge, count_charge;
    struct offload_job unmap;
};

/* Asynchronous: done gets the pool and its descriptor (the caller's to close), or an error. */
typedef void pool_created(void *arg, struct pool *pool, int fd, const struct error *result);
void pool_create(struct session *s, uint64_t bytes, uint32_t flags, pool_created *done, void *arg);

/* The same of a client's own memory, which stays as it is: fd, taken over, must be a memfd of
 * exactly bytes, writable, sealed in size and against further seals. done gets fd -1. */
void pool_import(struct session *s, int fd, uint64_t bytes, pool_created *done, void *arg);

/* Takes the pool out of the session. RDMAD_E_BUSY while leases live on it. done: the data plane let
 * go of it. */
int pool_destroy(struct session *s, uint64_t handle, plane_done *done, void *arg,
                 struct error *err);

struct pool *pool_find(struct session *s, uint64_t handle, struct error *err);
/* The pool of any session that address lies in; NULL when none. */
struct pool *pool_by_address(struct state *st, const void *address);
/* Whether [offset, offset + length) lies in the pool. */
bool pool_covers(const struct pool *p, uint64_t offset, uint64_t length);
void pool_ref(struct pool *p);
void pool_unref(struct pool *p);

#endif
