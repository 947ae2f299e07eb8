/* SPDX-License-Identifier: MIT */
/*
 * cm_call.h - a call: one connection by rdma_cm, from either end.
 */
#ifndef RDMAD_FABRIC_VERBS_CONNECT_CM_CALL_H
#define RDMAD_FABRIC_VERBS_CONNECT_CM_CALL_H

#include "daemon/fabric/verbs/connect/cm.h"
#include "daemon/fabric/verbs/link/link.h"

/* NEW --our request or answer leaves--> TOLD --connected--> UP */
enum cm_call_state {
    CALL_NEW,
    CALL_TOLD, /* the other end has or may have heard of us */
    CALL_UP,
};

struct cm_call {
    struct list node; /* in cm.calls */
    struct cm *cm;
    struct rdma_cm_id *id;
    struct verbs_link *link;      /* if we called */
    struct verbs_target *target;  /* if we were called */
    struct sockaddr_in6 from, to; /* we called; of either kind of address */
    uint64_t number;              /* the target's */
    uint8_t token[VERBS_TOKEN_BYTES];
    enum cm_call_state state;
    uint64_t deadline_ns; /* if we were called: when it must be up */
};

/* An event that was already acknowledged; data is what the other end sent along. */
struct cm_event {
    struct rdma_cm_id *id;
    enum rdma_cm_event_type type;
    int status;
    uint8_t reads; /* responder resources or initiator depth, whichever is the other end's */
    uint8_t size;
    uint8_t data[64];
};
/* Starts connecting l by the offer. Later link_connected or link_fail is called. */
int cm_call_dial(struct verbs_link *l, const char *host, const struct verbs_offer *offer,
                 struct error *err);
/* A connection request came; it becomes a target's call, or is refused. */
void cm_call_requested(struct cm *cm, const struct cm_event *e);
void cm_call_event(struct cm_call *call, const struct cm_event *e);
void cm_call_end(struct cm_call *call); /* silently */

#endif
