/* SPDX-License-Identifier: MIT */
/*
 * pool.c - create: charge, make the memory on the registration thread, tell the worker, report.
 *
 * Making the memory may take seconds, so everything can have changed when it is done: the session
 * may be closing (then the memory goes back at once). It is made in slices, and no further than the
 * one in which the session began to close: a dead client's gigabytes hold up nobody else's. From
 * plane_pool_add on the pool is in the session's table, and whoever ends the session ends the pool.
 *
 * Reference counting: see pool.h. The last reference hands the pool to the registration thread for
 * unmapping; charges and the hold on the session are given back when that is done.
 */
#include "daemon/state/pool.h"
#include "common/memfd.h"
#include "daemon/base/stray.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HUGE_PAGE ((uint64_t)2 << 20)
#define SLICE ((size_t)16 << 20) /* of whole pages, huge ones too; some 10 ms */

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

/* On any thread: an error when the session is ending, after which nobody waits for the pool. */
static int still_wanted(const struct pool *p, struct error *err) {
    if (!__atomic_load_n(&p->session->closing, __ATOMIC_SEQ_CST))
        return 0;
    return error_set(err, RDMAD_E_SHUTDOWN, "the session is ending");
}

static int cannot_be_made(const struct pool *p, int code, struct error *err) {
    return error_errno(err, code, "a pool of %zu bytes%s cannot be made", p->bytes,
                       p->flags & RDMAD_POOL_HUGETLB
                           ? " in huge pages (are enough reserved in vm.nr_hugepages?)"
                           : "");
}

static int fill_slice(const struct pool *p, int fd, size_t at, struct error *err) {
    size_t bytes = p->bytes - at < SLICE ? p->bytes - at : SLICE;
    int rc = rdmad_memfd_allocate(fd, at, bytes); /* what is there stays */
    if (rc)
        return cannot_be_made(p, rc, err);
    /* EINVAL: a kernel before 5.14; the first touch then costs more, nothing else. */
    if (madvise((char *)p->base + at, bytes, MADV_POPULATE_WRITE) && errno != EINVAL)
        return error_errno(err, RDMAD_E_NOMEM, "the memory of a pool of %zu bytes cannot be had",
                           p->bytes);
    return 0;
}

/* Memory that is there, mapped, in the page tables, and known to the devices. */
static int fill_memory(struct pool *p, int fd, struct error *err) {
    int rc = 0;
    p->base = rdmad_memfd_map(fd, p->bytes, true); /* pool_unref unmaps it, whatever happens now */
    if (!p->base)
        return cannot_be_made(p, RDMAD_E_NOMEM, err);
    for (size_t at = 0; !rc && at < p->bytes; at += SLICE) {
        rc = fill_slice(p, fd, at, err);
        if (!rc)
            rc = still_wanted(p, err);
    }
    if (!rc)
        rc = plane_memory_add(p->session->state->plane, p->base, p->bytes, &p->memory, err);
    return rc;
}

static int not_a_memfd(struct error *err) {
    return error_set(err, RDMAD_E_FDS,
                     "the descriptor is not of a memfd: only memfd_create makes memory that can be "
                     "imported");
}

/* The seals are what a client's promises are worth: with them nothing that it does to the memory
 * can take it away but by holes, which the guard is for. Nobody but memfds can have them. */
static int check_memfd(int fd, size_t bytes, struct error *err) {
    const int needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    const int forbidden = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
    int seals = fcntl(fd, F_GET_SEALS), flags = fcntl(fd, F_GETFL);
    struct stat st;

    if (seals < 0)
        return not_a_memfd(err);
    if ((seals & needed) != needed)
        return error_set(err, RDMAD_E_PERM,
                         "the memfd is not sealed with F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL: "
                         "its seals are 0x%x, 0x%x are needed",
                         (unsigned)seals, (unsigned)needed);
    if (seals & forbidden)
        return error_set(err, RDMAD_E_PERM,
                         "the memfd is sealed against writing (0x%x): others could not write to it "
                         "by leases",
                         (unsigned)(seals & forbidden));
    if (flags < 0 || (flags & O_ACCMODE) != O_RDWR)
        return error_set(err, RDMAD_E_PERM,
                         "the memfd's descriptor is not for reading and writing");
    if (fstat(fd, &st) < 0 || st.st_size < 0 || (uint64_t)st.st_size != bytes)
        return error_set(err, RDMAD_E_FDS, "the memfd has %lld bytes, %zu were said",
                         (long long)st.st_size, bytes);
    if (st.st_blksize > 0 && bytes % (size_t)st.st_blksize)
        return error_set(err, RDMAD_E_INVAL,
                         "the memfd has %zu bytes, which is no multiple of its pages of %lu", bytes,
                         (unsigned long)st.st_blksize);
    return 0;
}

