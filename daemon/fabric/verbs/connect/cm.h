/* SPDX-License-Identifier: MIT */
/*
 * cm.h - connecting by rdma_cm: what target.c asks of it, and what cm.c and cm_call.c share. A
 * link's side is in link.h.
 *
 * A peer that says in its hello that it comes by rdma_cm is offered an address, a port and a token.
 * Its connection request shows the token, once and in time; only then a target is made for it. A
 * call is one connection, from either end. By rdma_cm a link has one lane, whatever is configured.
 */
#ifndef RDMAD_FABRIC_VERBS_CM_H
#define RDMAD_FABRIC_VERBS_CM_H

#include "daemon/fabric/verbs/link/link.h"
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

/* ---- cm.c: an instance's channel, listener and offers -------------------------------------- */

struct cm {
    struct verbs *verbs;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener; /* NULL: nobody was offered anything yet */
    uint8_t address[16];
    uint16_t port;
    struct list offers, calls;
};

struct cm_offer {
    struct list node;
    struct vpeer *peer;
    uint64_t number; /* of the target that will be made for it */
    uint64_t expires_ns;
    uint8_t token[VERBS_TOKEN_BYTES];
};

int cm_offer(struct vpeer *p, struct fabric_blob *out, struct error *err);
unsigned cm_offers(const struct vpeer *p); /* that are not taken up */
void cm_offers_drop(struct vpeer *p);
void cm_timers(struct verbs *v);
void cm_close(struct verbs *v); /* every call is ended; the device goes or the instance does */

int cm_of(struct verbs *v, struct cm **out, struct error *err); /* made if need be */
/* An address of ours on the device in use, for who calls or listens. */
int cm_address(struct cm *cm, struct sockaddr_in6 *out, struct error *err);
struct sockaddr_in6 cm_sockaddr(const uint8_t address[16], uint16_t port);
bool cm_is_ours(const struct cm *cm, const struct rdma_cm_id *id); /* on the device in use */
/* The offer with that token, if it is still good. The caller frees it: it is good once. */
struct cm_offer *cm_offer_find(struct cm *cm, const uint8_t token[VERBS_TOKEN_BYTES]);
void cm_offer_free(struct cm_offer *o);

/* ---- cm_call.c: one connection ------------------------------------------------------------- */

struct cm_call {
    struct list node; /* in cm.calls */
    struct cm *cm;
    struct rdma_cm_id *id;
    struct link *link;            /* we called, */
    struct target *target;        /* or were called */
    struct sockaddr_in6 from, to; /* we called; of either kind of address */
    uint64_t number;              /* the target's */
    uint8_t token[VERBS_TOKEN_BYTES];
    bool up, talked;      /* connected; the other end has or may have heard of us */
    uint64_t deadline_ns; /* called: to be up */
};

void cm_target_gone(struct target *t); /* ends its connection, if it came by rdma_cm */
/* An event that was already acknowledged; data is what the other end sent along. */
struct cm_news {
    struct rdma_cm_id *id;
    enum rdma_cm_event_type type;
    int status;
    uint8_t reads; /* responder resources or initiator depth, whichever is the other end's */
    uint8_t size;
    uint8_t data[64];
};
void cm_called(struct cm *cm, const struct cm_news *n);
void cm_call_news(struct cm_call *call, const struct cm_news *n);
void cm_call_end(struct cm_call *call); /* silently */

#endif
