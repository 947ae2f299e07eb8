/* SPDX-License-Identifier: MIT */
/*
 * way.h - a way of connecting: by numbers that the control connection exchanges
 * (connect/exchange.c), or by rdma_cm (connect/cm_way.c).
 *
 * The ways are in a storey above links and targets, which know theirs by this table alone.
 */
#ifndef RDMAD_FABRIC_VERBS_INSTANCE_WAY_H
#define RDMAD_FABRIC_VERBS_INSTANCE_WAY_H

#include "daemon/fabric/verbs/wire/blob.h"

struct verbs_link;
struct verbs;
struct verbs_target;
struct vpeer;

struct connect_way {
    /* For a link of ours. prepare: fills in its hello. open: connects by the offer that answers the
     * hello; link_connected or link_fail follows, at once or later. When either fails, the caller
     * tears the link down. hang_up: called before the link's QPs are destroyed. */
    int (*prepare)(struct verbs_link *l, struct verbs_hello *hello, struct error *err);
    int (*open)(struct verbs_link *l, const char *host, const struct verbs_offer *offer,
                struct error *err);
    void (*hang_up)(struct verbs_link *l); /* NULL: nothing to do, as for each below */

    /* For a peer's connection. check: whether its hello is good, before anything is made for that
     * peer. offer: makes the offer to it. target_left: a target that came this way ends.
     * drop_offers: ends offers that the peer has not taken up (vpeer.offers). */
    int (*check)(const struct verbs *v, const struct verbs_hello *hello, struct error *err);
    int (*offer)(struct vpeer *p, const struct verbs_hello *hello, struct verbs_offer *out,
                 struct error *err);
    void (*target_left)(struct verbs_target *t);
    void (*drop_offers)(struct vpeer *p);
};

#endif
