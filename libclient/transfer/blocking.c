/* SPDX-License-Identifier: MIT */
/*
 * blocking.c - desks: a ring each, that threads share.
 */

#include "libclient/transfer/blocking.h"

#include "libclient/base/error.h"
#include "libclient/control/control.h"
#include "libclient/ring/create.h"
#include "libclient/ring/submit.h"
#include "libclient/ring/wait.h"
#include "libclient/transfer/segments.h"

#include <stdlib.h>

#define PATIENT_ENTRIES 64u

struct desk {
    struct desk *next;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct rdmad_ring *ring;
    bool watched;      /* some thread sleeps on the ring */
    unsigned sleepers; /* on changed */
    unsigned users;    /* of a patient desk, under the blocking lock: at most one an entry */
};

struct rdmad_blocking {
    pthread_mutex_t lock;
    struct desk brief;     /* its ring is made by the first transfer */
    struct desk *patients; /* for what may wait for ever */
};

struct waiter {
    bool done;
    struct rdmad_cqe cqe;
    char text[2 * RDMAD_TEXT_MAX];
};

static __thread int last_outcome;

static void desk_init(struct desk *d) {
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
}

/* The ring is among the session's, and goes with them. */
static void desk_fini(struct desk *d) {
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
}

int rdmad_blocking_new(struct rdmad_session *s) {
    struct rdmad_blocking *b = calloc(1, sizeof(*b));

    if (!b)
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a session");
    pthread_mutex_init(&b->lock, NULL);
    desk_init(&b->brief);
    s->blocking = b;
    return 0;
}

