/* SPDX-License-Identifier: MIT */
/*
 * pool_create.c - pools come and go: shared memory that the daemon made, or that the program had.
 *
 * The daemon makes it empty. We map and populate it, so that it is our memory by the kernel's
 * accounts, seal it, and say that it is ready; a program's own memory goes the same way after the
 * daemon has mapped it. In a session that cannot be resumed the seal lets nobody take a page away,
 * and what is sealed so cannot be mapped writable again. In one that can it must be, so we keep a
 * descriptor of the memory, and the daemon catches the touch of a page that was taken away.
 *
 * The descriptor that comes with the reply is checked as a hostile one would be: a memfd of exactly
 * the size the reply says, which nobody can shrink under us. A program's own memfd is judged by the
 * daemon, which requires more of it than we would.
 */
#include "common/memfd.h"
#include "libclient/base/error.h"
#include "libclient/control/control.h"
#include "libclient/memory/deferred.h"
#include "libclient/memory/guard.h"
#include "libclient/memory/hold.h"
#include "libclient/memory/lent.h"
#include "libclient/memory/who_holds.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHOWN 4u /* holders that a refusal names */

/* With the lock: it is handed to no daemon any more. */
static void pool_unlist(struct rdmad_pool *pool) {
    struct rdmad_session *s = pool->session;
    struct rdmad_pool **at = &s->pools;
    while (*at && *at != pool)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = pool->next;
    rdmad_lent_pool_ends(pool);
    __atomic_add_fetch(&s->pools_destroyed, 1, __ATOMIC_RELEASE);
}

/* With the lock. */
static void pool_destroyed(struct rdmad_session *s, const struct rdmad_call *call) {
    (void)s;
    pool_unlist(call->object.pool);
}

/* listed: the pool, if the session has it; else NULL. */
static int pool_tell_destroy(struct rdmad_session *s, uint64_t handle, struct rdmad_pool *listed) {
    struct rdmad_pool_destroy_req request = {.pool = handle};
    struct rdmad_call call = {.type = RDMAD_MSG_POOL_DESTROY,
                              .request = &request,
                              .request_size = sizeof(request),
                              .accept = listed ? pool_destroyed : NULL,
                              .object.pool = listed,
                              .quiet = !listed};
    return rdmad_control_call(s, &call);
}

/* With the lock: of what the program does not have any more. */
static void pool_post_destroy(struct rdmad_session *s, uint64_t handle) {
    struct rdmad_pool_destroy_req request = {.pool = handle};
    rdmad_control_post(s, RDMAD_MSG_POOL_DESTROY, &request, sizeof(request));
}

/* With the lock: from now on it is handed to the daemons that follow. */
static void pool_is_ready(struct rdmad_session *s, const struct rdmad_call *call) {
    struct rdmad_pool *pool = call->object.pool;
    pool->resumes = s->resumes;
    pool->next = s->pools;
    s->pools = pool;
}

/* new_one: the pool, if the session has it with that; else NULL. */
static int pool_tell_ready(struct rdmad_session *s, uint64_t handle, struct rdmad_pool *new_one) {
    struct rdmad_pool_ready_req request = {.pool = handle};
    struct rdmad_call call = {.type = RDMAD_MSG_POOL_READY,
                              .request = &request,
                              .request_size = sizeof(request),
                              .accept = new_one ? pool_is_ready : NULL,
                              .object.pool = new_one,
                              .one_try = true};
    return rdmad_control_call(s, &call);
}

/* Huge pages are sealed by the daemon, which maps them before anybody else has them. */
static bool pool_can_resume(const struct rdmad_pool *pool) {
    return pool->session->resume && !pool->huge;
}

