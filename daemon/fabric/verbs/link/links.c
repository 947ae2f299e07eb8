/* SPDX-License-Identifier: MIT */
/*
 * links.c - the links of an instance, each from its hello to its end.
 *
 * link_new makes a link and its hello, link_open connects it by the peer's offer: how, its way
 * (instance/way.h) decides. link_up comes with the next poll, like everything that is told.
 *
 * A link that is lost keeps nothing of the device; its memory stays until link_close.
 */
#include "daemon/fabric/verbs/link/links.h"
#include "daemon/fabric/verbs/instance/cq.h"
#include "daemon/fabric/verbs/instance/qp.h"
#include "daemon/fabric/verbs/instance/way.h"
#include "daemon/fabric/verbs/link/outbox.h"
#include "daemon/fabric/verbs/link/recover.h"
#include "daemon/fabric/verbs/link/weak_sender.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define MESSAGE_MAX (1u << 31) /* of one work request: the length is 32 bits, half of them sure */

/* ---- birth ------------------------------------------------------------------------------- */

static struct verbs_link *link_alloc(struct verbs *v, void *cookie) {
    struct verbs_link *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->base.fabric = &v->base;
    l->verbs = v;
    l->cookie = cookie;
    l->way = v->connect;
    l->state = LINK_NEW;
    list_init(&l->node);
    list_init(&l->changed);
    list_init(&l->end.node);
    list_init(&l->doomed);
    list_init(&l->outbox.asking);
    for (unsigned i = 0; i < LANES_ALL; i++) {
        struct verbs_lane *lane = &l->lane[i];
        lane->link = l;
        lane->queue.ended = lane_ended;
        list_init(&lane->batch);
        list_init(&lane->posted);
        list_init(&lane->sending);
    }
    snprintf(l->host, sizeof l->host, "its peer");
    return l;
}

static void link_free(struct free_later *f) {
    free(container_of(f, struct verbs_link, end));
}

int verbs_link_new(struct fabric *f, void *cookie, bool secured, struct fabric_link **out,
                   struct fabric_blob *hello, struct error *err) {
    (void)secured;
    struct verbs *v = verbs_of(f);
    int rc = verbs_ready(v, err);
    if (rc)
        return rc;
    struct verbs_link *l = link_alloc(v, cookie);
    if (!l)
        return error_set(err, RDMAD_E_NOMEM, "no memory for a connection");
    struct verbs_hello ours = {0};
    rc = l->way->prepare(l, &ours, err);
    if (rc) {
        link_tear_down(l, RDMAD_E_FABRIC);
        free(l);
        return rc;
    }
    blob_write_hello(&ours, hello);
    list_append(&v->links, &l->node);
    *out = &l->base;
    return 0;
}

/* ---- connecting -------------------------------------------------------------------------- */

int verbs_link_open(struct fabric_link *fl, const char *host, const struct fabric_blob *blob,
                    struct error *err) {
    struct verbs_link *l = verbs_link_of(fl);
    struct verbs_offer offer;
    bool read = blob_read_offer(blob, &offer);
    if (read) /* however this ends, the peer has its end, and lets go of it by that number */
        l->base.number = offer.number;
    if (l->state != LINK_NEW) /* the device has gone meanwhile */
        return error_set(err, RDMAD_E_FABRIC, "%s", l->why.text);
    snprintf(l->host, sizeof l->host, "%s", host);
    int rc = 0;
    if (!read)
        rc = error_set(err, RDMAD_E_PROTOCOL,
                       "%s offers a connection in a way that is not version %u of the verbs "
                       "fabric: use the same rdmad on both sides",
                       host, VERBS_BLOB_VERSION);
    if (rc == 0)
        rc = l->way->open(l, host, &offer, err);
    if (rc) {
        l->state = LINK_LOST;
        link_tear_down(l, RDMAD_E_PEER_LOST);
    }
    return rc;
}

/* ---- its queue pairs, for the ways of connecting ------------------------------------------ */

