/* SPDX-License-Identifier: MIT */
/*
 * cm.h - what an instance has of rdma_cm.
 *
 * A peer whose hello says that it comes by rdma_cm is offered an address, a port and a token. Its
 * connection request must show the token, once and in time; only then is a target made for it. A
 * link by rdma_cm has one lane, whatever is configured.
 */
#ifndef RDMAD_FABRIC_VERBS_CONNECT_CM_H
#define RDMAD_FABRIC_VERBS_CONNECT_CM_H

#include "daemon/fabric/verbs/target/target.h"
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

struct cm {
    struct verbs *verbs;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener; /* NULL: nobody was offered anything yet */
    uint8_t address[16];
    uint16_t port;
    struct list offers, calls; /* struct cm_call of cm_call.h */
};

struct cm_offer {
    struct list node;
    struct vpeer *peer;
    uint64_t number; /* of the target that will be made for it */
    uint64_t expires_ns;
    uint8_t token[VERBS_TOKEN_BYTES];
};

int cm_of(struct verbs *v, struct cm **out, struct error *err); /* made if need be */
void cm_free(struct verbs *v);                                  /* every call has ended */

/* An address of ours on the device in use, to call from or to listen at. */
int cm_address(struct cm *cm, struct sockaddr_in6 *out, struct error *err);
struct sockaddr_in6 cm_sockaddr(const uint8_t address[16], uint16_t port);
bool cm_is_ours(const struct cm *cm, const struct rdma_cm_id *id); /* on the device in use */

int cm_listen(struct cm *cm, struct error *err);
struct cm_offer *cm_offer_new(struct cm *cm, struct vpeer *p, struct error *err);
/* The offer with that token, if it is still good. The caller frees it: it is good once. */
struct cm_offer *cm_offer_find(struct cm *cm, const uint8_t token[VERBS_TOKEN_BYTES]);
void cm_offer_free(struct cm_offer *o);

#endif
