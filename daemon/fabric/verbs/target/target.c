/* SPDX-License-Identifier: MIT */
/*
 * target.c - the ends of connections on which peers initiate.
 *
 * A peer's hello names its QPs; offer makes as many, connects them towards these, and answers with
 * their numbers. From then on the device serves the peer, and nothing is seen of it here.
 *
 * Nobody tells when the other end of such a QP is gone, so that is found out in every way there is:
 * the peer says so (forget, expel); the device reports that a QP broke, or at the next offer to the
 * peer its state says so; the peer comes again with a QP number that an earlier target is connected
 * to; and when it has as many as it may have, the oldest goes, unless it is young. A peer that goes
 * without a word loses its control connection, and is expelled.
 *
 * A target that ends breaks its QPs first: that moment the peer reaches nothing any more. They are
 * destroyed when no window is bound to them, for some drivers wait in that for a minute otherwise,
 * and when the messages that came before are handed on, unless the peer was expelled.
 *
 * Atomic operations are granted to every connection where the device has them; which memory they
 * may change is the windows' business.
 */
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/connect/cm.h"
#include "daemon/fabric/verbs/target/weak.h"
#include "daemon/fabric/verbs/window/window.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EVICT_AFTER_NS (10 * NSEC_PER_SEC)
#define BINDS_AT_ONCE 16u              /* on one QP */
#define LOOK_AT 8u                     /* targets of a peer, for broken ones, at each offer */
#define DRAIN_NS (100 * NSEC_PER_MSEC) /* for flushed receives to come back */

void targets_init(struct verbs *v) {
    list_init(&v->targets.leaving);
}

void targets_fini(struct verbs *v) {
    cm_close(v);
    list_for_each_safe (pos, &v->peers)
        vpeer_check_free(list_entry(pos, struct vpeer, node));
}

/* ---- peers --------------------------------------------------------------------------------- */

static struct vpeer *vpeer_find(struct verbs *v, uint64_t id) {
    list_for_each (pos, &v->peers) {
        struct vpeer *p = list_entry(pos, struct vpeer, node);
        if (p->id == id)
            return p;
    }
    return NULL;
}

static int vpeer_pd(struct vpeer *p, struct error *err) {
    const struct device *d = p->verbs->device;
    if (p->pd || d->windows)
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
    list_remove(&p->node);
    free(p);
}

/* ---- targets ------------------------------------------------------------------------------- */

struct target *target_by_number(const struct vpeer *p, uint64_t number) {
    list_for_each (pos, &p->targets) {
        struct target *t = list_entry(pos, struct target, node);
        if (t->number == number)
            return t;
    }
    return NULL;
}

unsigned target_access(const struct device *d) {
    return IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
           (device_has_atomics(d) ? (unsigned)IBV_ACCESS_REMOTE_ATOMIC : 0);
}

static void target_free(struct grave *g) {
    struct target *t = container_of(g, struct target, grave);
    inbox_free(t);
    doors_free(t);
    free(t);
}

void target_check_gone(struct target *t) {
    struct vpeer *p = t->peer;
    if (!t->leaving || t->draining || !list_empty(&t->windows))
        return;
    for (unsigned i = 0; i < t->lanes; i++)
        qp_destroy(&t->queue[i]);
    doors_close(t);
    inbox_close(t);
    list_remove(&t->node);
    verbs_bury(p->verbs, &t->grave, target_free);
    p->holds--;
    vpeer_check_free(p);
}

static void leave(struct target *t) {
    t->leaving = true;
    t->peer->holds++;
    list_remove(&t->node);
    list_append(&t->peer->verbs->targets.leaving, &t->node);
    cm_target_gone(t);
    if (!t->draining && list_empty(&t->windows))
        return;
    for (unsigned i = 0; i < t->lanes; i++)
        qp_break(&t->queue[i]);
    windows_of_target_gone(t);
}

void target_close(struct target *t) {
    struct verbs *v = t->peer->verbs;
    if (t->leaving)
        return;
    t->draining = t->inbox.posted > 0;
    if (t->draining) {
        t->drained_ns = clock_after(v->now_ns, DRAIN_NS);
        verbs_timer_at(v, t->drained_ns);
    }
    leave(t);
    target_check_gone(t);
}

