/* SPDX-License-Identifier: MIT */
/*
 * create.c - a ring is made and freed.
 *
 * The descriptors of the reply are checked before anything is mapped: both memfds have exactly the
 * size that the entries ask for and cannot shrink, and wakeups come on a socket. They are populated
 * and sealed by us, as pools are (pool_create.c), before the daemon reads them.
 */
#include "libclient/ring/create.h"
#include "common/memfd.h"
#include "common/ringword.h"
#include "libclient/base/error.h"
#include "libclient/control/control.h"
#include "libclient/control/event_queue.h"
#include "libclient/ring/let_go.h"
#include "libclient/ring/making.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the object ---------------------------------------------------------------------------- */

struct rdmad_ring *rdmad_ring_new(struct rdmad_session *s, const struct rdmad_ring_parts *parts) {
    struct rdmad_ring *r = calloc(1, sizeof(*r));
    uint32_t n = parts->sq_entries;

    if (!r)
        return NULL;
    rdmad_object_init(&r->object, RDMAD_KIND_RING);
    r->session = s;
    r->handle = parts->handle;
    r->client = parts->client;
    r->daemon = parts->daemon;
    r->sqe = (struct rdmad_sqe *)((char *)parts->client + RDMAD_RING_ENTRIES_OFFSET);
    r->cqe = (const struct rdmad_cqe *)((const char *)parts->daemon + RDMAD_RING_ENTRIES_OFFSET);
    r->wakeup = parts->wakeup;
    r->doorbell = parts->doorbell;
    r->epoll = -1;
    r->entries = n;
    r->cq_entries = parts->cq_entries;
    r->spin_max_ns = r->spin_ns = s->spin_ns;
    r->batch = r->over.first = r->called.first = RDMAD_NO_SLOT;
    r->slot = aligned_alloc(_Alignof(struct rdmad_slot), (n + 1u) * sizeof(*r->slot));
    r->holds.hold = calloc(n, sizeof(*r->holds.hold));
    r->holds.count = n;
    r->holds.ring = parts->handle;
    r->free_slot = calloc(n, sizeof(*r->free_slot));
    r->slot_of = calloc(n, sizeof(*r->slot_of));
    if (s->resume)
        r->message = calloc(n, sizeof(*r->message));
    if (!r->slot || !r->holds.hold || !r->free_slot || !r->slot_of || (s->resume && !r->message)) {
        rdmad_ring_free(r);
        return NULL;
    }
    memset(r->slot, 0, (n + 1u) * sizeof(*r->slot));
    for (uint32_t i = 0; i < n; i++)
        r->free_slot[i] = n - 1 - i;
    r->free_slots = n;
    return r;
}

/* One that was never anybody's is just freed. */
void rdmad_ring_free_struct(struct rdmad_ring *r) {
    if (r->object.gone_since)
        rdmad_object_retire(&r->object, sizeof(*r));
    else
        free(r);
}

void rdmad_ring_free(struct rdmad_ring *r) {
    assert(r->state != RDMAD_RING_GONE);
    for (uint32_t i = 0; r->holds.hold && i < r->entries; i++)
        rdmad_hold_end(&r->holds, i);
    free(r->slot);
    free(r->holds.hold);
    free(r->free_slot);
    free(r->slot_of);
    free(r->message);
    if (r->calling)
        r->state = RDMAD_RING_GONE;
    else
        rdmad_ring_free_struct(r);
}

/* ---- at the daemon ------------------------------------------------------------------------- */

static size_t ring_page_up(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) & ~(page - 1);
}

static bool ring_sizes_sound(const struct rdmad_ring_create_rep *reply, uint32_t asked) {
    uint32_t sq = reply->sq_entries, cq = reply->cq_entries;
    return sq >= asked && sq <= RDMAD_RING_MAX_ENTRIES && (sq & (sq - 1)) == 0 && cq >= sq &&
           cq <= 2 * RDMAD_RING_MAX_ENTRIES && (cq & (cq - 1)) == 0;
}