static int pool_populate(struct rdmad_pool *pool, int fd) {
    struct rdmad_session *s = pool->session;
    if (rdmad_memfd_populate(pool->base, pool->bytes, true))
        return rdmad_fail_errno(s, RDMAD_E_NOMEM, "the memory of a pool of %zu bytes cannot be had",
                                pool->bytes);
    bool resumable = pool_can_resume(pool);
    if (resumable ? rdmad_memfd_seal(fd) : rdmad_memfd_freeze(fd))
        return rdmad_fail_errno(s, RDMAD_E_PERM, "a pool of %zu bytes cannot be sealed",
                                pool->bytes);
    if (resumable && (pool->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return rdmad_fail_errno(s, RDMAD_E_SYSTEM, "no descriptor for a pool of %zu bytes",
                                pool->bytes);
    if (s->guard)
        pool->guard = rdmad_guard_new(pool);
    return pool_tell_ready(s, pool->handle, pool);
}

static int pool_set_up(struct rdmad_pool *pool, int fd, const struct rdmad_pool_create_rep *reply,
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
    else if (!(pool->arena = rdmad_arena_new(pool->bytes)) ||
             !rdmad_holders_init(&pool->holders, pool->bytes))
        rc = rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for the records of a pool of %zu bytes",
                        pool->bytes);
    else
        rc = pool_populate(pool, fd);
    return rc;
}

static void pool_unmap(struct rdmad_pool *pool) {
    rdmad_guard_free(pool->guard);
    rdmad_deferred_dispose(&pool->holders);
    rdmad_locks_dispose(&pool->holders);
    rdmad_holders_fini(&pool->holders);
    rdmad_arena_free(pool->arena);
    if (pool->base)
        munmap(pool->base, pool->bytes);
    if (pool->fd >= 0)
        close(pool->fd);
}

/* What the daemon made or took, as an object; else the daemon lets go of it. */
static int pool_new(rdmad_session *s, int fd, bool huge, const struct rdmad_pool_create_rep *reply,
                    size_t asked, rdmad_pool **out) {
    struct rdmad_pool *pool = calloc(1, sizeof(*pool));
    int rc;

    if (!pool) {
        pool_tell_destroy(s, reply->pool, NULL);
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a pool");
    }
    rdmad_object_init(&pool->object, RDMAD_KIND_POOL);
    pool->session = s;
    pool->huge = huge;
    pool->fd = -1;
    rc = pool_set_up(pool, fd, reply, asked);
    if (rc) {
        pool_tell_destroy(s, reply->pool, NULL);
        pool_unmap(pool);
        free(pool);
        return rc;
    }
    *out = pool;
    return 0;
}

static int pool_make(rdmad_session *s, size_t bytes, unsigned flags, rdmad_pool **out) {
    struct rdmad_pool_create_req request = {.bytes = bytes, .flags = flags};
    struct rdmad_pool_create_rep reply;
    int fd = -1;
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_POOL_CREATE, request, reply), .fds = &fd,
                              .nfds = 1};
    *out = NULL;
    if (s->guard)
        request.flags &= ~RDMAD_POOL_HUGETLB; /* which cannot be guarded */
    int rc = rdmad_control_call(s, &call);
    if (call.lacks_fds)
        pool_tell_destroy(s, reply.pool, NULL);
    if (rc)
        return rc;
    rc = pool_new(s, fd, request.flags & RDMAD_POOL_HUGETLB, &reply, bytes, out);
    close(fd);
    return rc;
}

int rdmad_pool_create(rdmad_session *s, size_t bytes, unsigned flags, rdmad_pool **out) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_attempt a = RDMAD_ATTEMPT(s);
    int rc;
    do
        rc = pool_make(s, bytes, flags, out);
    while (rdmad_control_again(s, &a, rc));
    return rc;
}

static int pool_take_in(rdmad_session *s, int fd, uint64_t bytes, rdmad_pool **out) {
    struct rdmad_pool_import_req request = {.bytes = bytes};
    struct rdmad_pool_create_rep reply;
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_POOL_IMPORT, request, reply), .sent_fd = fd,
                              .sends_fd = true};
    int rc = rdmad_control_call(s, &call);
    return rc ? rc : pool_new(s, fd, false, &reply, bytes, out);
}