void target_drop(struct target *t) {
    if (t->leaving && !t->draining)
        return;
    t->draining = false;
    if (!t->leaving)
        leave(t);
    target_check_gone(t);
}

static void targets_drained(struct verbs *v) {
    list_for_each_safe (pos, &v->targets.leaving) {
        struct target *t = list_entry(pos, struct target, node);
        if (!t->draining)
            continue;
        if (v->now_ns >= t->drained_ns)
            target_drop(t);
        else
            verbs_timer_at(v, t->drained_ns);
    }
}

static int make_queues(struct target *t, unsigned lanes, bool bare, struct error *err) {
    struct verbs *v = t->peer->verbs;
    const struct device *d = v->device;
    struct qp_spec spec = {
        .pd = d->windows ? d->pd : t->peer->pd,
        .depth = d->windows ? BINDS_AT_ONCE : 1,
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

struct target *target_new(struct vpeer *p, unsigned lanes, bool bare, struct error *err) {
    struct target *t = calloc(1, sizeof(*t));
    if (!t) {
        error_set(err, RDMAD_E_NOMEM, "no memory for one more connection of a peer");
        return NULL;
    }
    t->peer = p;
    t->made_ns = p->verbs->now_ns;
    list_init(&t->windows);
    list_init(&t->unbound);
    list_append(&p->targets, &t->node);
    if (make_queues(t, lanes, bare, err)) {
        target_drop(t);
        return NULL;
    }
    binding_target(t);
    return t;
}

/* ---- who makes room ------------------------------------------------------------------------ */

static bool is_broken(const struct target *t) {
    for (unsigned i = 0; i < t->lanes; i++) {
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        if (t->queue[i].broken || ibv_query_qp(t->queue[i].qp, &attr, IBV_QP_STATE, &init) ||
            attr.qp_state == IBV_QPS_ERR)
            return true;
    }
    return false;
}

/* The same port with one of the same QPs, which therefore is another one by now. */
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
static void close_dead(struct vpeer *p, const struct endpoint *newcomer) {
    unsigned looked = 0;
    list_for_each_safe (pos, &p->targets) {
        struct target *t = list_entry(pos, struct target, node);
        if ((newcomer && is_same(&t->other, newcomer)) || (looked++ < LOOK_AT && is_broken(t)))
            target_close(t);
    }
}

static unsigned count_targets(const struct vpeer *p) {
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
    close_dead(p, newcomer);
    unsigned used = count_targets(p) + cm_offers(p);
    if (used < limit)
        return 0;
    struct list *first = list_first(&p->targets);
    struct target *oldest = first ? list_entry(first, struct target, node) : NULL;
    if (oldest && v->now_ns >= clock_after(oldest->made_ns, EVICT_AFTER_NS)) {
        LOG_LIMITED(NOTICE,
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

/* ---- offers -------------------------------------------------------------------------------- */

static int refuse_hello(struct error *err, const char *what) {
    return error_set(err, RDMAD_E_PROTOCOL,
                     "the hello of a link %s; both daemons need the same version", what);
}

static int check_end(const struct verbs *v, const struct endpoint *e, struct error *err) {
    static const uint8_t none[sizeof(e->gid)];
    bool ethernet = e->link_layer == IBV_LINK_LAYER_ETHERNET;
    if (v->device->iwarp)
        return error_set(err, RDMAD_E_FABRIC,
                         "device %s here is iWARP, which is connected by rdma_cm alone: set "
                         "verbs.connect to \"cm\" in your daemon's configuration",
                         v->device->name);
    if (ethernet ? memcmp(e->gid, none, sizeof(none)) == 0 : e->lid == 0)
        return refuse_hello(err, "names no address");
    return 0;
}

static int target_connect(struct target *t, const struct endpoint *other, struct error *err) {
    for (unsigned i = 0; i < t->lanes; i++) {
        int rc = qp_connect(&t->queue[i], other, i, err);
        if (rc)
            return rc;
    }
    t->other = *other;
    t->number = ++t->peer->verbs->next_number;
    return 0;
}

static int offer_target(struct vpeer *p, const struct endpoint *other, struct fabric_blob *out,
                        struct error *err) {
    struct verbs *v = p->verbs;
    uint32_t lanes = v->device->settings.lanes < other->lanes ? v->device->settings.lanes
                                                              : (uint32_t)other->lanes;
    int rc = target_make_room(p, other, err);
    if (rc)
        return rc;
    struct target *t = target_new(p, lanes, false, err);
    if (!t)
        return err->code;
    if ((rc = target_connect(t, other, err))) {
        target_drop(t);
        return rc;
    }
    const struct queue *queues[VERBS_LANES_MAX];
    for (unsigned i = 0; i < t->lanes; i++)
        queues[i] = &t->queue[i];
    struct verbs_offer offer = {.number = t->number};
    qp_endpoint(v, queues, t->lanes, &offer.end);
    inbox_tell(t, &offer.inbox);
    blob_write_offer(&offer, out);
    return 0;
}

int verbs_offer(struct fabric *f, uint64_t peer, const struct fabric_blob *hello,
                struct fabric_blob *out, struct error *err) {
    struct verbs *v = verbs_of(f);
    struct verbs_hello h;
    struct error ignored;
    if (!err)
        err = &ignored;
    v->now_ns = v->env->now_ns(v->env->user);
    if (!blob_read_hello(hello, &h))
        return refuse_hello(err, "is not one of this version");
    int rc = verbs_ready(v, err);
    if (rc == 0 && !h.cm)
        rc = check_end(v, &h.end, err);
    if (rc)
        return rc;
    struct vpeer *p = vpeer_of(v, peer, err);
    if (!p)
        return err->code;
    p->holds++;
    rc = h.cm ? cm_offer(p, out, err) : offer_target(p, &h.end, out, err);
    p->holds--;
    vpeer_check_free(p);
    return rc;
}

/* ---- ends ---------------------------------------------------------------------------------- */

static void close_all(struct vpeer *p) {
    p->holds++;
    cm_offers_drop(p);
    for (struct list *pos; (pos = list_first(&p->targets));)
        target_drop(list_entry(pos, struct target, node));
    list_for_each_safe (pos, &p->verbs->targets.leaving) {
        struct target *t = list_entry(pos, struct target, node);
        if (t->peer == p && t->draining)
            target_drop(t);
    }
    p->holds--;
    vpeer_check_free(p);
}

void verbs_expel(struct fabric *f, uint64_t peer) {
    struct vpeer *p = vpeer_find(verbs_of(f), peer);
    if (p)
        close_all(p);
}

void verbs_forget(struct fabric *f, uint64_t peer, uint64_t number) {
    struct vpeer *p = vpeer_find(verbs_of(f), peer);
    struct target *t = p && number ? target_by_number(p, number) : NULL;
    if (t)
        target_close(t);
}

unsigned verbs_accepted(const struct fabric *f) {
    const struct verbs *v = container_of(f, const struct verbs, base);
    unsigned n = 0;
    list_for_each (pos, &v->peers)
        n += count_targets(list_entry(pos, struct vpeer, node));
    return n;
}

void targets_close(struct verbs *v) {
    list_for_each_safe (pos, &v->peers)
        close_all(list_entry(pos, struct vpeer, node));
    cm_close(v);
}

static struct target *by_qp(struct list *targets, uint32_t qp_num) {
    list_for_each (pos, targets) {
        struct target *t = list_entry(pos, struct target, node);
        for (unsigned i = 0; i < t->lanes; i++)
            if (t->queue[i].qp && t->queue[i].qp->qp_num == qp_num)
                return t;
    }
    return NULL;
}

bool targets_qp_event(struct verbs *v, uint32_t qp_num, enum ibv_event_type event) {
    struct target *t = by_qp(&v->targets.leaving, qp_num);
    list_for_each (pos, &v->peers) {
        if (!t)
            t = by_qp(&list_entry(pos, struct vpeer, node)->targets, qp_num);
    }
    if (!t)
        return false;
    bool bad = event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_QP_REQ_ERR ||
               event == IBV_EVENT_QP_ACCESS_ERR;
    if (!bad || t->leaving || !is_broken(t)) /* a late one may be of an earlier QP */
        return true;
    LOG_LIMITED(INFO,
                ("link %" PRIu64 " of a peer broke: %s", t->number, ibv_event_type_str(event)),
                FIELD_U64("PEER", t->peer->id));
    target_close(t);
    return true;
}

void targets_timers(struct verbs *v) {
    targets_drained(v);
    cm_timers(v);
}
