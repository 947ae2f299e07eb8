/* SPDX-License-Identifier: MIT */
/*
 * memory.c - pools as the device knows them.
 *
 * A pool is registered once, with no right for the other end: that is what windows and lease
 * registrations are for. Registering takes seconds for a large pool, so the host's lock is never
 * held across it. Instead a memory that is being registered or deregistered is marked as busy, and
 * only callers that want that memory wait for it. A device counts such calls as users, and is not
 * closed before the last is back. If the device goes meanwhile, only the device thread waits for
 * that.
 *
 * The workers read m->mr without the lock: it is set before the device is in anybody's hands, or
 * before memory_add returns, and taken back when nobody has the device, or in memory_remove.
 */
#include "daemon/fabric/verbs/host/memory.h"
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/host/member.h"
#include "daemon/fabric/verbs/host/state.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct fabric_memory {
    struct list node; /* in fabric_host.memories */
    struct fabric_host *host;
    void *base;
    uint64_t bytes;
    bool busy;                   /* under lock */
    const struct device *device; /* on which mr is; atomic, NULL: none */
    const struct device *tried;  /* on which it failed; under lock */
    struct ibv_mr *mr;
};

struct ibv_mr *memory_mr(const struct fabric_memory *m, const struct device *d) {
    return d && __atomic_load_n(&m->device, __ATOMIC_ACQUIRE) == d ? m->mr : NULL;
}

uint64_t memory_offset(const struct fabric_memory *m, const void *at) {
    return (uintptr_t)at - (uintptr_t)m->base;
}

/* ---- one registration ---------------------------------------------------------------------- */

static void memory_say_failed(const struct device *d, uint64_t bytes, int error,
                              struct error *err) {
    struct rlimit lim = {0};
    getrlimit(RLIMIT_MEMLOCK, &lim);
    if ((error == ENOMEM || error == EAGAIN || error == EPERM) && lim.rlim_cur != RLIM_INFINITY)
        error_set(err, RDMAD_E_NOMEM,
                  "pool: %" PRIu64 " bytes cannot be registered on %s: %s; rdmad may lock %" PRIu64
                  " KiB of memory (RLIMIT_MEMLOCK): set LimitMEMLOCK=infinity in its unit, or "
                  "ulimit -l unlimited before its start",
                  bytes, d->name, strerror(error), (uint64_t)lim.rlim_cur >> 10);
    else if (error == ENOMEM)
        error_set(err, RDMAD_E_NOMEM,
                  "pool: %" PRIu64 " bytes cannot be registered on %s: the kernel or the device "
                  "has no room (of max_mr %d registrations); free pools or ask for less",
                  bytes, d->name, d->attr.orig_attr.max_mr);
    else
        error_set(err, RDMAD_E_SYSTEM, "pool: %" PRIu64 " bytes cannot be registered on %s: %s",
                  bytes, d->name, strerror(error));
}

/* *error is the errno when it fails, and why says what to do. */
static struct ibv_mr *memory_register(const struct fabric_memory *m, const struct device *d,
                                      int *error, struct error *why) {
    unsigned access = IBV_ACCESS_LOCAL_WRITE;
    if (d->memory_windows)
        access |= IBV_ACCESS_MW_BIND;
    if (d->settings.odp && device_has_odp(d))
        access |= IBV_ACCESS_ON_DEMAND;
    struct ibv_mr *mr = ibv_reg_mr_iova(d->pd, m->base, m->bytes, (uintptr_t)m->base, access);
    *error = errno;
    if (!mr)
        memory_say_failed(d, m->bytes, *error, why);
    return mr;
}

static void memory_set_mr(struct fabric_memory *m, const struct device *d, struct ibv_mr *mr) {
    m->mr = mr;
    __atomic_store_n(&m->device, d, __ATOMIC_RELEASE);
}

static void memory_deregister(const struct device *d, struct ibv_mr *mr, uint64_t bytes) {
    int failed = ibv_dereg_mr(mr);
    if (failed)
        LOG_LIMITED(ERR,
                    ("%s: a pool of %" PRIu64
                     " bytes cannot be deregistered, its pages stay pinned: %s",
                     d->name, bytes, strerror(failed)),
                    FIELD_STR("DEVICE", d->name));
}

/* ---- pools come and go --------------------------------------------------------------------- */

/* With the lock; the call that follows is counted. */
static void memory_begin(struct fabric_memory *m, struct open_device *o) {
    assert(!m->busy);
    m->busy = true;
    o->users++;
}

/* With the lock. */
static void memory_finish(struct fabric_memory *m, struct open_device *o) {
    assert(m->busy && o->users > 0);
    m->busy = false;
    o->users--;
    pthread_cond_broadcast(&m->host->memory_idle);
}

/* Registers m on the device in use. Fails only if that lives: when it goes, m waits for the next.
 */
