/* SPDX-License-Identifier: MIT */
/*
 * pool.c - create: charge, make the memory on the registration thread, tell the worker, report.
 *
 * Making the memory may take seconds, so everything can have changed when it is done: the session
 * may be closing (then the memory goes back at once). From plane_pool_add on the pool is in the
 * session's table, and whoever ends the session ends the pool.
 *
 * Reference counting: see pool.h. The last reference hands the pool to the registration thread for
 * unmapping; charges and the hold on the session are given back when that is done.
 */
#include "daemon/state/pool.h"
#include "common/memfd.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((uint64_t)2 << 20)

struct creation {
    struct pool *pool;
    struct offload_job job;
    int fd;
    struct error result;
    pool_created *done;
    void *arg;
};

/* ---- the end ----------------------------------------------------------------------------- */

static void unmap_run(struct offload_job *job) {
    struct pool *p = container_of(job, struct pool, unmap);
    if (p->memory)
        plane_memory_remove(p->session->state->plane, p->memory);
    if (p->base)
        munmap(p->base, p->bytes);
}

static void unmap_done(struct offload_job *job) {
    struct pool *p = container_of(job, struct pool, unmap);
    struct session *s = p->session;
    quota_discharge(&p->bytes_charge);
    quota_discharge(&p->count_charge);
    free(p);
    session_release(s);
}

void pool_ref(struct pool *p) {
    p->refs++;
}

void pool_unref(struct pool *p) {
    struct state *st = p->session->state;
    if (--p->refs)
        return;
    p->unmap = (struct offload_job){.reply_to = st->mailbox, .run = unmap_run, .done = unmap_done};
    offload_post(st->offload, &p->unmap);
}

/* ---- create ------------------------------------------------------------------------------ */

