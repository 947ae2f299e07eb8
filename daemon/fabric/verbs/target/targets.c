/* SPDX-License-Identifier: MIT */
/*
 * targets.c - the ends of connections on which peers initiate, from their making to their end.
 *
 * A way of connecting (instance/way.h) has a target made for it and connects it. From then on the
 * device serves the peer, and nothing is seen of it here.
 *
 * Nobody tells when the other end of such a QP is gone, so that is found out in every way there is:
 * the peer says so (forget, expel); the device reports that a QP broke, or at the next offer to the
 * peer its state says so; the peer comes again with a QP number that an earlier target is connected
 * to; and when it has as many as it may have, the oldest goes, unless it is young. A peer that goes
 * without a word loses its control connection, and is expelled.
 *
 * A target that ends breaks its QPs first. They are destroyed when no window is bound to them, for
 * some drivers wait in that for a minute otherwise, and when the messages that came before are
 * handed on, unless the peer was expelled.
 */
#include "daemon/fabric/verbs/target/targets.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/instance/protection.h"
#include "daemon/fabric/verbs/instance/way.h"
#include "daemon/fabric/verbs/target/inbox.h"
#include "daemon/fabric/verbs/target/weak_receiver.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EVICT_AFTER_NS (10 * NSEC_PER_SEC)
#define BINDS_AT_ONCE 16u              /* on one QP */
#define LOOK_AT 8u                     /* targets of a peer, for broken ones, at each offer */
#define DRAIN_NS (100 * NSEC_PER_MSEC) /* for flushed receives to come back */

/* ---- the end of one ------------------------------------------------------------------------ */

static void target_free(struct free_later *f) {
    struct verbs_target *t = container_of(f, struct verbs_target, end);
    inbox_free(t);
    weak_receivers_free(t);
    free(t);
}

/* The last of its windows is off: the QPs go. */
static void target_release(struct verbs_target *t) {
    struct vpeer *p = t->peer;
    assert(t->state == TARGET_LEAVING && list_empty(&t->windows));
    for (unsigned i = 0; i < t->lanes; i++)
        qp_destroy(&t->queue[i]);
    weak_receivers_close(t);
    inbox_close(t);
    list_remove(&t->noted);
    list_remove(&t->node);
    verbs_free_later(p->verbs, &t->end, target_free);
    p->holds--;
    vpeer_check_free(p);
}

/* The peer has closed its end. QPs that are not destroyed at once are broken. */
static void target_leave(struct verbs_target *t, enum target_state how) {
    assert(t->state <= TARGET_BROKEN);
    struct verbs *v = t->peer->verbs;
    t->state = how;
    assert(v->targets.accepted > 0);
    v->targets.accepted--;
    t->peer->holds++;
    list_remove(&t->node);
    list_append(&v->targets.leaving, &t->node);
    if (t->way->target_left)
        t->way->target_left(t);
    if (how == TARGET_LEAVING && list_empty(&t->windows)) {
        target_release(t);
        return;
    }
    for (unsigned i = 0; i < t->lanes; i++)
        qp_break(&t->queue[i]);
    if (v->protection->target_left)
        v->protection->target_left(t);
}

void target_close(struct verbs_target *t) {
    struct verbs *v = t->peer->verbs;
    if (t->state > TARGET_BROKEN)
        return;
    if (t->inbox.posted == 0) {
        target_leave(t, TARGET_LEAVING);
        return;
    }
    /* The last poll may have been long ago. */
    t->drained_ns = clock_after(v->env->now_ns(v->env->user), DRAIN_NS);
    verbs_timer_at(v, t->drained_ns);
    target_leave(t, TARGET_DRAINING);
}

static void target_drained(struct verbs_target *t) {
    assert(t->state == TARGET_DRAINING);
    t->state = TARGET_LEAVING;
    if (list_empty(&t->windows))
        target_release(t);
}

void target_drop(struct verbs_target *t) {
    if (t->state == TARGET_DRAINING)
        target_drained(t);
    else if (t->state != TARGET_LEAVING)
        target_leave(t, TARGET_LEAVING);
}

/* ---- what was noted ------------------------------------------------------------------------ */

static void vpeer_drop_targets(struct vpeer *p) {
    p->holds++;
    if (p->offers > 0)
        p->offers_way->drop_offers(p);
    for (struct list *pos; (pos = list_first(&p->targets));)
        target_drop(list_entry(pos, struct verbs_target, node));
    list_for_each_safe (pos, &p->verbs->targets.leaving) {
        struct verbs_target *t = list_entry(pos, struct verbs_target, node);
        if (t->peer == p && t->state == TARGET_DRAINING)
            target_drained(t);
    }
    p->holds--;
    vpeer_check_free(p);
}

