/* SPDX-License-Identifier: MIT */
/*
 * blocking.c - rdmad_write and rdmad_read, on a ring that the session's threads share.
 *
 * The happy path: submit under the mutex, then wait. One of the threads that wait sleeps on the
 * ring for all of them (without the mutex, so others may submit meanwhile), takes every completion
 * that has come to its waiter, and when its own is among them leaves the watch to the next. A
 * single thread pays for an uncontended mutex and nothing else.
 */
#include "libclient/ring.h"

#include <stdlib.h>

struct rdmad_blocking {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct rdmad_ring *ring; /* made by the first transfer */
    bool watched;            /* some thread sleeps on the ring */
    unsigned sleepers;       /* on changed */
};

struct waiter {
    bool done;
    int status;
    int outcome;
    char text[2 * RDMAD_TEXT_MAX];
};

static __thread int last_outcome;

int rdmad_blocking_new(struct rdmad_session *s) {
    struct rdmad_blocking *b = calloc(1, sizeof(*b));

    if (!b)
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a session");
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    s->blocking = b;
    return 0;
}

/* The ring is among the session's, and goes with them. */
void rdmad_blocking_free(struct rdmad_blocking *b) {
    if (!b)
        return;
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* With the mutex: hands out what has come. */
static void reap(struct rdmad_blocking *b) {
    const struct rdmad_cqe *cqe;

    while (rdmad_ring_peek(b->ring, &cqe) == 0) {
        struct waiter *w = (struct waiter *)(uintptr_t)cqe->user_data;
        w->status = cqe->status;
        w->outcome = cqe->outcome;
        if (cqe->status)
            rdmad_ring_explain(b->ring, cqe, w->text, sizeof(w->text));
        w->done = true;
        rdmad_ring_seen(b->ring, cqe);
    }
}

/* With the mutex, released meanwhile: until something has completed, perhaps somebody else's. */
static void wait_for_completions(struct rdmad_blocking *b) {
    if (b->watched) {
        b->sleepers++;
        pthread_cond_wait(&b->changed, &b->lock);
        b->sleepers--;
        return;
    }
    b->watched = true;
    pthread_mutex_unlock(&b->lock);
    rdmad_ring_await(b->ring, UINT64_MAX);
    pthread_mutex_lock(&b->lock);
    b->watched = false;
    reap(b);
    if (b->sleepers)
        pthread_cond_broadcast(&b->changed);
}

/* With the mutex. */
static int submit(struct rdmad_blocking *b, struct rdmad_sqe *entry, struct waiter *w) {
    struct rdmad_sqe *sqe;

    while (!(sqe = rdmad_ring_reserve(b->ring)))
        wait_for_completions(b);
    *sqe = *entry;
    sqe->user_data = (uintptr_t)w;
    return rdmad_ring_submit(b->ring);
}

static int transfer(rdmad_lease *lease, uint64_t offset, void *buffer, size_t length,
                    enum rdmad_opcode opcode) {
    struct rdmad_session *s = lease->session;
    struct rdmad_blocking *b = s->blocking;
    struct rdmad_sqe entry = {.opcode = UINT8_MAX};
    struct waiter w = {.done = false};
    int rc = 0;

    last_outcome = RDMAD_FAILED_UNTOUCHED;
    pthread_mutex_lock(&b->lock);
    if (!b->ring)
        rc = rdmad_ring_open(s, s->blocking_entries, false, &b->ring);
    if (!rc && opcode == RDMAD_OP_READ)
        rc = rdmad_prep_read(b->ring, &entry, lease, offset, buffer, length, 0);
    else if (!rc)
        rc = rdmad_prep_write(b->ring, &entry, lease, offset, buffer, length, 0);
    if (rc) {
        pthread_mutex_unlock(&b->lock);
        return rc;
    }
    submit(b, &entry, &w); /* with the daemon lost, it completes with that */
    while (!w.done)
        wait_for_completions(b);
    pthread_mutex_unlock(&b->lock);
    last_outcome = w.outcome;
    return w.status ? rdmad_fail(s, w.status, "%s", w.text) : 0;
}

int rdmad_write(rdmad_lease *lease, uint64_t offset, const void *buffer, size_t length) {
    return transfer(lease, offset, (void *)(uintptr_t)buffer, length, RDMAD_OP_WRITE);
}

int rdmad_read(rdmad_lease *lease, uint64_t offset, void *buffer, size_t length) {
    return transfer(lease, offset, buffer, length, RDMAD_OP_READ);
}

int rdmad_last_outcome(void) {
    return last_outcome;
}
