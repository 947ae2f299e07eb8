/* SPDX-License-Identifier: MIT */
/*
 * doorbells.c - what clients' doorbells wake, and which of them are not listened to.
 *
 * The happy path: a client publishes, sees the wait word, and writes to the ring's eventfd; the
 * worker's epoll tells, and the ring is hot. That costs the worker a wake-up, in which it takes
 * what the client asked for.
 *
 * A doorbell rings in vain when there is nothing to take, and nothing was taken since it last rang.
 * An honest client's may, because the worker may have looked at the ring by itself in the meantime.
 * But an honest client rings at most once for each sqe, so DOORBELLS_IN_VAIN in a row are not
 * honest. Then the worker is deaf to the ring: epoll has it with no events, so its client's writes
 * wake nobody, and the ring is looked at each DEAF_LOOK_NS instead, at most DEAF_LOOKS of them at a
 * time. After a while it is listened to again; if that proves to be too early, the next while is
 * twice as long, up to DEAF_MAX_NS. Each that is heard, in vain or not, costs the ring's user some
 * of its time (user.h).
 */
#include "daemon/op/engine/doorbells.h"
#include "daemon/op/engine/rings.h"
#include "daemon/op/engine/user.h"
#include "daemon/op/engine/watch.h"

#define DOORBELLS_IN_VAIN 64u
#define DEAF_LOOK_NS NSEC_PER_MSEC
#define DEAF_LOOKS 64u
#define DEAF_MIN_NS (100 * NSEC_PER_MSEC)
#define DEAF_MAX_NS (3 * NSEC_PER_SEC)

static void turn_deaf(struct worker *w, struct op_ring *r) {
    struct op_doorbell *k = &r->doorbell;
    bool again = k->deaf_for_ns && w->now_ns - k->deaf_until_ns < k->deaf_for_ns;
    k->deaf_for_ns = again ? 2 * k->deaf_for_ns : DEAF_MIN_NS;
    if (k->deaf_for_ns > DEAF_MAX_NS)
        k->deaf_for_ns = DEAF_MAX_NS;
    k->deaf_until_ns = w->now_ns + k->deaf_for_ns;
    k->in_vain = 0;
    watch_ring_listen(w, r, false);
    if (list_empty(&w->deaf))
        w->deaf_look_ns = w->now_ns + DEAF_LOOK_NS;
    list_append(&w->deaf, &k->node);
}

bool doorbells_heard(struct worker *w, struct op_ring *r) {
    struct op_doorbell *k = &r->doorbell;
    bool work = r->parked && !r->session->shut && rings_has_work(r);
    user_spend_beside(r->session->user, USER_DOORBELL_COST);
    if (work || r->ring->sq_head != k->taken_before) {
        k->in_vain = 0;
        k->taken_before = r->ring->sq_head;
    } else if (list_empty(&k->node) && ++k->in_vain >= DOORBELLS_IN_VAIN) {
        turn_deaf(w, r);
    }
    if (work)
        rings_wake(w, r);
    return work;
}

static void deaf_look_at(struct worker *w, struct op_ring *r) {
    struct op_doorbell *k = &r->doorbell;
    if (r->parked && rings_has_work(r))
        rings_wake(w, r);
    if (w->now_ns >= k->deaf_until_ns)
        watch_ring_listen(w, r, true);
    else
        list_append(&w->deaf, &k->node);
}

void doorbells_run(struct worker *w) {
    if (list_empty(&w->deaf) || w->now_ns < w->deaf_look_ns)
        return;
    w->deaf_look_ns = w->now_ns + DEAF_LOOK_NS;
    struct list *last = w->deaf.prev;
    for (unsigned i = 0; i < DEAF_LOOKS && !list_empty(&w->deaf); i++) {
        struct list *first = list_pop(&w->deaf);
        deaf_look_at(w, list_entry(first, struct op_ring, doorbell.node));
        if (first == last)
            break;
    }
}

uint64_t doorbells_next_ns(const struct worker *w) {
    return list_empty(&w->deaf) ? CLOCK_NEVER : w->deaf_look_ns;
}
