/* SPDX-License-Identifier: MIT */
/*
 * revive.c - a ring whose daemon has ended is made anew at the next one.
 *
 * The happy path: the daemon makes a ring of the same size; its memory is mapped over the old, and
 * its descriptors take the numbers of the old ones, so that entries that the program has reserved,
 * and the descriptors that it has put into event loops, stay what they are. The ring begins with
 * what is kept of what the old daemon had taken (keep.h), before the first postponed entry or the
 * next one: the daemon takes that from the tail that stands in our memory when it is told that the
 * ring is ready. Then all of that is published.
 *
 * Only the memory is new. What else the old daemon had taken has ended before.
 */
#include "libclient/ring/revive.h"
#include "common/memfd.h"
#include "common/ringword.h"
#include "libclient/base/error.h"
#include "libclient/control/control.h"
#include "libclient/control/event_queue.h"
#include "libclient/ring/chain.h"
#include "libclient/ring/create.h"
#include "libclient/ring/keep.h"
#include "libclient/ring/slots.h"
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* In the place of the old memory. */
static bool revive_map(void *at, size_t bytes, int fd, int prot) {
    return rdmad_memfd_verify(fd, bytes) == 0 &&
           mmap(at, bytes, prot, MAP_SHARED | MAP_FIXED, fd, 0) == at &&
           rdmad_memfd_populate(at, bytes, prot & PROT_WRITE) == 0;
}

/* The new descriptor under the old number. */
static bool revive_replace(int fd, int number) {
    return dup3(fd, number, O_CLOEXEC) == number;
}

static int revive_entries(struct rdmad_ring *r, uint32_t first) {
    if (!rdmad_ring_write_kept(r, first))
        return rdmad_fail(r->session, RDMAD_E_NOMEM, "out of memory for the receives of ring %llu",
                          (unsigned long long)r->handle);
    ringword_publish(&r->client->sq_tail, first - r->kept);
    ringword_publish(&r->client->alive, 1);
    return 0;
}

static int revive_memory(struct rdmad_ring *r, const int fds[RDMAD_RING_FDS], uint32_t first) {
    size_t bytes = r->entries * sizeof(*r->sqe);
    struct rdmad_sqe *kept = malloc(bytes);
    if (!kept)
        return rdmad_fail(r->session, RDMAD_E_NOMEM, "out of memory for the entries of ring %llu",
                          (unsigned long long)r->handle);
    memcpy(kept, r->sqe, bytes);
    bool ok =
        revive_map(r->client, r->client_bytes, fds[RDMAD_RING_FD_CLIENT], PROT_READ | PROT_WRITE) &&
        revive_map((void *)(uintptr_t)r->daemon, r->daemon_bytes, fds[RDMAD_RING_FD_DAEMON],
                   PROT_READ) &&
        rdmad_memfd_freeze(fds[RDMAD_RING_FD_CLIENT]) == 0 &&
        revive_replace(fds[RDMAD_RING_FD_WAKEUP], r->wakeup) &&
        revive_replace(fds[RDMAD_RING_FD_DOORBELL], r->doorbell);
    if (ok)
        memcpy(r->sqe, kept, bytes);
    free(kept);
    return ok ? revive_entries(r, first)
              : rdmad_fail_errno(r->session, RDMAD_E_SYSTEM,
                                 "the memory of ring %llu cannot be had a second time",
                                 (unsigned long long)r->handle);
}

static int revive_create(struct rdmad_ring *r, uint32_t first, uint64_t *number,
                         uint32_t *resumes) {
    struct rdmad_ring_create_req request = {.sq_entries = r->entries, .cq_entries = r->cq_entries};
    struct rdmad_ring_create_rep reply;
    int fds[RDMAD_RING_FDS];
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_RING_CREATE, request, reply), .fds = fds,
                              .nfds = RDMAD_RING_FDS};
    int rc = rdmad_control_call(r->session, &call);
    if (rc)
        return rc;
    *resumes = call.resumes; /* it may have waited for that daemon */
    if (reply.sq_entries != r->entries || reply.cq_entries != r->cq_entries)
        rc = rdmad_fail(r->session, RDMAD_E_PROTOCOL,
                        "rdmad made a ring of %u entries again with %u", r->entries,
                        reply.sq_entries);
    else
        rc = revive_memory(r, fds, first);
    for (unsigned i = 0; i < RDMAD_RING_FDS; i++)
        close(fds[i]);
    *number = reply.ring;
    return rc ? rc : rdmad_ring_tell_ready(r, reply.ring, rdmad_ring_is_made);
}

/* Nothing of the old daemon's is in it any more. */
static void revive_fields(struct rdmad_ring *r, uint64_t number) {
    r->handle = number;
    r->cq_head = r->cq_tail = r->cq_head_published = r->answered = 0;
    r->expected = 0;
    for (uint32_t i = 0; i < r->entries; i++) {
        struct rdmad_slot *slot = &r->slot[i];
        if (!rdmad_slot_is_ahead(slot))
            continue;
        slot->state = RDMAD_SLOT_PUBLISHED;
        r->expected += !slot->member;
    }
    r->postponed = r->kept = 0;
    r->wakeup_state = RDMAD_WAKEUP_EMPTY;
    r->state = RDMAD_RING_LIVE;
}

/* With the lock. */
static void revive_loops(struct rdmad_ring *r) {
    struct epoll_event e = {.events = EPOLLIN};
    r->out_of_loops = false;
    if (r->watched)
        rdmad_event_watch(r->session, r->wakeup);
    if (r->epoll < 0)
        return;
    epoll_ctl(r->epoll, EPOLL_CTL_DEL, r->session->back_fd, NULL);
    epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->wakeup, &e);
}

bool rdmad_ring_is_blocked(const struct rdmad_ring *r) {
    return r->state == RDMAD_RING_LOST && r->batch != RDMAD_NO_SLOT &&
           r->slot[r->batch].state != RDMAD_SLOT_POSTPONED;
}

bool rdmad_ring_revive(struct rdmad_ring *r) {
    struct rdmad_session *s = r->session;
    uint32_t resumes = rdmad_resumes(s), first = r->postponed ? r->sq_postponed : r->sq_tail;
    uint32_t begin = first - r->kept;
    uint64_t number;
    assert(r->state == RDMAD_RING_LOST);
    if (rdmad_ring_is_blocked(r))
        return false;
    int rc = revive_create(r, first, &number, &resumes);
    if (rc && !rdmad_is_lost(s) && (rc == RDMAD_E_DAEMON_LOST || rdmad_resumes(s) != resumes))
        return false; /* that one has gone, too; the next may have been asked for its ring */
    pthread_mutex_lock(&s->lock);
    if (rc) {
        char text[RDMAD_TEXT_MAX + 1];
        snprintf(text, sizeof(text),
                 "ring %llu cannot be made again at the rdmad that has come: %.150s",
                 (unsigned long long)r->handle, rdmad_error_said(s));
        rdmad_control_lose(s, rc, text);
    } else {
        rdmad_chain_revive(r, first);
        revive_fields(r, number);
        revive_loops(r);
    }
    pthread_mutex_unlock(&s->lock);
    if (!rc && begin != r->sq_tail &&
        ringword_publish_and_ask(&r->client->sq_tail, r->sq_tail, &r->daemon->sq_wait))
        eventfd_write(r->doorbell, 1);
    return !rc;
}