static bool fd_is_socket(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

static int ring_tell_destroy(struct rdmad_session *s, uint64_t handle) {
    struct rdmad_ring_destroy_req request = {.ring = handle};
    return rdmad_control_tell(s, RDMAD_MSG_RING_DESTROY, &request, sizeof(request), true);
}

int rdmad_ring_tell_ready(struct rdmad_ring *r, uint64_t handle,
                          void (*accept)(struct rdmad_session *s, const struct rdmad_call *call)) {
    struct rdmad_ring_ready_req request = {.ring = handle};
    struct rdmad_call call = {.type = RDMAD_MSG_RING_READY,
                              .request = &request,
                              .request_size = sizeof(request),
                              .accept = accept,
                              .object.ring = r,
                              .one_try = true};
    return rdmad_control_call(r->session, &call);
}

void rdmad_ring_is_made(struct rdmad_session *s, const struct rdmad_call *call) {
    __atomic_store_n(&call->object.ring->resumes, s->resumes, __ATOMIC_RELEASE);
}

/* With the lock: the session has it from now on. */
static void ring_list(struct rdmad_session *s, const struct rdmad_call *call) {
    struct rdmad_ring *r = call->object.ring;
    rdmad_ring_is_made(s, call);
    r->next = s->rings;
    s->rings = r;
    rdmad_holds_add(s, &r->holds);
    if (r->watched)
        rdmad_event_watch(s, r->wakeup);
}

static int ring_populate(struct rdmad_session *s, const struct rdmad_ring_parts *parts,
                         void *daemon, size_t client_bytes, size_t daemon_bytes, int client_fd) {
    if (rdmad_memfd_populate(parts->client, client_bytes, true) ||
        rdmad_memfd_populate(daemon, daemon_bytes, false))
        return rdmad_fail_errno(s, RDMAD_E_NOMEM,
                                "the memory of a ring of %u entries cannot be had",
                                parts->sq_entries);
    if (rdmad_memfd_freeze(client_fd))
        return rdmad_fail_errno(s, RDMAD_E_PERM, "a ring of %u entries cannot be sealed",
                                parts->sq_entries);
    ringword_publish(&parts->client->alive, 1); /* it answers: rdmad_ring_show_alive */
    return 0;
}

/* Makes the ring, lists it and takes over both descriptors, or returns NULL and *rc. */
static struct rdmad_ring *ring_set_up(struct rdmad_session *s,
                                      const struct rdmad_ring_create_rep *reply, uint32_t asked,
                                      bool watched, const int fds[RDMAD_RING_FDS], int *rc) {
    size_t client_bytes = ring_page_up(RDMAD_RING_CLIENT_BYTES(reply->sq_entries));
    size_t daemon_bytes = ring_page_up(RDMAD_RING_DAEMON_BYTES(reply->cq_entries));
    struct rdmad_ring_parts parts = {.handle = reply->ring,
                                     .sq_entries = reply->sq_entries,
                                     .cq_entries = reply->cq_entries,
                                     .wakeup = fds[RDMAD_RING_FD_WAKEUP],
                                     .doorbell = fds[RDMAD_RING_FD_DOORBELL]};
    struct rdmad_ring *r = NULL;
    void *daemon_memory;

    if (!ring_sizes_sound(reply, asked) ||
        rdmad_memfd_verify(fds[RDMAD_RING_FD_CLIENT], client_bytes) ||
        rdmad_memfd_verify(fds[RDMAD_RING_FD_DAEMON], daemon_bytes) ||
        !fd_is_socket(fds[RDMAD_RING_FD_WAKEUP])) {
        *rc = rdmad_fail(s, RDMAD_E_PROTOCOL,
                         "rdmad sent no sealed memory of the sizes that a ring of %u entries has",
                         reply->sq_entries);
        return NULL;
    }
    parts.client = rdmad_memfd_map(fds[RDMAD_RING_FD_CLIENT], client_bytes, true);
    parts.daemon = daemon_memory = rdmad_memfd_map(fds[RDMAD_RING_FD_DAEMON], daemon_bytes, false);
    *rc = RDMAD_E_NOMEM;
    if (!parts.client || !parts.daemon)
        rdmad_fail_errno(s, *rc, "cannot map a ring of %u entries", reply->sq_entries);
    else
        *rc = ring_populate(s, &parts, daemon_memory, client_bytes, daemon_bytes,
                            fds[RDMAD_RING_FD_CLIENT]);
    if (!*rc && !(r = rdmad_ring_new(s, &parts)))
        *rc = rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a ring of %u entries",
                         reply->sq_entries);
    if (r) {
        r->client_bytes = client_bytes;
        r->daemon_bytes = daemon_bytes;
        r->watched = watched;
        if (!(*rc = rdmad_ring_tell_ready(r, parts.handle, ring_list)))
            return r;
        rdmad_ring_free(r);
    }
    if (parts.client)
        munmap(parts.client, client_bytes);
    if (daemon_memory)
        munmap(daemon_memory, daemon_bytes);
    return NULL;
}

