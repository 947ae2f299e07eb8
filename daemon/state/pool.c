/* SPDX-License-Identifier: MIT */
/*
 * pool.c - create: charge, map on a registration thread, report. Ready: look there, register,
 * tell the worker, report.
 *
 * Looking may take seconds, so everything can have changed when it is done: the session may be
 * closing, the pool destroyed. It goes by slices, and no further than the one in which the session
 * began to close: a dead client's gigabytes hold up nobody. From plane_pool_add on, ending the
 * session or destroying the pool has the worker let go of it first.
 *
 * Reference counting: see pool.h. All jobs of a uid count as one owner's: a user with a thousand
 * pools only makes itself wait.
 */
#include "daemon/state/pool.h"
#include "daemon/state/closing.h"
#include "daemon/state/origin.h"
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define HUGE_PAGE ((uint64_t)2 << 20)
#define LIES_MAX 16u /* of a uid: each may have cost us 64 KiB that are its to free */

struct pool_creation {
    struct pool *pool;
    struct offload_job job;
    int fd;          /* to be imported; -1: none */
    uint64_t number; /* that it is to have; 0: any */
    struct error result;
    pool_created *done;
    void *arg;
};

/* One pool_make_ready. */
struct pool_settling {
    struct pool *pool; /* referenced */
    struct offload_job job;
    struct error result;
    plane_done *done;
    void *arg;
};

/* ---- the end ----------------------------------------------------------------------------- */

static void pool_unmap_run(struct offload_job *job) {
    struct pool *p = container_of(job, struct pool, unmap);
    if (p->memory)
        plane_memory_remove(p->session->state->plane, p->memory);
    shared_memory_end(&p->shared);
}

static void pool_unmap_done(struct offload_job *job) {
    struct pool *p = container_of(job, struct pool, unmap);
    struct session *s = p->session;
    session_discharge(&p->charges);
    free(p);
    session_release(s);
}

void pool_ref(struct pool *p) {
    p->refs++;
}