static void target_look(struct verbs_target *t) {
    if (t->state == TARGET_BROKEN)
        target_close(t);
    else if (t->state == TARGET_DRAINING && t->inbox.posted == 0)
        target_drained(t);
    else if (t->state == TARGET_LEAVING && list_empty(&t->windows))
        target_release(t);
}

void targets_look(struct verbs *v) {
    struct list *node;
    while ((node = list_pop(&v->targets.cut)))
        vpeer_drop_targets(list_entry(node, struct vpeer, cut));
    while ((node = list_pop(&v->targets.noted)))
        target_look(list_entry(node, struct verbs_target, noted));
}

bool targets_noted(const struct verbs *v) {
    return !list_empty(&v->targets.cut) || !list_empty(&v->targets.noted);
}

/* ---- the making of one --------------------------------------------------------------------- */

static int target_make_queues(struct verbs_target *t, unsigned lanes, bool bare,
                              struct error *err) {
    struct verbs *v = t->peer->verbs;
    const struct device *d = v->device;
    struct qp_spec spec = {
        .pd = d->memory_windows ? d->pd : t->peer->pd,
        .depth = d->memory_windows ? BINDS_AT_ONCE : 1,
        .receives = INBOX_RECEIVES,
        .access = target_access(d),
        .bare = bare,
    };
    int rc = inbox_open(t, spec.pd, err);
    for (; t->lanes < lanes && rc == 0; t->lanes++, spec.receives = 0) {
        t->queue[t->lanes].received = inbox_received;
        rc = qp_make(v, &t->queue[t->lanes], &spec, err);
    }
    if (rc == 0 && !bare)
        rc = inbox_start(t, err);
    return rc;
}

struct verbs_target *target_new(struct vpeer *p, const struct connect_way *way, unsigned lanes,
                                bool bare, struct error *err) {
    struct verbs *v = p->verbs;
    assert(lanes > 0 && lanes <= VERBS_LANES_MAX);
    struct verbs_target *t = calloc(1, sizeof(*t));
    if (!t) {
        error_set(err, RDMAD_E_NOMEM, "no memory for one more connection of a peer");
        return NULL;
    }
    t->peer = p;
    t->way = way;
    t->made_ns = v->now_ns;
    list_init(&t->noted);
    list_init(&t->windows);
    list_init(&t->unbound);
    list_append(&p->targets, &t->node);
    v->targets.accepted++;
    if (target_make_queues(t, lanes, bare, err)) {
        target_drop(t);
        return NULL;
    }
    if (v->protection->target_made)
        v->protection->target_made(t);
    return t;
}

/* ---- who makes room ------------------------------------------------------------------------ */

static bool target_is_broken(const struct verbs_target *t) {
    for (unsigned i = 0; i < t->lanes; i++)
        if (qp_in_error(&t->queue[i]))
            return true;
    return false;
}

/* Whether both have the same port and one of the same QP numbers: then that QP is a new one by now.
 */
static bool is_same(const struct endpoint *a, const struct endpoint *b) {
    if (a->lid != b->lid || memcmp(a->gid, b->gid, sizeof(a->gid)) != 0)
        return false;
    for (unsigned i = 0; i < a->lanes; i++)
        for (unsigned k = 0; k < b->lanes; k++)
            if (a->qp_num[i] == b->qp_num[k])
                return true;
    return false;
}

/* Targets whose other end is known to be gone. A few at a time: asking the device takes a while. */
static void vpeer_close_dead(struct vpeer *p, const struct endpoint *newcomer) {
    unsigned looked = 0;
    list_for_each_safe (pos, &p->targets) {
        struct verbs_target *t = list_entry(pos, struct verbs_target, node);
        if ((newcomer && is_same(&t->other, newcomer)) ||
            (looked++ < LOOK_AT && target_is_broken(t)))
            target_close(t);
    }
}

static unsigned vpeer_count_targets(const struct vpeer *p) {
    unsigned n = 0;
    list_for_each (pos, &p->targets)
        n++;
    return n;
}

