/* SPDX-License-Identifier: MIT */
/*
 * pool.c - pools: shared memory that the daemon made.
 *
 * The descriptor that comes with the reply is checked as if it came from a stranger: a memfd of
 * exactly the size the reply says, which nobody can shrink under us.
 */
#include "common/memfd.h"
#include "libclient/internal.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct rdmad_pool *rdmad_pool_of(struct rdmad_session *s, const void *memory) {
    for (struct rdmad_pool *p = s->pools; p; p = p->next) {
        if ((uintptr_t)memory - (uintptr_t)p->base < p->bytes)
            return p;
    }
    return NULL;
}

static int tell_destroy(struct rdmad_session *s, uint64_t handle, bool quiet) {
    struct rdmad_pool_destroy_req request = {.pool = handle};
    struct rdmad_call call = {.type = RDMAD_MSG_POOL_DESTROY,
                              .request = &request,
                              .request_size = sizeof(request),
                              .quiet = quiet};

    return rdmad_control_call(s, &call);
}

/* Takes over fd. */
static int set_up(struct rdmad_pool *pool, int fd, const struct rdmad_pool_create_rep *reply,
                  size_t asked) {
    struct rdmad_session *s = pool->session;
    int rc = 0;

    pool->handle = reply->pool;
    pool->bytes = reply->bytes;
    if (reply->bytes < asked || rdmad_memfd_verify(fd, reply->bytes) != 0)
        rc = rdmad_fail(s, RDMAD_E_PROTOCOL,
                        "rdmad sent no sealed memory of the size it promised for the pool");
    else if (!(pool->base = rdmad_memfd_map(fd, pool->bytes, true)))
        rc = rdmad_fail_errno(s, RDMAD_E_NOMEM, "cannot map a pool of %zu bytes", pool->bytes);
    else if (!(pool->arena = rdmad_arena_new(pool->bytes)))
        rc = rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for the records of a pool of %zu bytes",
                        pool->bytes);
    close(fd);
    return rc;
}

static void unmap(struct rdmad_pool *pool) {
    rdmad_arena_free(pool->arena);
    if (pool->base)
        munmap(pool->base, pool->bytes);
    free(pool);
}

int rdmad_pool_create(rdmad_session *s, size_t bytes, unsigned flags, rdmad_pool **out) {
    struct rdmad_pool_create_req request = {.bytes = bytes, .flags = flags};
    struct rdmad_pool_create_rep reply;
    int fd = -1;
    struct rdmad_call call = {.type = RDMAD_MSG_POOL_CREATE,
                              .request = &request,
                              .request_size = sizeof(request),
                              .reply = &reply,
                              .reply_size = sizeof(reply),
                              .fds = &fd,
                              .nfds = 1};
    struct rdmad_pool *pool;
    int rc;

    *out = NULL;
    rc = rdmad_control_call(s, &call);
    if (rc)
        return rc;
    pool = calloc(1, sizeof(*pool));
    if (!pool) {
        close(fd);
        tell_destroy(s, reply.pool, true);
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a pool");
    }
    pool->session = s;
    rc = set_up(pool, fd, &reply, bytes);
    if (rc) {
        tell_destroy(s, reply.pool, true);
        unmap(pool);
        return rc;
    }
    pthread_mutex_lock(&s->lock);
    pool->next = s->pools;
    s->pools = pool;
    pthread_mutex_unlock(&s->lock);
    *out = pool;
    return 0;
}

void rdmad_pool_dispose(struct rdmad_pool *pool) {
    struct rdmad_session *s = pool->session;
    struct rdmad_pool **at;

    pthread_mutex_lock(&s->lock);
    for (at = &s->pools; *at != pool; at = &(*at)->next)
        ;
    *at = pool->next;
    __atomic_add_fetch(&s->pools_destroyed, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&s->lock);
    unmap(pool);
}

int rdmad_pool_destroy(rdmad_pool *pool) {
    int rc = tell_destroy(pool->session, pool->handle, false);

    /* With the daemon gone there is nobody left to hold it. */
    if (rc && rc != RDMAD_E_DAEMON_LOST)
        return rc;
    rdmad_pool_dispose(pool);
    return 0;
}

size_t rdmad_pool_size(const rdmad_pool *pool) {
    return pool->bytes;
}

void *rdmad_pool_base(const rdmad_pool *pool) {
    return pool->base;
}