int link_make_queues(struct verbs_link *l, unsigned lanes, bool bare, struct error *err) {
    assert(l->lanes == 0 && lanes <= VERBS_LANES_MAX);
    const struct verbs_settings *s = &l->verbs->device->settings;
    struct qp_spec spec = {.pd = l->verbs->device->pd,
                           .depth = s->queue_depth + 1, /* for reading the peer's page */
                           .inline_bytes = s->inline_bytes,
                           .bare = bare};
    for (l->lanes = 0; l->lanes < lanes; l->lanes++) {
        struct verbs_lane *lane = &l->lane[l->lanes];
        int rc = qp_make(l->verbs, &lane->queue, &spec, err);
        if (rc)
            return rc; /* the caller tears down what there is */
        spec.depth = s->queue_depth;
    }
    return outbox_open(l, err);
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

void link_connected(struct verbs_link *l, uint64_t number, uint64_t max_message,
                    const struct inbox_place *inbox) {
    assert(l->state == LINK_NEW || l->state == LINK_CONNECTING);
    const struct device *d = l->verbs->device;
    uint64_t ours = least(least(d->settings.max_message, d->max_message), MESSAGE_MAX);
    l->base.number = number;
    l->base.max_message = least(ours, max_message);
    l->packet = d->iwarp ? 0 : packet_of(&l->lane[0].queue);
    l->base.ordered = l->lanes == 1;
    l->atomics = device_has_atomics(d) && (inbox->features & TARGET_ATOMICS);
    outbox_connect(l, inbox);
    weak_senders_connect(l);
    l->state = LINK_CONNECTED;
    link_changed(l);
}

/* ---- its end ----------------------------------------------------------------------------- */

void verbs_link_close(struct fabric_link *fl) {
    struct verbs_link *l = verbs_link_of(fl);
    l->state = LINK_CLOSED;
    list_remove(&l->node);
    link_tear_down(l, RDMAD_E_CANCELED);
    list_remove(&l->changed);
    verbs_free_later(l->verbs, &l->end, link_free);
}

/* ---- all of them ------------------------------------------------------------------------- */

void links_settle(struct verbs *v) {
    struct list *node;
    while ((node = list_pop(&v->changed)))
        link_settle(list_entry(node, struct verbs_link, changed));
}

void links_timers(struct verbs *v) {
    struct list links, *node;
    list_init(&links);
    list_splice(&links, &v->links);
    while ((node = list_pop(&links))) { /* callbacks may close any other */
        list_append(&v->links, node);
        link_look(list_entry(node, struct verbs_link, node));
    }
}

void links_lose(struct verbs *v, const struct error *why) {
    struct list links, *node;
    list_init(&links);
    list_splice(&links, &v->links);
    while ((node = list_pop(&links))) {
        struct verbs_link *l = list_entry(node, struct verbs_link, node);
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

static struct verbs_lane *lane_of_qp(struct verbs *v, uint32_t qp_num) {
    list_for_each (pos, &v->links) {
        struct verbs_link *l = list_entry(pos, struct verbs_link, node);
        for (unsigned i = 0; i < LANES_ALL; i++) {
            const struct queue *q = &l->lane[i].queue;
            if (q->qp && q->qp->qp_num == qp_num)
                return &l->lane[i];
        }
    }
    return NULL;
}

bool links_qp_event(struct verbs *v, uint32_t qp_num, enum ibv_event_type event) {
    struct verbs_lane *lane = lane_of_qp(v, qp_num);
    if (!lane)
        return false;
    struct verbs_link *l = lane->link;
    LOG_LIMITED_OF(log_of_name(l->host), INFO,
                   ("%s: queue pair 0x%x to %s: %s", v->device->name, qp_num, l->host,
                    ibv_event_type_str(event)));
    /* An event may be late, and its QP's number have been given out again. */
    if (!qp_event_is_bad(event) || !qp_in_error(&lane->queue))
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