void pool_unref(struct pool *p) {
    if (--p->refs == 0)
        session_post(p->session, &p->unmap, pool_unmap_run, pool_unmap_done);
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

static void pool_creation_run(struct offload_job *job) {
    struct pool_creation *c = container_of(job, struct pool_creation, job);
    struct pool *p = c->pool;
    bool huge = p->flags & RDMAD_POOL_HUGETLB;
    unsigned loose = origin_is_set(p->session) && !huge ? SHARED_LOOSE : 0;
    int rc;
    if (!session_is_open(p->session))
        rc = session_fail_ending(&c->result);
    else if (p->imported) {
        rc = shared_memory_take(&p->shared, "pool", c->fd, p->bytes, loose, &c->result);
        c->fd = -1; /* taken over, and closed if it was refused */
    } else
        rc = shared_memory_make(&p->shared, "pool", "rdmad-pool", p->bytes,
                                huge ? SHARED_HUGE : loose, &c->result);
    if (c->fd >= 0) /* not taken over: it may be the last of its pages */
        close(c->fd);
    c->fd = -1;
    p->base = rc ? NULL : p->shared.base;
}

/* Reports and forgets; takes over the creation, not the pool. */
static void creation_end(struct pool_creation *c, const struct error *result) {
    if (result->code)
        c->done(c->arg, NULL, -1, result);
    else
        c->done(c->arg, c->pool, c->pool->imported ? -1 : c->pool->shared.fd, result);
    free(c);
}

/* wanted 0: any. */
static void pool_number(struct pool *p, uint64_t wanted, struct error *result) {
    struct session *s = p->session;
    int rc = 0;
    if (wanted)
        rc = slots_put(&s->pools, wanted, p);
    if (!rc)
        p->handle = wanted ? wanted : slots_add(&s->pools, p);
    if (rc == RDMAD_E_EXISTS)
        error_set(result, rc, "the session has a pool %" PRIx64 " already", wanted);
    else if (!p->handle)
        error_set(result, RDMAD_E_NOMEM, "out of memory for one more pool");
}

static void pool_creation_done(struct offload_job *job) {
    struct pool_creation *c = container_of(job, struct pool_creation, job);
    struct pool *p = c->pool;
    struct error result = c->result;
    if (!result.code && !session_is_open(p->session))
        session_fail_ending(&result);
    if (!result.code)
        pool_number(p, c->number, &result);
    creation_end(c, &result);
    if (result.code)
        pool_unref(p);
}

static int creation_start(struct session *s, uint64_t bytes, uint32_t flags, bool imported,
                          struct pool_creation *c, struct error *err) {
    struct pool *p = calloc(1, sizeof(*p));
    if (!p)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a pool");
    *p = (struct pool){.session = s, .flags = flags, .refs = 1, .imported = imported};
    int rc = round_up(bytes, flags, &p->bytes, err);
    if (!rc && imported && p->bytes != bytes)
        rc = error_set(err, RDMAD_E_INVAL,
                       "%" PRIu64 " bytes are no multiple of a page: a memfd must be one to be "
                       "imported",
                       bytes);
    if (!rc)
        rc = session_charge(s, &p->charges, QUOTA_POOLS, 1, p->bytes, err);
    if (rc) {
        free(p);
        return rc;
    }
    session_hold(s);
    c->pool = p;
    session_post(p->session, &c->job, pool_creation_run, pool_creation_done);
    return 0;
}

static void creation_create(struct session *s, uint64_t bytes, uint32_t flags, int import_fd,
                            uint64_t number, pool_created *done, void *arg) {
    struct error err;
    struct pool_creation *c = calloc(1, sizeof(*c));
    if (import_fd >= 0 && s->uid_account->lies >= LIES_MAX) {
        error_set(&err, RDMAD_E_PERM,
                  "memory of uid %u had holes that looked like none %u times; until rdmad starts "
                  "again it takes no more of it",
                  (unsigned)s->uid, s->uid_account->lies);
        free(c);
    } else if (c) {
        *c = (struct pool_creation){.fd = import_fd, .number = number, .done = done, .arg = arg};
        if (creation_start(s, bytes, flags, import_fd >= 0, c, &err) == 0)
            return;
        free(c);
    } else {
        error_set(&err, RDMAD_E_NOMEM, "out of memory for a pool");
    }
    if (import_fd >= 0)
        session_close_fd(s, import_fd);
    done(arg, NULL, -1, &err);
}

void pool_create(struct session *s, uint64_t bytes, uint32_t flags, pool_created *done, void *arg) {
    creation_create(s, bytes, flags, -1, 0, done, arg);
}

void pool_import(struct session *s, int fd, uint64_t bytes, pool_created *done, void *arg) {
    creation_create(s, bytes, 0, fd, 0, done, arg);
}

void pool_resume(struct session *s, int fd, uint64_t number, uint64_t bytes, pool_created *done,
                 void *arg) {
    creation_create(s, bytes, 0, fd, number, done, arg);
}

/* ---- ready --------------------------------------------------------------------------------- */

static void pool_settle_run(struct offload_job *job) {
    struct pool_settling *c = container_of(job, struct pool_settling, job);
    struct pool *p = c->pool;
    int rc = shared_memory_settle(&p->shared, session_is_open, p->session, &c->result);
    if (!rc && !p->memory)
        plane_memory_add(p->session->state->plane, p->base, p->bytes, &p->memory, &c->result);
}

static void pool_worker_told(void *arg, const struct error *result) {
    struct pool_settling *c = arg;
    struct pool *p = c->pool;
    struct error why = *result;
    if (p->shared.lied) {
        p->session->uid_account->lies++;
        p->shared.lied = false;
    }
    if (!why.code && !session_is_open(p->session))
        session_fail_ending(&why);
    else if (!why.code && slots_get(&p->session->pools, p->handle) != p)
        error_set(&why, RDMAD_E_CANCELED, "the pool was destroyed before it was ready");
    p->in_plane = p->in_plane && !result->code;
    p->stage = why.code ? POOL_MADE : POOL_READY;
    c->done(c->arg, &why);
    free(c);
    pool_unref(p);
}

static void pool_settle_done(struct offload_job *job) {
    struct pool_settling *c = container_of(job, struct pool_settling, job);
    struct pool *p = c->pool;
    struct session *s = p->session;
    if (c->result.code || !s->plane || slots_get(&s->pools, p->handle) != p) {
        pool_worker_told(c, &c->result);
        return;
    }
    p->in_plane = true;
    plane_pool_add(s->plane, p->handle, p->base, p->bytes, p->memory, pool_worker_told, c);
}

static struct pool *pool_of(struct session *s, uint64_t handle, struct error *err) {
    struct pool *p = slots_get(&s->pools, handle);
    if (!p)
        error_set(err, RDMAD_E_HANDLE, "the session has no pool 0x%" PRIx64, handle);
    return p;
}

int pool_make_ready(struct session *s, uint64_t handle, plane_done *done, void *arg,
                    struct error *err) {
    struct pool *p = pool_of(s, handle, err);
    if (!p)
        return RDMAD_E_HANDLE;
    if (p->stage != POOL_MADE)
        return error_set(err, RDMAD_E_INVAL, "pool 0x%" PRIx64 " %s", handle,
                         p->stage == POOL_READY ? "is ready already" : "is being made ready");
    struct pool_settling *c = calloc(1, sizeof(*c));
    if (!c)
        return error_set(err, RDMAD_E_NOMEM, "out of memory");
    c->pool = p;
    c->done = done;
    c->arg = arg;
    p->stage = POOL_SETTLING;
    pool_ref(p);
    session_post(p->session, &c->job, pool_settle_run, pool_settle_done);
    return 0;
}

/* ---- use and destroy --------------------------------------------------------------------- */

struct pool *pool_find(struct session *s, uint64_t handle, struct error *err) {
    struct pool *p = pool_of(s, handle, err);
    if (!p || p->stage == POOL_READY)
        return p;
    error_set(err, RDMAD_E_INVAL,
              "pool 0x%" PRIx64 " is not ready: populate and seal it, and send POOL_READY", handle);
    return NULL;
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

struct pool_destruction {
    struct pool *pool;
    plane_done *done;
    void *arg;
};

static void pool_dropped(void *arg, const struct error *result) {
    struct pool_destruction d = *(struct pool_destruction *)arg;
    free(arg);
    d.done(d.arg, result);
    pool_unref(d.pool);
}

int pool_destroy(struct session *s, uint64_t handle, plane_done *done, void *arg,
                 struct error *err) {
    struct pool *p = pool_of(s, handle, err);
    if (!p)
        return RDMAD_E_HANDLE;
    if (p->leases)
        return error_set(err, RDMAD_E_BUSY,
                         "%u leases on pool 0x%" PRIx64 " are alive; revoke them first", p->leases,
                         handle);
    if (p->budgets)
        return error_set(err, RDMAD_E_BUSY,
                         "the budgets of %u services lie in pool 0x%" PRIx64 "; close them first",
                         p->budgets, handle);
    struct pool_destruction *d = malloc(sizeof(*d));
    if (!d)
        return error_set(err, RDMAD_E_NOMEM, "out of memory");
    *d = (struct pool_destruction){p, done, arg};
    slots_remove(&s->pools, handle);
    if (p->in_plane)
        plane_pool_drop(s->plane, handle, pool_dropped, d);
    else
        pool_dropped(d, &(struct error){.code = 0});
    return 0;
}
