/* SPDX-License-Identifier: MIT */
/*
 * way.h - a way of connecting: by numbers that the control connection exchanges
 * (connect/exchange.c), or by rdma_cm (connect/cm_way.c).
 *
 * Links and targets know their way by this table alone, for the ways stand above them.
 */
#ifndef RDMAD_FABRIC_VERBS_INSTANCE_WAY_H
#define RDMAD_FABRIC_VERBS_INSTANCE_WAY_H

#include "daemon/fabric/verbs/wire/blob.h"

struct verbs_link;
struct verbs;
struct verbs_target;
struct vpeer;

struct connect_way {
    /* A link of ours: what it says in its hello; then connecting by the offer that answers, after
     * which link_connected or link_fail follows, now or later. When either fails, the caller tears
     * the link down. hang_up comes before the link's QPs are destroyed. */
    int (*prepare)(struct verbs_link *l, struct verbs_hello *hello, struct error *err);
    int (*open)(struct verbs_link *l, const char *host, const struct verbs_offer *offer,
                struct error *err);
    void (*hang_up)(struct verbs_link *l); /* NULL: nothing to do, as for each below */

    /* A peer's connection: whether its hello is good, before anything is made for that peer; the
     * offer to it; the end of a target that came this way; the end of
     * offers that the peer has not taken up (vpeer.offers). */
    int (*check)(const struct verbs *v, const struct verbs_hello *hello, struct error *err);
    int (*offer)(struct vpeer *p, const struct verbs_hello *hello, struct verbs_offer *out,
                 struct error *err);
    void (*target_left)(struct verbs_target *t);
    void (*drop_offers)(struct vpeer *p);
};

#endif