static int round_up(uint64_t bytes, uint32_t flags, size_t *out, struct error *err) {
    uint64_t page = flags & RDMAD_POOL_HUGETLB ? HUGE_PAGE : (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t sum;
    if (flags & ~RDMAD_POOL_FLAGS)
        return error_set(err, RDMAD_E_RESERVED, "unknown pool flags 0x%" PRIx32,
                         flags & ~RDMAD_POOL_FLAGS);
    if (bytes == 0)
        return error_set(err, RDMAD_E_INVAL, "a pool has at least one byte");
    if (__builtin_add_overflow(bytes, page - 1, &sum) || sum > INT64_MAX)
        return error_set(err, RDMAD_E_RANGE,
                         "a pool of %" PRIu64 " bytes is more than can be addressed", bytes);
    *out = (size_t)(sum & ~(page - 1));
    return 0;
}

static int charge(struct pool *p, struct error *err) {
    struct session *s = p->session;
    struct quota *q = &s->state->quota;
    int rc = quota_charge(q, &s->account, s->uid_account, QUOTA_POOLS, 1, &p->count_charge, err);
    if (rc)
        return rc;
    rc = quota_charge(q, &s->account, s->uid_account, QUOTA_BYTES, p->bytes, &p->bytes_charge, err);
    if (rc)
        quota_discharge(&p->count_charge);
    return rc;
}

/* On the registration thread: memory that is there, mapped, and in the page tables. */
static int make_memory(struct pool *p, int *fd_out, struct error *err) {
    bool huge = p->flags & RDMAD_POOL_HUGETLB;
    size_t bytes = p->bytes;
    int fd = rdmad_memfd_create("rdmad-pool", &bytes, huge);
    if (fd < 0)
        return error_errno(err, fd, "a pool of %zu bytes%s cannot be made", p->bytes,
                           huge ? " in huge pages (are enough reserved in vm.nr_hugepages?)" : "");
    void *base = rdmad_memfd_map(fd, bytes, true);
    if (!base) {
        error_errno(err, RDMAD_E_NOMEM, "a pool of %zu bytes cannot be mapped", bytes);
        close(fd);
        return RDMAD_E_NOMEM;
    }
    p->base = base; /* whatever happens now, pool_unref unmaps it */
    /* EINVAL: a kernel before 5.14; the first touch then costs more, nothing else. */
    if (madvise(base, bytes, MADV_POPULATE_WRITE) && errno != EINVAL) {
        error_errno(err, RDMAD_E_NOMEM, "the memory of a pool of %zu bytes cannot be had", bytes);
        close(fd);
        return RDMAD_E_NOMEM;
    }
    int rc = plane_memory_add(p->session->state->plane, base, bytes, &p->memory, err);
    if (rc) {
        close(fd);
        return rc;
    }
    *fd_out = fd;
    return 0;
}

static void creation_run(struct offload_job *job) {
    struct creation *c = container_of(job, struct creation, job);
    make_memory(c->pool, &c->fd, &c->result);
}

/* Reports and forgets; takes over the creation, not the pool. */
static void creation_end(struct creation *c, const struct error *result) {
    if (result->code) {
        if (c->fd >= 0)
            close(c->fd);
        c->done(c->arg, NULL, -1, result);
    } else {
        c->done(c->arg, c->pool, c->fd, result);
    }
    free(c);
}

static void pool_added(void *arg, const struct error *result) {
    struct creation *c = arg;
    struct pool *p = c->pool;
    struct session *s = p->session;
    struct error gone;
    if (result->code) {
        bool listed = slots_remove(&s->pools, p->handle) == p;
        creation_end(c, result);
        if (listed) /* else a client guessed the handle, and pool_destroy ends the pool */
            pool_unref(p);
    } else if (s->closing) { /* its close takes the pool from the table */
        error_set(&gone, RDMAD_E_SHUTDOWN, "the session is ending");
        creation_end(c, &gone);
    } else {
        creation_end(c, result);
    }
}

static void creation_done(struct offload_job *job) {
    struct creation *c = container_of(job, struct creation, job);
    struct pool *p = c->pool;
    struct session *s = p->session;
    if (!c->result.code && s->closing)
        error_set(&c->result, RDMAD_E_SHUTDOWN, "the session is ending");
    if (!c->result.code && !(p->handle = slots_add(&s->pools, p)))
        error_set(&c->result, RDMAD_E_NOMEM, "out of memory for one more pool");
    if (c->result.code) {
        struct error result = c->result;
        creation_end(c, &result);
        pool_unref(p);
        return;
    }
    plane_pool_add(s->plane, p->handle, p->base, p->bytes, p->memory, pool_added, c);
}

static int start(struct session *s, uint64_t bytes, uint32_t flags, struct creation *c,
                 struct error *err) {
    struct pool *p = calloc(1, sizeof(*p));
    if (!p)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a pool");
    *p = (struct pool){.session = s, .flags = flags, .refs = 1};
    int rc = round_up(bytes, flags, &p->bytes, err);
    if (!rc)
        rc = charge(p, err);
    if (rc) {
        free(p);
        return rc;
    }
    session_hold(s);
    c->pool = p;
    offload_post(s->state->offload, &c->job);
    return 0;
}

void pool_create(struct session *s, uint64_t bytes, uint32_t flags, pool_created *done, void *arg) {
    struct error err;
    struct creation *c = calloc(1, sizeof(*c));
    if (!c) {
        error_set(&err, RDMAD_E_NOMEM, "out of memory for a pool");
        done(arg, NULL, -1, &err);
        return;
    }
    c->job = (struct offload_job){
        .reply_to = s->state->mailbox, .run = creation_run, .done = creation_done};
    c->fd = -1;
    c->done = done;
    c->arg = arg;
    if (start(s, bytes, flags, c, &err))
        creation_end(c, &err);
}

/* ---- use and destroy --------------------------------------------------------------------- */

struct pool *pool_find(struct session *s, uint64_t handle, struct error *err) {
    struct pool *p = slots_get(&s->pools, handle);
    if (!p)
        error_set(err, RDMAD_E_HANDLE, "the session has no pool 0x%" PRIx64, handle);
    return p;
}

bool pool_covers(const struct pool *p, uint64_t offset, uint64_t length) {
    return offset <= p->bytes && length <= p->bytes - offset;
}

struct pool *pool_by_address(struct state *st, const void *address) {
    uintptr_t at = (uintptr_t)address;
    list_for_each (node, &st->sessions) {
        struct session *s = list_entry(node, struct session, node);
        uint32_t cursor = 0;
        uint64_t handle;
        struct pool *p;
        while ((p = slots_next(&s->pools, &cursor, &handle)))
            if (at >= (uintptr_t)p->base && at - (uintptr_t)p->base < p->bytes)
                return p;
    }
    return NULL;
}

struct destruction {
    struct pool *pool;
    plane_done *done;
    void *arg;
};

static void pool_dropped(void *arg, const struct error *result) {
    struct destruction d = *(struct destruction *)arg;
    free(arg);
    d.done(d.arg, result);
    pool_unref(d.pool);
}

int pool_destroy(struct session *s, uint64_t handle, plane_done *done, void *arg,
                 struct error *err) {
    struct pool *p = pool_find(s, handle, err);
    if (!p)
        return RDMAD_E_HANDLE;
    if (p->leases)
        return error_set(err, RDMAD_E_BUSY,
                         "%u leases on pool 0x%" PRIx64 " are alive; revoke them first", p->leases,
                         handle);
    struct destruction *d = malloc(sizeof(*d));
    if (!d)
        return error_set(err, RDMAD_E_NOMEM, "out of memory");
    *d = (struct destruction){p, done, arg};
    slots_remove(&s->pools, handle);
    plane_pool_drop(s->plane, handle, pool_dropped, d);
    return 0;
}
