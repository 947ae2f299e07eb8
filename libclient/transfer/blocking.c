/* SPDX-License-Identifier: MIT */
/*
 * blocking.c - rings that threads share.
 *
 * One is for transfers, which end by themselves. Ops that may wait for somebody else's program have
 * other rings, each with at most as many users as entries.
 */
#include "libclient/transfer/blocking.h"
#include "libclient/base/error.h"
#include "libclient/channel/channel.h"
#include "libclient/control/control.h"
#include "libclient/ring/create.h"
#include "libclient/ring/revive.h"
#include "libclient/ring/submit.h"
#include "libclient/ring/wait.h"
#include "libclient/transfer/prep.h"
#include "libclient/transfer/segments.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define WAITS_ENTRIES 64u

struct blocking_ring {
    struct blocking_ring *next;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct rdmad_ring *ring;
    bool watched;      /* some thread sleeps on the ring */
    unsigned sleepers; /* on changed */
    unsigned users;    /* of one for waits, under the blocking lock: at most one an entry */
};

struct rdmad_blocking {
    pthread_mutex_t lock;
    struct blocking_ring transfers; /* made by the first of them */
    struct blocking_ring *waits;    /* for what may wait for ever */
};

struct call_waiter {
    bool done;
    struct rdmad_cqe cqe;
    char text[2 * RDMAD_TEXT_MAX];
};

static __thread int last_outcome;

static void blocking_ring_init(struct blocking_ring *cr) {
    pthread_mutex_init(&cr->lock, NULL);
    pthread_cond_init(&cr->changed, NULL);
}

/* The ring is among the session's, and goes with them. */
static void blocking_ring_fini(struct blocking_ring *cr) {
    pthread_cond_destroy(&cr->changed);
    pthread_mutex_destroy(&cr->lock);
}

int rdmad_blocking_new(struct rdmad_session *s) {
    struct rdmad_blocking *b = calloc(1, sizeof(*b));
    if (!b)
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a session");
    pthread_mutex_init(&b->lock, NULL);
    blocking_ring_init(&b->transfers);
    s->blocking = b;
    return 0;
}

void rdmad_blocking_free(struct rdmad_blocking *b) {
    if (!b)
        return;
    blocking_ring_fini(&b->transfers);
    for (struct blocking_ring *cr = b->waits, *next; cr; cr = next) {
        next = cr->next;
        blocking_ring_fini(cr);
        free(cr);
    }
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* ---- which ring ---------------------------------------------------------------------------- */

static int waits_ring_open(struct rdmad_session *s, struct blocking_ring **out) {
    struct blocking_ring *cr = calloc(1, sizeof(*cr));
    if (!cr)
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a ring");
    int rc = rdmad_ring_open(s, WAITS_ENTRIES, false, &cr->ring);
    if (rc) {
        free(cr);
        return rc;
    }
    blocking_ring_init(cr);
    cr->next = s->blocking->waits;
    s->blocking->waits = cr;
    *out = cr;
    return 0;
}

/* Returns a ring with an entry for this call; blocking_ring_leave gives that back. */
static int blocking_ring_find(struct rdmad_session *s, bool waits, struct blocking_ring **out) {
    struct rdmad_blocking *b = s->blocking;
    struct blocking_ring *cr;
    int rc = 0;
    if (!waits) {
        *out = &b->transfers;
        return 0;
    }
    pthread_mutex_lock(&b->lock);
    for (cr = b->waits; cr && cr->users == cr->ring->entries; cr = cr->next)
        ;
    if (!cr)
        rc = waits_ring_open(s, &cr);
    if (cr)
        cr->users++;
    pthread_mutex_unlock(&b->lock);
    *out = cr;
    return cr ? 0 : rc;
}

static void blocking_ring_leave(struct rdmad_session *s, struct blocking_ring *cr) {
    if (cr == &s->blocking->transfers)
        return;
    pthread_mutex_lock(&s->blocking->lock);
    assert(cr->users > 0);
    cr->users--;
    pthread_mutex_unlock(&s->blocking->lock);
}

/* ---- on a ring ----------------------------------------------------------------------------- */

/* With the mutex: hands out what has come. */
static void blocking_ring_reap(struct blocking_ring *cr) {
    const struct rdmad_cqe *cqe;
    while (rdmad_ring_peek(cr->ring, &cqe) == 0) {
        struct call_waiter *w = (struct call_waiter *)(uintptr_t)cqe->user_data;
        w->cqe = *cqe;
        if (cqe->status)
            rdmad_ring_explain(cr->ring, cqe, w->text, sizeof(w->text));
        w->done = true;
        rdmad_ring_seen(cr->ring, cqe);
    }
}

/* With the mutex, released meanwhile: until something has completed, perhaps somebody else's. */
static void blocking_ring_wait(struct blocking_ring *cr) {
    if (cr->watched) {
        cr->sleepers++;
        pthread_cond_wait(&cr->changed, &cr->lock);
        cr->sleepers--;
        return;
    }
    cr->watched = true;
    bool away = cr->ring->state != RDMAD_RING_LIVE; /* nothing is in flight but what is postponed */
    pthread_mutex_unlock(&cr->lock);
    if (away) {
        rdmad_ring_await_open(cr->ring, UINT64_MAX);
        rdmad_ring_await_revival(cr->ring, UINT64_MAX);
    } else {
        rdmad_ring_await(cr->ring, UINT64_MAX);
    }
    pthread_mutex_lock(&cr->lock);
    cr->watched = false;
    blocking_ring_reap(cr);
    if (cr->sleepers)
        pthread_cond_broadcast(&cr->changed);
}

static int want_prep(struct rdmad_ring *r, struct rdmad_sqe *sqe, const struct rdmad_want *want,
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
    default:
        return rdmad_prep_message(r, sqe, want->opcode, want->channel, want->buffer, want->length,
                                  user_data);
    }
}