/* fd is closed: what keeps the memory is the mapping. */
static int import_memory(struct pool *p, int fd, struct error *err) {
    int rc = check_memfd(fd, p->bytes, err);
    return rc ? rc : fill_memory(p, fd, err);
}

/* On the registration thread. */
static int make_memory(struct pool *p, int *fd_out, struct error *err) {
    size_t bytes = p->bytes;
    int rc = still_wanted(p, err);
    if (rc)
        return rc;
    if (p->imported)
        return import_memory(p, *fd_out, err);
    int fd = rdmad_memfd_create_sparse("rdmad-pool", &bytes, p->flags & RDMAD_POOL_HUGETLB);
    if (fd < 0)
        return cannot_be_made(p, fd, err);
    rc = fill_memory(p, fd, err);
    if (rc)
        close(fd);
    else
        *fd_out = fd;
    return rc;
}

static void creation_run(struct offload_job *job) {
    struct creation *c = container_of(job, struct creation, job);
    make_memory(c->pool, &c->fd, &c->result);
    if (c->pool->imported && c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
}

/* Reports and forgets; takes over the creation, not the pool. */
static void creation_end(struct creation *c, const struct error *result) {
    if (result->code) {
        if (c->fd >= 0)
            stray_close(c->fd);
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
    } else if (still_wanted(p, &gone)) { /* its close takes the pool from the table */
        creation_end(c, &gone);
    } else {
        creation_end(c, result);
    }
}

static void creation_done(struct offload_job *job) {
    struct creation *c = container_of(job, struct creation, job);
    struct pool *p = c->pool;
    struct session *s = p->session;
    if (!c->result.code)
        still_wanted(p, &c->result);
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

static int start(struct session *s, uint64_t bytes, uint32_t flags, bool imported,
                 struct creation *c, struct error *err) {
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
    if (!rc && imported && fcntl(c->fd, F_GET_SEALS) < 0)
        rc = not_a_memfd(err); /* now, so that no file that can wait comes to the other thread */
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

static void create(struct session *s, uint64_t bytes, uint32_t flags, int import_fd,
                   pool_created *done, void *arg) {
    struct error err;
    struct creation *c = calloc(1, sizeof(*c));
    if (!c) {
        if (import_fd >= 0)
            stray_close(import_fd);
        error_set(&err, RDMAD_E_NOMEM, "out of memory for a pool");
        done(arg, NULL, -1, &err);
        return;
    }
    c->job = (struct offload_job){
        .reply_to = s->state->mailbox, .run = creation_run, .done = creation_done};
    c->fd = import_fd;
    c->done = done;
    c->arg = arg;
    if (start(s, bytes, flags, import_fd >= 0, c, &err))
        creation_end(c, &err);
}

void pool_create(struct session *s, uint64_t bytes, uint32_t flags, pool_created *done, void *arg) {
    create(s, bytes, flags, -1, done, arg);
}

void pool_import(struct session *s, int fd, uint64_t bytes, pool_created *done, void *arg) {
    create(s, bytes, 0, fd, done, arg);
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
    if (p->budgets)
        return error_set(err, RDMAD_E_BUSY,
                         "the budgets of %u services lie in pool 0x%" PRIx64 "; close them first",
                         p->budgets, handle);
    struct destruction *d = malloc(sizeof(*d));
    if (!d)
        return error_set(err, RDMAD_E_NOMEM, "out of memory");
    *d = (struct destruction){p, done, arg};
    slots_remove(&s->pools, handle);
    plane_pool_drop(s->plane, handle, pool_dropped, d);
    return 0;
}
