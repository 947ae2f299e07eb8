/* SPDX-License-Identifier: MIT */
/*
 * target.c - peers, and what may happen to a target of theirs.
 *
 * A target that breaks has its QPs in ERR at once: that moment the peer reaches nothing any more.
 * What follows is targets.c's.
 *
 * Atomic operations are granted to every connection where the device has them; which memory they
 * may change is the windows' business.
 */
#include "daemon/fabric/verbs/target/target.h"
#include "daemon/base/log.h"
#include <assert.h>
#include <stdlib.h>

/* ---- peers --------------------------------------------------------------------------------- */

struct vpeer *vpeer_find(struct verbs *v, uint64_t id) {
    list_for_each (pos, &v->peers) {
        struct vpeer *p = list_entry(pos, struct vpeer, node);
        if (p->id == id)
            return p;
    }
    return NULL;
}

static int vpeer_pd(struct vpeer *p, struct error *err) {
    const struct device *d = p->verbs->device;
    if (p->pd || d->memory_windows)
        return 0;
    p->pd = ibv_alloc_pd(d->context);
    if (p->pd)
        return 0;
    return error_errno(err, RDMAD_E_FABRIC,
                       "device %s has no protection domain for one more peer (max_pd is %d)",
                       d->name, d->attr.orig_attr.max_pd);
}

struct vpeer *vpeer_of(struct verbs *v, uint64_t id, struct error *err) {
    struct vpeer *p = vpeer_find(v, id);
    if (!p) {
        if (!(p = calloc(1, sizeof(*p)))) {
            error_set(err, RDMAD_E_NOMEM, "no memory for one more peer");
            return NULL;
        }
        p->verbs = v;
        p->id = id;
        list_init(&p->cut);
        list_init(&p->targets);
        list_init(&p->windows);
        list_append(&v->peers, &p->node);
    }
    if (vpeer_pd(p, err) == 0)
        return p;
    vpeer_check_free(p);
    return NULL;
}

void vpeer_check_free(struct vpeer *p) {
    if (!list_empty(&p->targets) || p->holds > 0)
        return;
    bool last = list_empty(&p->windows);
    if (p->pd && (last || p->verbs->going)) {
        if (ibv_dealloc_pd(p->pd))
            LOG_LIMITED(ERR, ("device %s keeps a protection domain", p->verbs->device->name),
                        FIELD_U64("PEER", p->id));
        p->pd = NULL;
    }
    if (!last)
        return;
    list_remove(&p->cut);
    list_remove(&p->node);
    free(p);
}

/* ---- targets ------------------------------------------------------------------------------- */

/* Numbers are unique in the process, not only on a worker: a peer that says that it has closed a
 * link names it by number alone, and no other worker may take it for its own. */
uint64_t target_number_new(void) {
    static uint64_t last;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

struct verbs_target *target_by_number(const struct vpeer *p, uint64_t number) {
    list_for_each (pos, &p->targets) {
        struct verbs_target *t = list_entry(pos, struct verbs_target, node);
        if (t->number == number)
            return t;
    }
    return NULL;
}

unsigned target_access(const struct device *d) {
    return IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
           (device_has_atomics(d) ? (unsigned)IBV_ACCESS_REMOTE_ATOMIC : 0);
}

static void break_queues(struct verbs_target *t) {
    for (unsigned i = 0; i < t->lanes; i++)
        qp_break(&t->queue[i]);
}

void target_note(struct verbs_target *t) {
    if (list_empty(&t->noted))
        list_append(&t->peer->verbs->targets.noted, &t->noted);
}

void target_broke(struct verbs_target *t) {
    if (t->state != TARGET_LIVE)
        return;
    t->state = TARGET_BROKEN;
    break_queues(t);
    target_note(t);
}

void vpeer_cut(struct vpeer *p) {
    list_for_each (pos, &p->targets)
        break_queues(list_entry(pos, struct verbs_target, node));
    if (list_empty(&p->cut))
        list_append(&p->verbs->targets.cut, &p->cut);
}
