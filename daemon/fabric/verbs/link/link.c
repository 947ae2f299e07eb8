/* SPDX-License-Identifier: MIT */
/*
 * link.c - a link from its hello to its end.
 *
 * link_new makes a QP a lane and tells their numbers; link_open connects them by the numbers of the
 * target's, which may have fewer. The QPs are up at once, but link_up comes with the next poll,
 * like every other news. By rdma_cm link_new makes nothing and link_open only starts (cm.c).
 *
 * A link that is lost keeps nothing of the device; its memory stays until link_close.
 */
#include "daemon/fabric/verbs/link/link.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include <stdio.h>
#include <stdlib.h>

#define MESSAGE_MAX (1u << 31) /* of one work request: the length is 32 bits, half of them sure */

static struct link *link_of(struct fabric_link *fl) {
    return container_of(fl, struct link, base);
}

/* ---- birth ------------------------------------------------------------------------------- */

int link_make_queues(struct link *l, unsigned lanes, bool bare, struct error *err) {
    const struct verbs_settings *s = &l->verbs->device->settings;
    struct qp_spec spec = {.pd = l->verbs->device->pd,
                           .depth = s->queue_depth + 1, /* for reading the peer's page */
                           .inline_bytes = s->inline_bytes,
                           .bare = bare};
    for (l->lanes = 0; l->lanes < lanes; l->lanes++) {
        struct lane *lane = &l->lane[l->lanes];
        lane->queue.ended = lane_ended;
        int rc = qp_make(l->verbs, &lane->queue, &spec, err);
        if (rc)
            return rc; /* the caller tears down what there is */
        spec.depth = s->queue_depth;
    }
    return outbox_open(l, err);
}

static struct link *link_alloc(struct verbs *v, void *cookie) {
    struct link *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->base.fabric = &v->base;
    l->verbs = v;
    l->cookie = cookie;
    l->state = LINK_NEW;
    list_init(&l->node);
    list_init(&l->news);
    list_init(&l->grave.node);
    list_init(&l->doomed);
    list_init(&l->outbox.asking);
    for (unsigned i = 0; i < LANES_ALL; i++) {
        struct lane *lane = &l->lane[i];
        lane->link = l;
        list_init(&lane->batch);
        list_init(&lane->posted);
        list_init(&lane->sending);
    }
    snprintf(l->host, sizeof l->host, "its peer");
    return l;
}

static void link_free(struct grave *g) {
    free(container_of(g, struct link, grave));
}

static unsigned lanes_wanted(const struct verbs_settings *s) {
    if (s->lanes == 0)
        return 1;
    return s->lanes < VERBS_LANES_MAX ? s->lanes : VERBS_LANES_MAX;
}

static void hello_of(const struct link *l, struct fabric_blob *out) {
    const struct queue *queues[VERBS_LANES_MAX];
    struct verbs_hello hello = {.cm = l->lanes == 0};
    for (unsigned i = 0; i < l->lanes; i++)
        queues[i] = &l->lane[i].queue;
    if (!hello.cm)
        qp_endpoint(l->verbs, queues, l->lanes, &hello.end);
    blob_write_hello(&hello, out);
}

int verbs_link_new(struct fabric *f, void *cookie, struct fabric_link **out,
                   struct fabric_blob *hello, struct error *err) {
    struct verbs *v = verbs_of(f);
    int rc = verbs_ready(v, err);
    if (rc)
        return rc;
    struct link *l = link_alloc(v, cookie);
    if (!l)
        return error_set(err, RDMAD_E_NOMEM, "no memory for a connection");
    if (!v->settings->cm && !v->device->iwarp) /* iWARP has no other way than rdma_cm */
        rc = link_make_queues(l, lanes_wanted(&v->device->settings), false, err);
    if (rc) {
        link_tear_down(l, RDMAD_E_FABRIC);
        free(l);
        return rc;
    }
    hello_of(l, hello);
    list_append(&v->links, &l->node);
    *out = &l->base;
    return 0;
}

/* ---- connecting -------------------------------------------------------------------------- */

void link_tell(struct link *l) {
    list_remove(&l->news);
    list_append(&l->verbs->news, &l->news);
}

/* What the device counts as one packet; 0 where it does not say. */
static uint64_t packet_of(const struct queue *q) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    if (ibv_query_qp(q->qp, &attr, IBV_QP_PATH_MTU, &init))
        return 0;
    return attr.path_mtu >= IBV_MTU_256 && attr.path_mtu <= IBV_MTU_4096 ? 128u << attr.path_mtu
                                                                         : 0;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

void link_connected(struct link *l, uint64_t number, uint64_t max_message,
                    const struct inbox_place *inbox) {
    const struct device *d = l->verbs->device;
    uint64_t ours = least(least(d->settings.max_message, d->max_message), MESSAGE_MAX);
    l->base.number = number;
    l->base.max_message = least(ours, max_message);
    l->packet = d->iwarp ? 0 : packet_of(&l->lane[0].queue);
    l->base.ordered = l->lanes == 1;
    l->atomics = device_has_atomics(d) && (inbox->features & TARGET_ATOMICS);
    outbox_connect(l, inbox);
    gates_connect(l);
    l->state = LINK_CONNECTED;
    link_tell(l);
}

