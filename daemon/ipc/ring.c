/* SPDX-License-Identifier: MIT */
/*
 * ring.c - the daemon's end of one ring.
 *
 * The happy path: ring_available peeks at the client's tail, ring_take copies an entry out,
 * ring_complete writes an answer, ring_flush publishes both. Of the client's two words only the
 * tail is read for every batch; the head is read again when the room it last promised runs out,
 * because each look takes the cache line away from a client that writes it all the time.
 *
 * Failures: a tail further ahead than the ring is long, or a head past what was published, is a
 * client that lies; it is told to the caller, who ends the session. A lie that stays within these
 * bounds hurts the liar only: it gets stale entries executed or its own completions overwritten.
 */
#include "daemon/ipc/ring.h"
#include "common/ringword.h"
#include "daemon/base/upper_fd.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static uint32_t round_entries(uint32_t entries) {
    uint32_t n = RDMAD_RING_MIN_ENTRIES;
    while (n < entries && n < RDMAD_RING_MAX_ENTRIES)
        n *= 2;
    return n;
}

/* The real sizes of a ring asked for; a cq shorter than its sq could never take all answers. */
static void ring_sizes(uint32_t *sq_entries, uint32_t *cq_entries) {
    *sq_entries = round_entries(*sq_entries);
    *cq_entries = round_entries(*cq_entries ? *cq_entries : 2 * *sq_entries);
    if (*cq_entries < *sq_entries)
        *cq_entries = *sq_entries;
}

static size_t whole_pages(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

size_t ring_bytes(uint32_t sq_entries, uint32_t cq_entries) {
    ring_sizes(&sq_entries, &cq_entries);
    return whole_pages(RDMAD_RING_CLIENT_BYTES(sq_entries)) +
           whole_pages(RDMAD_RING_DAEMON_BYTES(cq_entries));
}

/* For the client: its own, to be sent. */
static int ring_lend(const struct shared_memory *m, int *fd, struct error *err) {
    *fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
    return *fd < 0 ? error_errno(err, RDMAD_E_SYSTEM, "ring: no descriptor for its memory") : 0;
}

/* The memfd that the client writes: we map it read-only, so we cannot even be made to. */
static int ring_map_client(struct ring *r, int *fd, struct error *err) {
    struct shared_memory *m = &r->client_memory;
    int rc = shared_memory_make(m, "ring", "rdmad-ring-client",
                                RDMAD_RING_CLIENT_BYTES(r->sq_entries), SHARED_READ, err);
    if (rc)
        return rc;
    r->client = m->base;
    r->client_bytes = m->bytes;
    r->sqe = (const struct rdmad_sqe *)((const char *)r->client + RDMAD_RING_ENTRIES_OFFSET);
    return ring_lend(m, fd, err);
}

/* The memfd that we write: mapped first, then frozen, so nobody else ever maps it writable. */
static int ring_map_daemon(struct ring *r, int *fd, struct error *err) {
    struct shared_memory *m = &r->daemon_memory;
    int rc = shared_memory_make(m, "ring", "rdmad-ring-daemon",
                                RDMAD_RING_DAEMON_BYTES(r->cq_entries), SHARED_OURS, err);
    if (rc)
        return rc;
    r->daemon = m->base;
    r->daemon_bytes = m->bytes;
    r->cqe = (struct rdmad_cqe *)((char *)r->daemon + RDMAD_RING_ENTRIES_OFFSET);
    return ring_lend(m, fd, err);
}

/* Where the client says. Any number is as good as 0: the client counts on from there. */
static void ring_begin(struct ring *r) {
    r->sq_head = r->sq_head_published = ringword_peek(&r->client->sq_tail);
    if (r->sq_head)
        ringword_publish(&r->daemon->sq_head, r->sq_head);
}

int ring_settle(struct ring *r, bool (*wanted)(const void *arg), const void *arg,
                struct error *err) {
    int rc = shared_memory_settle(&r->client_memory, wanted, arg, err);
    if (!rc)
        rc = shared_memory_settle(&r->daemon_memory, wanted, arg, err);
    if (!rc)
        ring_begin(r);
    return rc;
}

/* A stream, so that one receive takes any number of wakeups that piled up. Our end is shut for
 * reading while it is still ours alone: what the client sends fails with EPIPE. */
static int ring_open_wakeup(struct ring *r, int *client_end, struct error *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "ring: cannot create a socketpair for wake-ups");
    r->wakeup = upper_fd(pair[0]);
    *client_end = pair[1];
    if (shutdown(r->wakeup, SHUT_RD) < 0)
        return error_errno(err, RDMAD_E_SYSTEM,
                           "ring: cannot shut its socket for wakeups for reading");
    return 0;
}