/* With the mutex. RDMAD_E_AGAIN: no entry is free. */
static int blocking_ring_submit(struct rdmad_ring *r, const struct rdmad_want *want,
                                struct call_waiter *w) {
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
        rc = want_prep(r, sqe, want, (uintptr_t)w);
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
static int blocking_ring_run(struct rdmad_session *s, struct blocking_ring *cr,
                             const struct rdmad_want *want, struct call_waiter *w) {
    int rc = 0;

    if (!cr->ring)
        rc = rdmad_ring_open(s, s->blocking_entries, false, &cr->ring);
    if (rc)
        return rc;
    while ((rc = blocking_ring_submit(cr->ring, want, w)) == RDMAD_E_AGAIN)
        blocking_ring_wait(cr);
    while (!rc && !w->done)
        blocking_ring_wait(cr);
    return rc;
}

static bool op_waits(uint8_t opcode) {
    return opcode == RDMAD_OP_RECV || opcode == RDMAD_OP_SEND || opcode == RDMAD_OP_NOTIFIED;
}

/* The daemon knows no channel of that number. Close and abort mark it before they ask for the end.
 */
static bool recv_met_close(struct rdmad_session *s, uint64_t number) {
    pthread_mutex_lock(&s->lock);
    const struct rdmad_channel *c = rdmad_channel_find(s, number);
    bool closed = !c || !rdmad_object_is(&c->object, RDMAD_KIND_CHANNEL);
    pthread_mutex_unlock(&s->lock);
    return closed;
}

/* A receive that waited for a ring while the channel was closed ends as those that the close found
 * waiting. */
static void recv_explain(struct rdmad_session *s, const struct rdmad_want *want,
                         struct call_waiter *w) {
    if (want->opcode != RDMAD_OP_RECV || w->cqe.status != RDMAD_E_HANDLE ||
        !recv_met_close(s, want->channel))
        return;
    w->cqe.status = RDMAD_E_CLOSED;
    snprintf(w->text, sizeof(w->text),
             "receive on channel %llu failed: the channel was closed here meanwhile",
             (unsigned long long)want->channel);
}

int rdmad_blocking_do(struct rdmad_session *s, const struct rdmad_want *want,
                      struct rdmad_cqe *cqe) {
    struct call_waiter w = {.done = false};
    struct blocking_ring *cr;
    int rc;

    last_outcome = RDMAD_FAILED_UNTOUCHED;
    if (rdmad_is_inherited(s))
        return rdmad_fail_lost(s);
    rc = blocking_ring_find(s, op_waits(want->opcode), &cr);
    if (rc)
        return rc;
    pthread_mutex_lock(&cr->lock);
    rc = blocking_ring_run(s, cr, want, &w);
    pthread_mutex_unlock(&cr->lock);
    blocking_ring_leave(s, cr);
    if (rc)
        return rc;
    recv_explain(s, want, &w);
    last_outcome = w.cqe.outcome;
    if (cqe)
        *cqe = w.cqe;
    /* A timeout that was asked for is an answer. */
    if (w.cqe.status == RDMAD_E_TIMEOUT && want->timeout_ns)
        return RDMAD_E_TIMEOUT;
    return w.cqe.status ? rdmad_fail(s, w.cqe.status, "%s", w.text) : 0;
}

int rdmad_blocking_segments(struct rdmad_session *s, unsigned *most) {
    struct blocking_ring *cr = &s->blocking->transfers;
    int rc = 0;
    pthread_mutex_lock(&cr->lock);
    if (!cr->ring)
        rc = rdmad_ring_open(s, s->blocking_entries, false, &cr->ring);
    /* Half the ring: a large batch must not wait until nobody else is there. */
    *most = rc ? 0 : cr->ring->entries / 2;
    pthread_mutex_unlock(&cr->lock);
    if (*most > RDMAD_BATCH_MAX)
        *most = RDMAD_BATCH_MAX;
    return rc;
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
