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
 *
 * The daemon is asked without waiting for it (making.h): who only looks for completions, or waits
 * for them until a deadline, is not held up by one that hangs.
 *
 * Failures: what can fail comes before the ring's own memory changes, or leaves the entries as they
 * are. So of a moment's shortage, of the daemon or of this process, nothing is left but a later
 * try. Who waits for completions sleeps until then; event loops are woken by the thread that
 * resumes sessions, as a ring has no descriptor of a timer.
 */
#include "libclient/ring/revive.h"
#include "common/memfd.h"
#include "common/ringword.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/rest.h"
#include "libclient/control/control.h"
#include "libclient/control/event_queue.h"
#include "libclient/control/presence.h"
#include "libclient/ring/chain.h"
#include "libclient/ring/create.h"
#include "libclient/ring/keep.h"
#include "libclient/ring/making.h"
#include "libclient/ring/slots.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* A try that is later than this was nobody's concern for a while; one that is less late is only
 * slow. */
#define LEFT_ALONE_NS UINT64_C(1000000000)

/* The pages are there before they take the place of the old ones. */
static bool revive_populate(int fd, size_t bytes, bool writable) {
    void *memory = rdmad_memfd_map(fd, bytes, writable);
    if (!memory)
        return false;
    int rc = rdmad_memfd_populate(memory, bytes, writable), why = errno;
    munmap(memory, bytes);
    errno = why;
    return rc == 0;
}

/* In the place of the old memory. */
static bool revive_map(void *at, size_t bytes, int fd, int prot) {
    if (mmap(at, bytes, prot, MAP_SHARED | MAP_FIXED, fd, 0) != at)
        return false;
    (void)rdmad_memfd_populate(at, bytes, prot & PROT_WRITE); /* they are there: it is faster so */
    return true;
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

static int revive_check(const struct rdmad_ring *r, const struct rdmad_ring_create_rep *reply,
                        const int fds[RDMAD_RING_FDS]) {
    if (reply->sq_entries != r->entries || reply->cq_entries != r->cq_entries)
        return rdmad_fail(r->session, RDMAD_E_PROTOCOL,
                          "rdmad made a ring of %u entries again with %u", r->entries,
                          reply->sq_entries);
    if (rdmad_memfd_verify(fds[RDMAD_RING_FD_CLIENT], r->client_bytes) ||
        rdmad_memfd_verify(fds[RDMAD_RING_FD_DAEMON], r->daemon_bytes))
        return rdmad_fail(r->session, RDMAD_E_PROTOCOL,
                          "rdmad sent no sealed memory of the sizes that ring %llu has",
                          (unsigned long long)r->handle);
    return 0;
}

static bool revive_replace_all(struct rdmad_ring *r, const int fds[RDMAD_RING_FDS],
                               const struct rdmad_sqe *entries, size_t bytes) {
    if (!revive_map(r->client, r->client_bytes, fds[RDMAD_RING_FD_CLIENT], PROT_READ | PROT_WRITE))
        return false;
    memcpy(r->sqe, entries, bytes);
    return revive_map((void *)(uintptr_t)r->daemon, r->daemon_bytes, fds[RDMAD_RING_FD_DAEMON],
                      PROT_READ) &&
           rdmad_memfd_freeze(fds[RDMAD_RING_FD_CLIENT]) == 0 &&
           revive_replace(fds[RDMAD_RING_FD_WAKEUP], r->wakeup) &&
           revive_replace(fds[RDMAD_RING_FD_DOORBELL], r->doorbell);
}

static int revive_memory(struct rdmad_ring *r, const int fds[RDMAD_RING_FDS], uint32_t first) {
    size_t bytes = r->entries * sizeof(*r->sqe);
    struct rdmad_sqe *entries = malloc(bytes);
    if (!entries)
        return rdmad_fail(r->session, RDMAD_E_NOMEM, "out of memory for the entries of ring %llu",
                          (unsigned long long)r->handle);
    memcpy(entries, r->sqe, bytes);
    bool ok = revive_populate(fds[RDMAD_RING_FD_CLIENT], r->client_bytes, true) &&
              revive_populate(fds[RDMAD_RING_FD_DAEMON], r->daemon_bytes, false) &&
              revive_replace_all(r, fds, entries, bytes);
    int rc = ok ? 0
                : rdmad_fail_errno(r->session, RDMAD_E_SYSTEM,
                                   "the memory of ring %llu cannot be had a second time",
                                   (unsigned long long)r->handle);
    free(entries);
    return rc ? rc : revive_entries(r, first);
}

static int revive_with(struct rdmad_ring *r, uint32_t first, const struct rdmad_ring_made *made) {
    int rc = revive_check(r, &made->reply, made->fds);
    if (!rc)
        rc = revive_memory(r, made->fds, first);
    for (unsigned i = 0; i < RDMAD_RING_FDS; i++)
        close(made->fds[i]);
    return rc ? rc : rdmad_ring_tell_ready(r, made->reply.ring, rdmad_ring_is_made);
}

static int revive_create(struct rdmad_ring *r, uint32_t first, uint64_t *number,
                         uint32_t *resumes) {
    struct rdmad_ring_made made;
    int rc = rdmad_making_ask(r, &made);
    if (rc && !made.lacks_fds)
        return rc;
    *number = made.reply.ring;
    *resumes = made.resumes;
    if (!rc)
        rc = revive_with(r, first, &made);
    if (rc)
        rdmad_making_undo(r->session, &made);
    return rc;
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
    r->again.since_ns = r->again.next_ns = 0;
    r->wakeup_state = RDMAD_WAKEUP_EMPTY;
    r->state = RDMAD_RING_LIVE;
}

/* What its loops wait for, with the lock. */
static void revive_loop_add(struct rdmad_ring *r, int fd) {
    struct epoll_event e = {.events = EPOLLIN};
    if (r->epoll >= 0)
        epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &e);
}