int target_make_room(struct vpeer *p, const struct endpoint *newcomer, struct error *err) {
    struct verbs *v = p->verbs;
    unsigned limit = v->settings->links_per_peer;
    if (p->stuck)
        return error_set(err, RDMAD_E_FABRIC,
                         "device %s does not take back %u rights that your daemon had; until it "
                         "does, or is replaced, there are no links for it",
                         v->device->name, p->stuck);
    vpeer_close_dead(p, newcomer);
    unsigned used = vpeer_count_targets(p) + p->offers;
    if (used < limit)
        return 0;
    struct list *first = list_first(&p->targets);
    struct verbs_target *oldest = first ? list_entry(first, struct verbs_target, node) : NULL;
    if (oldest && v->now_ns >= clock_after(oldest->made_ns, EVICT_AFTER_NS)) {
        LOG_LIMITED_OF(log_of_connection(p->id), NOTICE,
                       ("a peer has %u links of at most %u (verbs.links_per_peer): its oldest goes "
                        "for a new one",
                        used, limit),
                       FIELD_U64("PEER", p->id));
        target_close(oldest);
        return 0;
    }
    return error_set(
        err, RDMAD_E_LIMIT,
        "your daemon has %u links of at most %u here, made within %u s: close some, or "
        "raise verbs.links_per_peer here",
        used, limit, (unsigned)(EVICT_AFTER_NS / NSEC_PER_SEC));
}

/* ---- all of them --------------------------------------------------------------------------- */

void verbs_expel(struct fabric *f, uint64_t peer) {
    struct vpeer *p = vpeer_find(verbs_of(f), peer);
    if (p)
        vpeer_drop_targets(p);
}

void verbs_forget(struct fabric *f, uint64_t peer, uint64_t number) {
    struct vpeer *p = vpeer_find(verbs_of(f), peer);
    struct verbs_target *t = p && number ? target_by_number(p, number) : NULL;
    if (t)
        target_close(t);
}

unsigned verbs_accepted(const struct fabric *f) {
    const struct verbs *v = container_of(f, const struct verbs, base);
    return v->targets.accepted;
}

void targets_init(struct verbs *v) {
    list_init(&v->peers);
    list_init(&v->targets.leaving);
    list_init(&v->targets.noted);
    list_init(&v->targets.cut);
    list_init(&v->targets.opening);
}

void targets_break(struct verbs *v) {
    list_for_each (pos, &v->peers) {
        list_for_each (at, &list_entry(pos, struct vpeer, node)->targets)
            target_broke(list_entry(at, struct verbs_target, node));
    }
}

void targets_close(struct verbs *v) {
    list_for_each_safe (pos, &v->peers)
        vpeer_drop_targets(list_entry(pos, struct vpeer, node));
}

void targets_fini(struct verbs *v) {
    targets_look(v);
    list_for_each_safe (pos, &v->peers)
        vpeer_check_free(list_entry(pos, struct vpeer, node));
}

static struct verbs_target *target_by_qp(struct list *targets, uint32_t qp_num) {
    list_for_each (pos, targets) {
        struct verbs_target *t = list_entry(pos, struct verbs_target, node);
        for (unsigned i = 0; i < t->lanes; i++)
            if (t->queue[i].qp && t->queue[i].qp->qp_num == qp_num)
                return t;
    }
    return NULL;
}

bool targets_qp_event(struct verbs *v, uint32_t qp_num, enum ibv_event_type event) {
    struct verbs_target *t = target_by_qp(&v->targets.leaving, qp_num);
    list_for_each (pos, &v->peers) {
        if (!t)
            t = target_by_qp(&list_entry(pos, struct vpeer, node)->targets, qp_num);
    }
    if (!t)
        return false;
    if (!qp_event_is_bad(event) || t->state != TARGET_LIVE ||
        !target_is_broken(t)) /* a late one may be of an earlier QP */
        return true;
    LOG_LIMITED_OF(log_of_connection(t->peer->id), INFO,
                   ("link %" PRIu64 " of a peer broke: %s", t->number, ibv_event_type_str(event)),
                   FIELD_U64("PEER", t->peer->id));
    target_close(t);
    return true;
}

void targets_timers(struct verbs *v) {
    weak_receivers_timers(v);
    list_for_each_safe (pos, &v->targets.leaving) {
        struct verbs_target *t = list_entry(pos, struct verbs_target, node);
        if (t->state != TARGET_DRAINING)
            continue;
        if (v->now_ns >= t->drained_ns)
            target_drained(t);
        else
            verbs_timer_at(v, t->drained_ns);
    }
}