static int offer_fits(const struct link *l, const char *host, const struct fabric_blob *blob,
                      struct verbs_offer *offer, struct error *err) {
    if (!blob_read_offer(blob, offer))
        return error_set(err, RDMAD_E_PROTOCOL,
                         "%s offers a connection in a way that is not version %u of the verbs "
                         "fabric: use the same rdmad on both sides",
                         host, VERBS_BLOB_VERSION);
    if (offer->cm != (l->lanes == 0) || (!offer->cm && offer->end.lanes > l->lanes))
        return error_set(err, RDMAD_E_PROTOCOL,
                         "%s offers a connection that does not answer what was asked for", host);
    return 0;
}

static int connect_lanes(struct link *l, const struct endpoint *other, struct error *err) {
    for (; l->lanes > other->lanes; l->lanes--)
        qp_destroy(&l->lane[l->lanes - 1].queue);
    for (unsigned i = 0; i < l->lanes; i++) {
        int rc = qp_connect(&l->lane[i].queue, other, i, err);
        if (rc)
            return rc;
    }
    l->reads = other->dest_rd_atomic > 0;
    return 0;
}

int verbs_link_open(struct fabric_link *fl, const char *host, const struct fabric_blob *blob,
                    struct error *err) {
    struct link *l = link_of(fl);
    struct verbs *v = l->verbs;
    struct verbs_offer offer;
    if (l->state != LINK_NEW) /* the device has gone meanwhile */
        return error_set(err, RDMAD_E_FABRIC, "%s", l->why.text);
    snprintf(l->host, sizeof l->host, "%s", host);
    int rc = offer_fits(l, host, blob, &offer, err);
    if (rc == 0 && offer.cm) {
        l->state = LINK_CONNECTING;
        l->reads = true;
        l->deadline_ns =
            clock_after(v->env->now_ns(v->env->user), v->env->settings->connect_timeout_ns);
        verbs_timer_at(v, l->deadline_ns);
        rc = cm_dial(l, host, &offer, err);
    } else if (rc == 0) {
        rc = connect_lanes(l, &offer.end, err);
        if (rc == 0)
            link_connected(l, offer.number, offer.end.max_message, &offer.inbox);
    }
    if (rc) {
        l->state = LINK_LOST;
        link_tear_down(l, RDMAD_E_PEER_LOST);
    }
    return rc;
}

/* ---- its end ----------------------------------------------------------------------------- */

void verbs_link_close(struct fabric_link *fl) {
    struct link *l = link_of(fl);
    l->state = LINK_CLOSED;
    list_remove(&l->node);
    link_tear_down(l, RDMAD_E_CANCELED);
    list_remove(&l->news);
    verbs_bury(l->verbs, &l->grave, link_free);
}

/* ---- all of them ------------------------------------------------------------------------- */

void links_news(struct verbs *v) {
    struct list *node;
    while ((node = list_pop(&v->news)))
        link_settle(list_entry(node, struct link, news));
}

void links_timers(struct verbs *v) {
    struct list links, *node;
    list_init(&links);
    list_splice(&links, &v->links);
    while ((node = list_pop(&links))) { /* callbacks may close any other */
        list_append(&v->links, node);
        link_look(list_entry(node, struct link, node));
    }
}

void links_lose(struct verbs *v, const struct error *why) {
    struct list links, *node;
    list_init(&links);
    list_splice(&links, &v->links);
    while ((node = list_pop(&links))) {
        struct link *l = list_entry(node, struct link, node);
        list_append(&v->links, node);
        if (l->state >= LINK_LOST)
            continue;
        if (l->state != LINK_FAILING)
            l->why = *why;
        l->state = LINK_FAILING;
        link_tear_down(l, RDMAD_E_PEER_LOST);
        link_settle(l);
    }
}

static bool in_error(struct ibv_qp *qp) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) != 0 || attr.qp_state == IBV_QPS_ERR ||
           attr.qp_state == IBV_QPS_SQE;
}

static struct lane *lane_of_qp(struct verbs *v, uint32_t qp_num) {
    list_for_each (pos, &v->links) {
        struct link *l = list_entry(pos, struct link, node);
        for (unsigned i = 0; i < LANES_ALL; i++) {
            const struct queue *q = &l->lane[i].queue;
            if (q->qp && q->qp->qp_num == qp_num)
                return &l->lane[i];
        }
    }
    return NULL;
}

bool links_qp_event(struct verbs *v, uint32_t qp_num, enum ibv_event_type event) {
    struct lane *lane = lane_of_qp(v, qp_num);
    if (!lane)
        return false;
    struct link *l = lane->link;
    bool bad = event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_QP_REQ_ERR ||
               event == IBV_EVENT_QP_ACCESS_ERR;
    LOG_LIMITED(INFO, ("%s: queue pair 0x%x to %s: %s", v->device->name, qp_num, l->host,
                       ibv_event_type_str(event)));
    /* An event may be late, and its QP's number have been given out again. */
    if (!bad || !in_error(lane->queue.qp))
        return true;
    cqs_poll(v); /* a completion knows more about it */
    if (l->state >= LINK_FAILING)
        return true;
    struct error why;
    error_set(&why, RDMAD_E_PEER_LOST, "%s: queue pair 0x%x to 0x%x at %s: the device reports: %s",
              v->device->name, qp_num, lane->queue.other, l->host, ibv_event_type_str(event));
    lane_break(lane);
    link_fail(l, &why);
    return true;
}