int rdmad_pool_import(rdmad_session *s, int fd, rdmad_pool **out) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_attempt a = RDMAD_ATTEMPT(s);
    struct stat st;
    int rc;
    *out = NULL;
    if (fstat(fd, &st) < 0)
        return rdmad_fail_errno(s, RDMAD_E_FDS, "descriptor %d cannot be imported", fd);
    if (!S_ISREG(st.st_mode))
        return rdmad_fail(s, RDMAD_E_FDS, "descriptor %d is no memfd, and cannot be imported", fd);
    /* Which the program may have done; the daemon says what is wrong when it cannot be. */
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    do
        rc = pool_take_in(s, fd, st.st_size > 0 ? (uint64_t)st.st_size : 0, out);
    while (rdmad_control_again(s, &a, rc));
    return rc;
}

/* ---- at the next daemon -------------------------------------------------------------------- */

/* With the lock. */
static struct rdmad_pool *pool_listed(struct rdmad_session *s, uint64_t handle) {
    struct rdmad_pool *p = s->pools;
    while (p && p->handle != handle)
        p = p->next;
    return p;
}

/* With the lock. */
static void pool_resumed(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_pool_resume_req *request = call->request;
    struct rdmad_pool *pool = pool_listed(s, request->pool);
    if (pool)
        pool->resumes = s->resumes;
    else /* nobody could be told when it was destroyed */
        pool_post_destroy(s, request->pool);
}

static bool pool_is_there(struct rdmad_session *s, uint64_t handle) {
    pthread_mutex_lock(&s->lock);
    bool there = pool_listed(s, handle);
    pthread_mutex_unlock(&s->lock);
    return there;
}

/* The program may destroy it meanwhile, when it has waited for as long as it may. */
static int pool_resume(struct rdmad_session *s, uint64_t handle, size_t bytes, int fd) {
    struct rdmad_pool_resume_req request = {.pool = handle, .bytes = bytes};
    struct rdmad_pool_create_rep reply;
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_POOL_RESUME, request, reply), .sent_fd = fd,
                              .sends_fd = true, .accept = pool_resumed};
    if (fd < 0)
        return rdmad_fail(s, RDMAD_E_UNSUPPORTED,
                          "pool %llu is of huge pages, which no later rdmad can map",
                          (unsigned long long)handle);
    int rc = rdmad_control_call(s, &call);
    if (!rc)
        rc = pool_tell_ready(s, handle, NULL);
    return rc && rc != RDMAD_E_DAEMON_LOST && !pool_is_there(s, handle) ? 0 : rc;
}

int rdmad_pools_resume(struct rdmad_session *s) {
    uint64_t done = 0; /* the pools before have the numbers up to this */
    int rc = 0, fd;
    while (!rc) {
        const struct rdmad_pool *next = NULL;
        pthread_mutex_lock(&s->lock);
        for (const struct rdmad_pool *p = s->pools; p; p = p->next) {
            if (p->handle > done && (!next || p->handle < next->handle))
                next = p;
        }
        size_t bytes = next ? next->bytes : 0;
        done = next ? next->handle : 0;
        fd = next && next->fd >= 0 ? fcntl(next->fd, F_DUPFD_CLOEXEC, 0) : -1;
        if (next && next->fd >= 0 && fd < 0)
            rc = rdmad_fail_errno(s, RDMAD_E_SYSTEM, "no descriptor to hand pool %llu back with",
                                  (unsigned long long)done);
        pthread_mutex_unlock(&s->lock);
        if (!next || rc)
            return rc;
        rc = pool_resume(s, done, bytes, fd);
        if (fd >= 0)
            close(fd);
    }
    return rc;
}