void rdmad_blocking_free(struct rdmad_blocking *b) {
    if (!b)
        return;
    desk_fini(&b->brief);
    for (struct desk *d = b->patients, *next; d; d = next) {
        next = d->next;
        desk_fini(d);
        free(d);
    }
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* ---- which desk ---------------------------------------------------------------------------- */

static int patient_desk(struct rdmad_session *s, struct desk **out) {
    struct desk *d = calloc(1, sizeof(*d));
    int rc;

    if (!d)
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a ring");
    rc = rdmad_ring_open(s, PATIENT_ENTRIES, false, &d->ring);
    if (rc) {
        free(d);
        return rc;
    }
    desk_init(d);
    d->next = s->blocking->patients;
    s->blocking->patients = d;
    *out = d;
    return 0;
}

/* One that has an entry for us; leave_desk gives it back. */
static int find_desk(struct rdmad_session *s, bool patient, struct desk **out) {
    struct rdmad_blocking *b = s->blocking;
    struct desk *d;
    int rc = 0;

    if (!patient) {
        *out = &b->brief;
        return 0;
    }
    pthread_mutex_lock(&b->lock);
    for (d = b->patients; d && d->users == d->ring->entries; d = d->next)
        ;
    if (!d)
        rc = patient_desk(s, &d);
    if (d)
        d->users++;
    pthread_mutex_unlock(&b->lock);
    *out = d;
    return d ? 0 : rc;
}

static void leave_desk(struct rdmad_session *s, struct desk *d) {
    if (d == &s->blocking->brief)
        return;
    pthread_mutex_lock(&s->blocking->lock);
    d->users--;
    pthread_mutex_unlock(&s->blocking->lock);
}

/* ---- at a desk ----------------------------------------------------------------------------- */

/* With the mutex: hands out what has come. */
static void reap(struct desk *d) {
    const struct rdmad_cqe *cqe;

    while (rdmad_ring_peek(d->ring, &cqe) == 0) {
        struct waiter *w = (struct waiter *)(uintptr_t)cqe->user_data;
        w->cqe = *cqe;
        if (cqe->status)
            rdmad_ring_explain(d->ring, cqe, w->text, sizeof(w->text));
        w->done = true;
        rdmad_ring_seen(d->ring, cqe);
    }
}

/* With the mutex, released meanwhile: until something has completed, perhaps somebody else's. */
static void wait_for_completions(struct desk *d) {
    if (d->watched) {
        d->sleepers++;
        pthread_cond_wait(&d->changed, &d->lock);
        d->sleepers--;
        return;
    }
    d->watched = true;
    pthread_mutex_unlock(&d->lock);
    rdmad_ring_await(d->ring, UINT64_MAX);
    pthread_mutex_lock(&d->lock);
    d->watched = false;
    reap(d);
    if (d->sleepers)
        pthread_cond_broadcast(&d->changed);
}

static int prepare(struct rdmad_ring *r, struct rdmad_sqe *sqe, const struct rdmad_want *want,
                   uint64_t user_data) {
    switch (want->opcode) {
    case RDMAD_OP_READ:
        return rdmad_prep_read(r, sqe, want->lease, want->offset, want->buffer, want->length,
                               user_data);
    case RDMAD_OP_WRITE:
        return rdmad_prep_write(r, sqe, want->lease, want->offset, want->buffer, want->length,
                                user_data);
    case RDMAD_OP_NOTIFY:
        return rdmad_prep_write_notify(r, sqe, want->lease, want->offset, want->buffer,
                                       want->length, want->imm, user_data);
    case RDMAD_OP_CAS:
        return rdmad_prep_cas(r, sqe, want->lease, want->offset, want->compare, want->swap,
                              user_data);
    case RDMAD_OP_FADD:
        return rdmad_prep_fetch_add(r, sqe, want->lease, want->offset, want->swap, user_data);
    case RDMAD_OP_NOTIFIED:
        return rdmad_prep_notified(r, sqe, want->lease, user_data);
    case RDMAD_OP_RECV:
        return rdmad_prep_recv(r, sqe, want->channel, want->buffer, want->length, user_data);
    default:
        return rdmad_prep_send(r, sqe, want->channel, want->buffer, want->length, user_data);
    }
}

/* With the mutex. RDMAD_E_AGAIN: no entry is free. */
static int try_submit(struct rdmad_ring *r, const struct rdmad_want *want, struct waiter *w) {
    struct rdmad_sqe *sqe;
    int rc;

    if (want->count) {
        rc = rdmad_ring_batch(r, want->opcode, want->lease, want->segments, want->count,
                              (uintptr_t)w);
        if (rc)
            return rc;
    } else {
        sqe = rdmad_ring_reserve(r);
        if (!sqe)
            return RDMAD_E_AGAIN;
        rc = prepare(r, sqe, want, (uintptr_t)w);
        if (rc) {
            rdmad_ring_take_back(r, 1);
            return rc;
        }
        sqe->flags |= want->flags;
        if (want->flags & RDMAD_SQE_IMM)
            sqe->imm = want->imm;
        sqe->timeout_ns = want->timeout_ns;
    }
    rdmad_ring_submit(r); /* with the daemon lost, it completes with that */
    return 0;
}

/* With the mutex. */
static int run(struct rdmad_session *s, struct desk *d, const struct rdmad_want *want,
               struct waiter *w) {
    int rc = 0;

    if (!d->ring)
        rc = rdmad_ring_open(s, s->blocking_entries, false, &d->ring);
    if (rc)
        return rc;
    while ((rc = try_submit(d->ring, want, w)) == RDMAD_E_AGAIN)
        wait_for_completions(d);
    while (!rc && !w->done)
        wait_for_completions(d);
    return rc;
}

static bool is_patient(uint8_t opcode) {
    return opcode == RDMAD_OP_RECV || opcode == RDMAD_OP_SEND || opcode == RDMAD_OP_NOTIFIED;
}

int rdmad_blocking_do(struct rdmad_session *s, const struct rdmad_want *want,
                      struct rdmad_cqe *cqe) {
    struct waiter w = {.done = false};
    struct desk *d;
    int rc;

    last_outcome = RDMAD_FAILED_UNTOUCHED;
    if (s->inherited)
        return rdmad_fail_lost(s);
    rc = find_desk(s, is_patient(want->opcode), &d);
    if (rc)
        return rc;
    pthread_mutex_lock(&d->lock);
    rc = run(s, d, want, &w);
    pthread_mutex_unlock(&d->lock);
    leave_desk(s, d);
    if (rc)
        return rc;
    last_outcome = w.cqe.outcome;
    if (cqe)
        *cqe = w.cqe;
    /* A timeout that was asked for is an answer. */
    if (w.cqe.status == RDMAD_E_TIMEOUT && want->timeout_ns)
        return RDMAD_E_TIMEOUT;
    return w.cqe.status ? rdmad_fail(s, w.cqe.status, "%s", w.text) : 0;
}

unsigned rdmad_blocking_segments(struct rdmad_session *s) {
    struct desk *d = &s->blocking->brief;
    unsigned count = 0;

    pthread_mutex_lock(&d->lock);
    /* Half the ring: a large batch must not wait until nobody else is there. */
    if (d->ring || rdmad_ring_open(s, s->blocking_entries, false, &d->ring) == 0)
        count = d->ring->entries / 2;
    pthread_mutex_unlock(&d->lock);
    return count > RDMAD_BATCH_MAX ? RDMAD_BATCH_MAX : count;
}

uint64_t rdmad_blocking_timeout(int timeout_ms) {
    if (timeout_ms < 0)
        return 0;
    return timeout_ms ? (uint64_t)timeout_ms * 1000000u : 1;
}

void rdmad_blocking_part_done(void) {
    if (last_outcome == RDMAD_FAILED_UNTOUCHED)
        last_outcome = RDMAD_FAILED_PARTIAL;
}

void rdmad_blocking_untouched(void) {
    last_outcome = RDMAD_FAILED_UNTOUCHED;
}

int rdmad_last_outcome(void) {
    return last_outcome;
}
