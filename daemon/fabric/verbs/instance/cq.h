/* SPDX-License-Identifier: MIT */
/*
 * cq.h - completion queues that cannot overrun, and the channel that wakes a sleeper.
 */
#ifndef RDMAD_FABRIC_VERBS_INSTANCE_CQ_H
#define RDMAD_FABRIC_VERBS_INSTANCE_CQ_H

#include "daemon/fabric/verbs/instance/queue.h"

/* Before a QP is made it reserves as many entries as it can have work requests. If no CQ has room,
 * another is made. */
struct cq {
    struct list node; /* in verbs.cqs */
    struct verbs *verbs;
    struct ibv_cq *cq;
    uint32_t size, reserved;
    unsigned events; /* taken and not acknowledged */
    bool armed;
    unsigned held; /* how many completions arming found */
    struct ibv_wc *wc;
    struct list dead,
        dying; /* slots of queues that are gone, which completions in the CQ may still name */
};
int cq_reserve(struct verbs *v, uint32_t entries, struct cq **out, struct error *err);
void cq_unreserve(struct cq *cq, uint32_t entries);
/* Both hand completions to their work requests' queues: a turn's share of them, or all that were
 * there before the call. */
void cqs_poll(struct verbs *v);
void cqs_poll_all(struct verbs *v);
bool cqs_arm(struct verbs *v);           /* false: there is a completion already */
void comp_channel_take(struct verbs *v); /* it was readable */
void cqs_close(struct verbs *v);         /* every QP is gone */

#endif