void rdmad_pool_dispose(struct rdmad_pool *pool, const char *call) {
    struct rdmad_session *s = pool->session;
    rdmad_object_end(&pool->object, RDMAD_KIND_POOL, pool->handle, call);
    pthread_mutex_lock(&s->lock);
    pool_unlist(pool);
    pthread_mutex_unlock(&s->lock);
    pool_unmap(pool);
    rdmad_object_retire(&pool->object, sizeof(*pool));
}

/* Takes all of the pool, so that nothing new begins, or tells who is in the way. */
static int pool_take_all(struct rdmad_pool *pool) {
    char who[RDMAD_TEXT_MAX + 128], more[32] = "";
    int rc = rdmad_holders_take(pool, 0, pool->bytes, true, who, sizeof(who));
    if (rc != RDMAD_E_BUSY)
        return rc;
    unsigned count = rdmad_holders_name(pool, 0, pool->bytes, true, SHOWN, who, sizeof(who));
    if (count > SHOWN)
        snprintf(more, sizeof(more), "; and %u more", count - SHOWN);
    return rdmad_fail(pool->session, RDMAD_E_BUSY, "pool %llu is in use, by %u holder%s: %s%s",
                      (unsigned long long)pool->handle, count, count == 1 ? "" : "s", who, more);
}

/* The numbers of the session's leases on the pool; how many there are. */
static unsigned pool_name_leases(const struct rdmad_pool *pool, char *text, size_t size) {
    unsigned count = 0;
    size_t used = 0;
    text[0] = '\0';
    pthread_mutex_lock(&pool->session->lock);
    for (const struct rdmad_lent *l = pool->holders.lent; l; l = l->next) {
        if (l->lease && count++ < SHOWN && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%llu", used ? ", " : "",
                                     (unsigned long long)l->lease);
    }
    pthread_mutex_unlock(&pool->session->lock);
    return count;
}

/* The daemon knows how many, the library which. */
static int pool_fail_leased(const struct rdmad_pool *pool, int rc) {
    char which[SHOWN * 24];
    unsigned count = pool_name_leases(pool, which, sizeof(which));
    if (count == 0)
        return rc; /* in the daemon's words */
    return rdmad_fail(pool->session, rc,
                      "%u lease%s on pool %llu %s alive: %s%s; revoke them first", count,
                      count == 1 ? "" : "s", (unsigned long long)pool->handle,
                      count == 1 ? "is" : "are", which, count > SHOWN ? " and more" : "");
}

/* No daemon could be told that it is destroyed. One that has it nevertheless is the next. */
static void pool_leave(struct rdmad_pool *pool) {
    struct rdmad_session *s = pool->session;
    pthread_mutex_lock(&s->lock);
    if (pool->resumes == s->resumes)
        pool_post_destroy(s, pool->handle);
    pool_unlist(pool);
    pthread_mutex_unlock(&s->lock);
}

int rdmad_pool_destroy(rdmad_pool *pool) {
    RDMAD_LIVE(pool, POOL);
    int rc =
        rdmad_is_inherited(pool->session) ? rdmad_fail_lost(pool->session) : pool_take_all(pool);
    if (rc)
        return rc;
    rc = pool_tell_destroy(pool->session, pool->handle, pool);
    /* With the daemon gone there is nobody left to hold it. */
    if (rc && rc != RDMAD_E_DAEMON_LOST) {
        rdmad_holders_drop(pool, 0, pool->bytes, true);
        return rc == RDMAD_E_BUSY ? pool_fail_leased(pool, rc) : rc;
    }
    if (rc)
        pool_leave(pool);
    rdmad_pool_dispose(pool, __func__);
    return 0;
}

size_t rdmad_pool_size(const rdmad_pool *pool) {
    RDMAD_LIVE(pool, POOL);
    return pool->bytes;
}

void *rdmad_pool_base(const rdmad_pool *pool) {
    RDMAD_LIVE(pool, POOL);
    return pool->base;
}
