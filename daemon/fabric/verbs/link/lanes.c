/* SPDX-License-Identifier: MIT */
/*
 * lanes.c - a link's queue pairs, made and connected.
 */
#include "daemon/fabric/verbs/link/lanes.h"
#include "daemon/fabric/verbs/instance/qp.h"
#include "daemon/fabric/verbs/link/outbox.h"
#include "daemon/fabric/verbs/link/weak_sender.h"
#include <assert.h>

#define MESSAGE_MAX (1u << 31) /* of one work request: the length is 32 bits, half of them sure */

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