static int memory_register_now(struct fabric_memory *m, struct open_device *o, struct error *err) {
    struct fabric_host *h = m->host;
    struct error why = {0};
    int error = 0;
    struct ibv_mr *mr = memory_register(m, &o->d, &error, &why);
    if (!mr && (error == EIO || error == ENODEV))
        host_device_failed(h, &o->d, &why);

    pthread_mutex_lock(&h->lock);
    memory_finish(m, o);
    bool failed = !mr && h->now == o && h->failed != &o->d;
    if (mr)
        memory_set_mr(m, &o->d, mr); /* if the device goes, it is taken back with all */
    else
        m->tried = &o->d;
    if (failed)
        list_remove(&m->node);
    pthread_mutex_unlock(&h->lock);
    if (failed && err)
        *err = why;
    return failed ? why.code : 0;
}

int memory_add(struct fabric_host *h, void *base, uint64_t bytes, struct fabric_memory **out,
               struct error *err) {
    struct fabric_memory *m = calloc(1, sizeof(*m));
    if (!m)
        return error_set(err, RDMAD_E_NOMEM, "pool: out of memory");
    m->host = h;
    m->base = base;
    m->bytes = bytes;
    pthread_mutex_lock(&h->lock);
    list_append(&h->memories, &m->node);
    struct open_device *o = h->now;
    if (o)
        memory_begin(m, o);
    pthread_mutex_unlock(&h->lock);

    int failed = o ? memory_register_now(m, o, err) : 0;
    if (failed) {
        free(m);
        return failed;
    }
    *out = m;
    return 0;
}

void memory_remove(struct fabric_memory *m) {
    struct fabric_host *h = m->host;
    pthread_mutex_lock(&h->lock);
    while (m->busy)
        pthread_cond_wait(&h->memory_idle, &h->lock);
    list_remove(&m->node);
    struct ibv_mr *mr = m->device ? m->mr : NULL;
    struct open_device *o = mr ? container_of(m->device, struct open_device, d) : NULL;
    if (o)
        memory_begin(m, o);
    pthread_mutex_unlock(&h->lock);
    if (o) {
        memory_deregister(&o->d, mr, m->bytes);
        pthread_mutex_lock(&h->lock);
        memory_finish(m, o);
        pthread_mutex_unlock(&h->lock);
    }
    free(m);
}

/* ---- devices come and go ------------------------------------------------------------------- */

/* The next that is not on d, and was not tried in vain. With the lock. */
static struct fabric_memory *next_without(const struct fabric_host *h, const struct device *d) {
    list_for_each (pos, &h->memories) {
        struct fabric_memory *m = list_entry(pos, struct fabric_memory, node);
        if (!m->busy && m->device != d && m->tried != d)
            return m;
    }
    return NULL;
}

bool memories_missing(const struct fabric_host *h) {
    assert(h->open);
    return next_without(h, &h->open->d) != NULL;
}

void memories_register(struct fabric_host *h) {
    struct open_device *o = h->open;
    unsigned failed = 0;
    struct error why = {0};
    assert(o && h->now != o);
    pthread_mutex_lock(&h->lock);
    for (struct fabric_memory *m; (m = next_without(h, &o->d)) && device_there(o);) {
        int error;
        memory_begin(m, o);
        pthread_mutex_unlock(&h->lock);
        struct ibv_mr *mr = memory_register(m, &o->d, &error, &why);
        pthread_mutex_lock(&h->lock);
        memory_finish(m, o);
        if (mr)
            memory_set_mr(m, &o->d, mr);
        else
            m->tried = &o->d;
        failed += mr == NULL;
    }
    pthread_mutex_unlock(&h->lock);
    if (failed)
        LOG(ERR, ("%s: %u pools cannot be used over it, the last: %s", o->d.name, failed, why.text),
            FIELD_STR("DEVICE", o->d.name));
}

static struct fabric_memory *next_on(const struct fabric_host *h, const struct device *d) {
    list_for_each (pos, &h->memories) {
        struct fabric_memory *m = list_entry(pos, struct fabric_memory, node);
        if (!m->busy && m->device == d)
            return m;
    }
    return NULL;
}

void memories_deregister(struct fabric_host *h) {
    struct open_device *o = h->open;
    assert(o && h->now != o);
    pthread_mutex_lock(&h->lock);
    for (;;) {
        struct fabric_memory *m = next_on(h, &o->d);
        if (m) {
            struct ibv_mr *mr = m->mr;
            memory_set_mr(m, NULL, NULL);
            memory_begin(m, o);
            pthread_mutex_unlock(&h->lock);
            memory_deregister(&o->d, mr, m->bytes);
            pthread_mutex_lock(&h->lock);
            memory_finish(m, o);
        } else if (o->users) {
            pthread_cond_wait(&h->memory_idle, &h->lock);
        } else {
            break;
        }
    }
    list_for_each (pos, &h->memories) /* the next device may have its address */
        list_entry(pos, struct fabric_memory, node)->tried = NULL;
    pthread_mutex_unlock(&h->lock);
}