static int ring_make(struct rdmad_session *s, uint32_t entries, bool watched,
                     struct rdmad_ring **out) {
    struct rdmad_ring_create_req request = {.sq_entries = entries};
    struct rdmad_ring_create_rep reply;
    struct rdmad_ring *r;
    int fds[RDMAD_RING_FDS], rc;
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_RING_CREATE, request, reply), .fds = fds,
                              .nfds = RDMAD_RING_FDS};

    *out = NULL;
    rc = rdmad_control_call(s, &call);
    if (call.lacks_fds)
        ring_tell_destroy(s, reply.ring);
    if (rc)
        return rc;
    r = ring_set_up(s, &reply, entries, watched, fds, &rc);
    close(fds[RDMAD_RING_FD_CLIENT]);
    close(fds[RDMAD_RING_FD_DAEMON]);
    if (!r) {
        close(fds[RDMAD_RING_FD_WAKEUP]);
        close(fds[RDMAD_RING_FD_DOORBELL]);
        ring_tell_destroy(s, reply.ring);
        return rc;
    }
    *out = r;
    return 0;
}

int rdmad_ring_open(struct rdmad_session *s, uint32_t entries, bool watched,
                    struct rdmad_ring **out) {
    struct rdmad_attempt a = RDMAD_ATTEMPT(s);
    int rc;
    do
        rc = ring_make(s, entries, watched, out);
    while (rdmad_control_again(s, &a, rc));
    return rc;
}

int rdmad_ring_create(rdmad_session *s, uint32_t entries, rdmad_ring **out) {
    RDMAD_LIVE(s, SESSION);
    return rdmad_ring_open(s, entries, true, out);
}

void rdmad_rings_watch(struct rdmad_session *s) {
    for (struct rdmad_ring *r = s->rings; r; r = r->next) {
        if (r->watched && !r->out_of_loops)
            rdmad_event_watch(s, r->wakeup);
    }
    if (s->rings_waking)
        rdmad_event_watch(s, s->back_fd);
}

void rdmad_ring_wakes_session(struct rdmad_ring *r, bool wakes) {
    struct rdmad_session *s = r->session;
    if (r->wakes_session == wakes)
        return;
    r->wakes_session = wakes;
    if (wakes && !s->rings_waking++)
        rdmad_event_watch(s, s->back_fd);
    else if (!wakes && !--s->rings_waking)
        rdmad_event_unwatch(s, s->back_fd);
}

void rdmad_ring_dispose(struct rdmad_ring *r) {
    struct rdmad_session *s = r->session;
    struct rdmad_ring **at;
    rdmad_making_end(r);
    pthread_mutex_lock(&s->lock);
    for (at = &s->rings; *at != r; at = &(*at)->next)
        assert(*at);
    *at = r->next;
    rdmad_holds_remove(s, &r->holds);
    rdmad_ring_wakes_session(r, false);
    if (r->watched) /* a close would not do: a child of the program's may have it, too */
        rdmad_event_unwatch(s, r->wakeup);
    pthread_mutex_unlock(&s->lock);
    close(r->wakeup);
    close(r->doorbell);
    if (r->epoll >= 0)
        close(r->epoll);
    munmap(r->client, r->client_bytes);
    munmap((void *)(uintptr_t)r->daemon, r->daemon_bytes);
    rdmad_ring_free(r);
}

static bool ring_is_served(const struct rdmad_ring *r) {
    return rdmad_is_open(r->session) && !rdmad_ring_is_stale(r);
}

/* Whether ops have no completion yet, taken or not. Nobody takes one any more. */
static bool ring_is_owed(struct rdmad_ring *r) {
    r->cq_tail = ringword_peek(&r->daemon->cq_tail);
    return r->state == RDMAD_RING_LIVE && r->expected > r->cq_tail - r->cq_head;
}

void rdmad_ring_destroy(rdmad_ring *r) {
    if (!r)
        return;
    rdmad_object_end(&r->object, RDMAD_KIND_RING, r->handle, __func__);
    if (ring_is_served(r))
        ring_tell_destroy(r->session, r->handle); /* answered when the ops have ended */
    while (!ring_is_served(r) && ring_is_owed(r) && !rdmad_ring_has_let_go(r))
        rdmad_ring_await_let_go(r, UINT64_MAX);
    rdmad_ring_dispose(r);
}
