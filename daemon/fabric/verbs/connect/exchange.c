/* SPDX-License-Identifier: MIT */
/*
 * exchange.c - connecting by numbers that travel over the control connection.
 *
 * A link makes a QP a lane and tells their numbers in its hello. The target makes as many, or
 * fewer, connects them towards these, and answers with their numbers; by these the link connects.
 * QPs are up at once.
 */
#include "daemon/fabric/verbs/connect/exchange.h"
#include "daemon/fabric/verbs/link/links.h"
#include "daemon/fabric/verbs/target/inbox.h"
#include "daemon/fabric/verbs/target/targets.h"
#include <string.h>

/* ---- a link of ours ------------------------------------------------------------------------ */

static unsigned lanes_wanted(const struct verbs_settings *s) {
    if (s->lanes == 0)
        return 1;
    return s->lanes < VERBS_LANES_MAX ? s->lanes : VERBS_LANES_MAX;
}

static int exchange_prepare(struct verbs_link *l, struct verbs_hello *hello, struct error *err) {
    const struct queue *queues[VERBS_LANES_MAX];
    int rc = link_make_queues(l, lanes_wanted(&l->verbs->device->settings), false, err);
    if (rc)
        return rc;
    for (unsigned i = 0; i < l->lanes; i++)
        queues[i] = &l->lane[i].queue;
    qp_endpoint(l->verbs, queues, l->lanes, &hello->end);
    return 0;
}

static int connect_lanes(struct verbs_link *l, const struct endpoint *other, struct error *err) {
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

static int exchange_open(struct verbs_link *l, const char *host, const struct verbs_offer *offer,
                         struct error *err) {
    if (offer->cm || offer->end.lanes > l->lanes)
        return error_set(err, RDMAD_E_PROTOCOL,
                         "%s offers a connection that does not answer what was asked for", host);
    int rc = connect_lanes(l, &offer->end, err);
    if (rc == 0)
        link_connected(l, offer->number, offer->end.max_message, &offer->inbox);
    return rc;
}

/* ---- a peer's connection ------------------------------------------------------------------- */

static int exchange_check(const struct verbs *v, const struct verbs_hello *hello,
                          struct error *err) {
    const struct endpoint *e = &hello->end;
    static const uint8_t none[sizeof(e->gid)];
    bool ethernet = e->link_layer == IBV_LINK_LAYER_ETHERNET;
    if (v->device->iwarp)
        return error_set(err, RDMAD_E_FABRIC,
                         "device %s here is iWARP, which is connected by rdma_cm alone: set "
                         "verbs.connect to \"cm\" in your daemon's configuration",
                         v->device->name);
    if (ethernet ? memcmp(e->gid, none, sizeof(none)) == 0 : e->lid == 0)
        return error_set(err, RDMAD_E_PROTOCOL,
                         "the hello of a link names no address; both daemons need the same "
                         "version");
    return 0;
}

static int target_connect(struct verbs_target *t, const struct endpoint *other, struct error *err) {
    for (unsigned i = 0; i < t->lanes; i++) {
        int rc = qp_connect(&t->queue[i], other, i, err);
        if (rc)
            return rc;
    }
    t->other = *other;
    t->number = target_number_new();
    return 0;
}

static int exchange_offer(struct vpeer *p, const struct verbs_hello *hello, struct verbs_offer *out,
                          struct error *err) {
    struct verbs *v = p->verbs;
    const struct endpoint *other = &hello->end;
    uint32_t lanes = v->device->settings.lanes < other->lanes ? v->device->settings.lanes
                                                              : (uint32_t)other->lanes;
    int rc = target_make_room(p, other, err);
    if (rc)
        return rc;
    struct verbs_target *t = target_new(p, &connect_exchange, lanes, false, err);
    if (!t)
        return err->code;
    if ((rc = target_connect(t, other, err))) {
        target_drop(t);
        return rc;
    }
    const struct queue *queues[VERBS_LANES_MAX];
    for (unsigned i = 0; i < t->lanes; i++)
        queues[i] = &t->queue[i];
    out->number = t->number;
    qp_endpoint(v, queues, t->lanes, &out->end);
    inbox_tell(t, &out->inbox);
    return 0;
}

const struct connect_way connect_exchange = {
    .prepare = exchange_prepare,
    .open = exchange_open,
    .check = exchange_check,
    .offer = exchange_offer,
};