static int ring_open_doorbell(struct ring *r, int *client_fd, struct error *err) {
    r->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->doorbell >= 0)
        *client_fd = fcntl(r->doorbell, F_DUPFD_CLOEXEC, 0);
    if (*client_fd < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "ring: cannot create an eventfd for wake-ups");
    return 0;
}

int ring_create(uint32_t sq_entries, uint32_t cq_entries, struct ring **out, int fds[RING_FDS],
                struct error *err) {
    struct ring *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, RDMAD_E_NOMEM, "ring: out of memory");
    ring_sizes(&sq_entries, &cq_entries);
    r->sq_entries = sq_entries;
    r->cq_entries = cq_entries;
    r->wakeup = r->doorbell = -1;
    for (int i = 0; i < RING_FDS; i++)
        fds[i] = -1;

    int rc = ring_map_client(r, &fds[RING_FD_CLIENT], err);
    if (rc == 0)
        rc = ring_map_daemon(r, &fds[RING_FD_DAEMON], err);
    if (rc == 0)
        rc = ring_open_wakeup(r, &fds[RING_FD_WAKEUP], err);
    if (rc == 0)
        rc = ring_open_doorbell(r, &fds[RING_FD_DOORBELL], err);
    if (rc < 0) {
        for (int i = 0; i < RING_FDS; i++) {
            if (fds[i] >= 0)
                close(fds[i]);
            fds[i] = -1;
        }
        ring_destroy(r);
        return rc;
    }
    *out = r;
    return 0;
}

int ring_take_doorbell(struct ring *r) {
    int fd = r->doorbell;
    r->doorbell = -1;
    return fd;
}

void ring_destroy(struct ring *r) {
    if (!r)
        return;
    shared_memory_end(&r->client_memory);
    shared_memory_end(&r->daemon_memory);
    if (r->wakeup >= 0)
        close(r->wakeup);
    if (r->doorbell >= 0)
        close(r->doorbell);
    free(r);
}

/* Cqe slots that are neither unread by the client (as last seen) nor promised to an op. */
static uint32_t ring_cq_room(const struct ring *r) {
    return r->cq_entries - (r->cq_tail - r->cq_head_seen) - r->cq_reserved;
}

/* Believes a new head only if it stays within what was published. */
static int ring_see_cq_head(struct ring *r, uint32_t head) {
    if (r->cq_tail_published - head > r->cq_entries)
        return RDMAD_E_RING;
    /* A head that went back would promise less room than ops were admitted with. */
    if (head - r->cq_head_seen > r->cq_entries)
        return RDMAD_E_RING;
    r->cq_head_seen = head;
    return 0;
}

bool ring_published(const struct ring *r) {
    return ringword_peek(&r->client->sq_tail) != r->sq_head;
}

int ring_available(struct ring *r, uint32_t *count) {
    *count = 0;
    uint32_t waiting = ringword_peek(&r->client->sq_tail) - r->sq_head;
    if (waiting > r->sq_entries)
        return RDMAD_E_RING;
    if (waiting > ring_cq_room(r) && ring_see_cq_head(r, ringword_peek(&r->client->cq_head)) < 0)
        return RDMAD_E_RING;
    uint32_t room = ring_cq_room(r);
    *count = waiting < room ? waiting : room;
    return 0;
}

/* Our head first: what is published meanwhile is more, never less than nothing. */
uint32_t ring_unread(const struct ring *r) {
    if (!r->client_memory.locked || !r->daemon_memory.locked)
        return 0;
    uint32_t head = ringword_peek(&r->daemon->sq_head);
    uint32_t unread = ringword_peek(&r->client->sq_tail) - head;
    return unread < r->sq_entries ? unread : r->sq_entries;
}

uint8_t ring_next_opcode(const struct ring *r) {
    return *(const volatile uint8_t *)&r->sqe[r->sq_head & (r->sq_entries - 1)].opcode;
}