static void revive_loop_leave_session(struct rdmad_ring *r) {
    if (r->epoll >= 0)
        epoll_ctl(r->epoll, EPOLL_CTL_DEL, r->session->back_fd, NULL);
}

/* With the lock. */
static void revive_loops(struct rdmad_ring *r) {
    r->out_of_loops = false;
    if (r->watched)
        rdmad_event_watch(r->session, r->wakeup);
    revive_loop_leave_session(r);
    revive_loop_add(r, r->wakeup);
}

/* ---- another try --------------------------------------------------------------------------- */

/* Whether time may mend it: somebody has as much of something as he may. */
static bool revive_may_mend(int rc) {
    return rc == RDMAD_E_LIMIT || rc == RDMAD_E_NOMEM || rc == RDMAD_E_SYSTEM ||
           rc == RDMAD_E_BUSY || rc == RDMAD_E_AGAIN || rc == RDMAD_E_SHUTDOWN;
}

/* With the lock: what its loops wait for now is the thread that resumes sessions. */
static void revive_wake_at(struct rdmad_ring *r, uint64_t when_ns) {
    struct rdmad_session *s = r->session;
    r->wake_ns = when_ns;
    revive_loop_leave_session(r);
    if (when_ns >= s->rings_wake_ns)
        return;
    __atomic_store_n(&s->rings_wake_ns, when_ns, __ATOMIC_RELEASE);
    if (s->wake_resumer)
        s->wake_resumer(s);
}

/* It is looked at again, as if it were tried then. */
static void revive_next_at(struct rdmad_ring *r, uint64_t when_ns) {
    struct rdmad_session *s = r->session;
    r->again.next_ns = when_ns;
    r->again.resumes = rdmad_resumes(s);
    pthread_mutex_lock(&s->lock);
    revive_wake_at(r, when_ns);
    pthread_mutex_unlock(&s->lock);
}

/* It was asked for. Whether there still is a daemon that may answer is found out as by anybody who
 * waits for one without asking. */
static void revive_await_answer(struct rdmad_ring *r) {
    uint64_t now = rdmad_monotonic_ns();
    revive_next_at(r, now + rest_pause_ns(now - rdmad_making_since_ns(r)));
    rdmad_presence_ask(r->session);
}

/* False: it was tried for as long as a daemon is waited for. That a program has not looked for
 * completions when it could have been tried does not count. */
static bool revive_put_off(struct rdmad_ring *r, uint64_t began_ns) {
    struct rdmad_session *s = r->session;
    uint64_t now = rdmad_monotonic_ns(), next_ns = r->again.next_ns;
    uint64_t late = began_ns > next_ns ? began_ns - next_ns : 0; /* an answer may be early */
    if (!r->again.since_ns)
        r->again.since_ns = now;
    else if (late > LEFT_ALONE_NS)
        r->again.since_ns += late;
    uint64_t since = now - r->again.since_ns;
    if (s->call_timeout_ns != UINT64_MAX && since > s->call_timeout_ns)
        return false;
    revive_next_at(r, now + rest_pause_ns(since));
    return true;
}

/* Another daemon has not been asked yet. */
static void revive_forget_daemon(struct rdmad_ring *r) {
    if (r->again.resumes != rdmad_resumes(r->session))
        r->again.since_ns = r->again.next_ns = 0;
}

