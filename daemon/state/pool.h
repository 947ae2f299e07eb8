/* SPDX-License-Identifier: MIT */
/*
 * pool.h - the memory of a session: a sealed memfd, mapped here for as long as anything uses it.
 *
 * It is made in two steps (base/shared_memory.h says why): pool_create makes it, empty, or
 * pool_import maps a memfd of the client's; the client populates and seals it; pool_make_ready
 * looks, and tells the devices and the worker. Before that it can be destroyed, and nothing else.
 *
 * The fabric's devices know it as long as it is mapped (plane_memory_add). A pool is referenced by
 * its session's table, by each live lease on it, and while it is being looked at; the last
 * reference unmaps it on a registration thread and gives its charge back after that. So memory that
 * is still mapped is still charged.
 */
#ifndef RDMAD_STATE_POOL_H
#define RDMAD_STATE_POOL_H

#include "daemon/base/offload.h"
#include "daemon/base/shared_memory.h"
#include "daemon/state/session.h"

/* READY: everything may use it. SETTLING: it is being looked at. */
enum pool_stage { POOL_MADE, POOL_SETTLING, POOL_READY };

struct pool {
    struct session *session; /* held */
    uint64_t handle;
    enum pool_stage stage;
    struct shared_memory shared;
    void *base;   /* of shared */
    size_t bytes; /* charged */
    bool imported;
    bool in_plane;                /* the worker was told of it */
    struct fabric_memory *memory; /* as the fabric's devices know it; NULL: they do not */
    uint32_t flags;
    unsigned refs;    /* the table's, one while it is looked at, and one a lease not yet ended */
    unsigned leases;  /* live leases on it */
    unsigned budgets; /* of services */
    struct session_charges charges;
    struct offload_job unmap;
};

/* Asynchronous: done gets the pool and its descriptor, lent for the call, or an error. */
typedef void pool_created(void *arg, struct pool *pool, int fd, const struct error *result);
void pool_create(struct session *s, uint64_t bytes, uint32_t flags, pool_created *done, void *arg);

/* The same with a client's own memory, whose contents stay. fd is taken over; it must be a memfd of
 * exactly bytes, of small pages (as shared_memory_check_kind says), writable, sealed in size and
 * not further. done gets fd -1. */
void pool_import(struct session *s, int fd, uint64_t bytes, pool_created *done, void *arg);

/* A pool that the session had at an earlier life of the daemon, with the number that it had. The
 * same as pool_import, of a memfd that is sealed further already. */
void pool_resume(struct session *s, int fd, uint64_t number, uint64_t bytes, pool_created *done,
                 void *arg);

/* Asynchronous, unless it fails at once. done: everything may use the pool, or what it lacks; then
 * the call can be made again. */
int pool_make_ready(struct session *s, uint64_t handle, plane_done *done, void *arg,
                    struct error *err);

/* Takes the pool out of the session. RDMAD_E_BUSY while leases live on it. done: the data plane let
 * go of it. */
int pool_destroy(struct session *s, uint64_t handle, plane_done *done, void *arg,
                 struct error *err);

/* Finds a pool that is ready. */
struct pool *pool_find(struct session *s, uint64_t handle, struct error *err);
/* The pool of any session that address lies in; NULL when none. */
struct pool *pool_by_address(struct state *st, const void *address);
/* Whether [offset, offset + length) lies in the pool. */
bool pool_covers(const struct pool *p, uint64_t offset, uint64_t length);
void pool_ref(struct pool *p);
void pool_unref(struct pool *p);

#endif