void ring_take(struct ring *r, struct rdmad_sqe *copy) {
    *copy = r->sqe[r->sq_head & (r->sq_entries - 1)];
    /* The client may be rewriting the entry right now: nothing below may be read from it again. */
    __asm__ __volatile__("" ::: "memory");
    r->sq_more = copy->flags & RDMAD_SQE_MORE;
    r->sq_head++;
    r->cq_reserved++;
}

void ring_complete(struct ring *r, const struct rdmad_cqe *cqe) {
    r->cqe[r->cq_tail & (r->cq_entries - 1)] = *cqe;
    r->cq_tail++;
    r->cq_reserved--;
}

void ring_release(struct ring *r) {
    assert(r->cq_reserved);
    r->cq_reserved--;
}

/* False: the client sleeps on. A full socket is readable already; a closed one belongs to a session
 * that is ending. What is left is that the kernel had no memory for a byte (ENOBUFS). */
static bool ring_wake_client(struct ring *r) {
    if (send_cost_rests(&r->wakeup_cost))
        return false;
    struct send_look look = send_cost_begin(&r->wakeup_cost);
    if (send(r->wakeup, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) {
        send_cost_end(&r->wakeup_cost, look); /* what was not sent has called nobody */
        return true;
    }
    return errno == EAGAIN || errno == EPIPE || errno == ECONNRESET;
}

bool ring_flush(struct ring *r, bool owed) {
    bool asleep = false;
    if (r->cq_tail != r->cq_tail_published) {
        r->cq_tail_published = r->cq_tail;
        asleep = ringword_publish_and_ask(&r->daemon->cq_tail, r->cq_tail, &r->client->cq_wait);
    }
    /* Second, because a client that waits at all waits for the answers. */
    if (r->sq_head != r->sq_head_published) {
        r->sq_head_published = r->sq_head;
        ringword_publish(&r->daemon->sq_head, r->sq_head);
    }
    if (r->wakeup_owed ? !owed : !asleep)
        return false;
    r->wakeup_owed = !ring_wake_client(r);
    return !r->wakeup_owed;
}

/* The worker may publish the same head meanwhile. */
void ring_leave(struct ring *r, bool sends) {
    ringword_publish(&r->daemon->sq_head, r->sq_head);
    ringword_publish(&r->daemon->sq_left, sends ? RDMAD_SQ_LEFT_UNSENT : RDMAD_SQ_LEFT);
}

void ring_let_go(struct ring *r) {
    ringword_publish(&r->daemon->let_go, 1);
}

void ring_tell_untaken(struct ring *r, uint32_t count) {
    ringword_publish(&r->daemon->untaken, count);
}

/* Its word is in the line that the client looks at anyway, and is written when it changes only. */
void ring_tell_crowded(struct ring *r, bool crowded) {
    if (r->crowded == crowded)
        return;
    r->crowded = crowded;
    ringword_publish(&r->daemon->crowded, crowded);
}

/* One that sleeps is woken once and no more, so that bytes do not pile up while it is stopped. If
 * it was just about to sleep and does not see the question, the next one wakes it. */
bool ring_ask_alive(struct ring *r) {
    uint32_t tail = ringword_peek(&r->client->sq_tail), head = ringword_peek(&r->client->cq_head),
             alive = ringword_peek(&r->client->alive);
    bool moved = tail != r->look.sq_tail || head != r->look.cq_head || alive != r->look.alive;
    r->look.sq_tail = tail;
    r->look.cq_head = head;
    r->look.alive = alive;
    if (!alive)
        return true;
    if (moved)
        r->look.woken = false;
    r->look.ask = r->look.ask == UINT32_MAX - 1 ? 0 : r->look.ask + 1;
    if (ringword_publish_and_ask(&r->daemon->ask, r->look.ask, &r->client->cq_wait) &&
        !r->look.woken)
        r->look.woken = ring_wake_client(r);
    return moved;
}

/* Sets the wait word and looks again: a client that publishes after that look sees the wait word
 * and rings, and each of its writes is an event of its own, however many came before. */
bool ring_arm(struct ring *r) {
    uint32_t *wait = &r->daemon->sq_wait;
    if (ringword_arm_and_peek(wait, &r->client->sq_tail) == r->sq_head)
        return true;
    if (ring_see_cq_head(r, ringword_arm_and_peek(wait, &r->client->cq_head)) < 0)
        return false;
    uint32_t count;
    return ring_available(r, &count) == 0 && count == 0;
}

void ring_disarm(struct ring *r) {
    ringword_disarm(&r->daemon->sq_wait);
}