/* Loops are as before the first try: they wait for a daemon. */
static void revive_quiet_loops(struct rdmad_ring *r) {
    struct rdmad_session *s = r->session;
    pthread_mutex_lock(&s->lock);
    r->wake_ns = 0;
    revive_loop_add(r, s->back_fd);
    rdmad_ring_wakes_session(r, false);
    pthread_mutex_unlock(&s->lock);
}

bool rdmad_ring_awaits_revival(const struct rdmad_ring *r) {
    return r->again.next_ns && rdmad_is_open(r->session) &&
           r->again.resumes == rdmad_resumes(r->session);
}

void rdmad_ring_await_revival(struct rdmad_ring *r, uint64_t deadline_ns) {
    struct pollfd p = {.fd = r->session->sock, .events = POLLRDHUP};
    uint64_t next_ns = r->again.next_ns;
    if (!rdmad_ring_awaits_revival(r))
        return;
    if (rdmad_making_waits(r)) {
        rdmad_making_is_answered(r, next_ns < deadline_ns ? next_ns : deadline_ns);
        return;
    }
    if (poll(&p, 1, rdmad_poll_timeout(next_ns < deadline_ns ? next_ns : deadline_ns)) > 0)
        rdmad_check_gone(r->session);
}

static void ring_wake(struct rdmad_ring *r) {
    r->wake_ns = 0;
    revive_loop_add(r, r->session->back_fd);
    rdmad_ring_wakes_session(r, r->watched);
}

void rdmad_rings_wake(struct rdmad_session *s) {
    uint64_t now = rdmad_monotonic_ns(), next_ns = UINT64_MAX;
    for (struct rdmad_ring *r = s->rings; r; r = r->next) {
        if (r->wake_ns && r->wake_ns <= now)
            ring_wake(r);
        else if (r->wake_ns && r->wake_ns < next_ns)
            next_ns = r->wake_ns;
    }
    __atomic_store_n(&s->rings_wake_ns, next_ns, __ATOMIC_RELEASE);
}

/* ---- a try --------------------------------------------------------------------------------- */

bool rdmad_ring_is_blocked(const struct rdmad_ring *r) {
    return r->state == RDMAD_RING_LOST && r->batch != RDMAD_NO_SLOT &&
           r->slot[r->batch].state != RDMAD_SLOT_POSTPONED;
}

/* The session is lost with it. */
static void revive_give_up(struct rdmad_ring *r, int rc) {
    struct rdmad_session *s = r->session;
    char text[RDMAD_TEXT_MAX + 1];
    snprintf(text, sizeof(text),
             "ring %llu cannot be made again at the rdmad that has come: %.150s",
             (unsigned long long)r->handle, rdmad_error_said(s));
    pthread_mutex_lock(&s->lock);
    rdmad_control_lose(s, rc, text);
    pthread_mutex_unlock(&s->lock);
}

static bool revive_may_try(struct rdmad_ring *r, uint64_t now) {
    if (rdmad_ring_is_blocked(r))
        return false;
    revive_forget_daemon(r);
    return now >= r->again.next_ns || (rdmad_making_waits(r) && rdmad_making_is_answered(r, 0));
}

bool rdmad_ring_revive(struct rdmad_ring *r) {
    struct rdmad_session *s = r->session;
    uint32_t resumes = rdmad_resumes(s), first = r->postponed ? r->sq_postponed : r->sq_tail;
    uint32_t begin = first - r->kept;
    uint64_t number, began_ns = rdmad_monotonic_ns();
    assert(r->state == RDMAD_RING_LOST);
    if (!revive_may_try(r, began_ns))
        return false;
    revive_quiet_loops(r);
    int rc = revive_create(r, first, &number, &resumes);
    if (rdmad_making_waits(r)) {
        revive_await_answer(r);
        return false;
    }
    if (rc && !rdmad_is_lost(s) && (rc == RDMAD_E_DAEMON_LOST || rdmad_resumes(s) != resumes))
        return false; /* that one has gone, too; the next may have been asked for its ring */
    if (rc) {
        if (!revive_may_mend(rc) || !revive_put_off(r, began_ns))
            revive_give_up(r, rc);
        return false;
    }
    pthread_mutex_lock(&s->lock);
    rdmad_chain_revive(r, first);
    revive_fields(r, number);
    revive_loops(r);
    pthread_mutex_unlock(&s->lock);
    if (begin != r->sq_tail &&
        ringword_publish_and_ask(&r->client->sq_tail, r->sq_tail, &r->daemon->sq_wait))
        eventfd_write(r->doorbell, 1);
    return true;
}
