/* SPDX-License-Identifier: MIT */
/*
 * links.h - the links of an instance: fabric_ops.link_*, post and cancel, and what happens to all
 * of them.
 */
#ifndef RDMAD_FABRIC_VERBS_LINK_LINKS_H
#define RDMAD_FABRIC_VERBS_LINK_LINKS_H

#include "daemon/fabric/verbs/link/link.h"

int verbs_link_new(struct fabric *f, void *cookie, bool secured, struct fabric_link **out,
                   struct fabric_blob *hello, struct error *err);
int verbs_link_open(struct fabric_link *link, const char *host, const struct fabric_blob *offer,
                    struct error *err);
void verbs_link_close(struct fabric_link *link);

/* For the ways of connecting. Makes as many lanes; bare ones for rdma_cm. */
int link_make_queues(struct verbs_link *l, unsigned lanes, bool bare, struct error *err);
/* Every lane's queue is in RTS; the offer was the target's. link_up comes with the next poll. */
void link_connected(struct verbs_link *l, uint64_t number, uint64_t max_message,
                    const struct inbox_place *inbox);

/* Ops on their way to the device (post.c). */
int verbs_post(struct fabric_link *link, struct fabric_op *op);
void verbs_cancel(struct fabric_op *op, int status);
void links_flush(struct verbs *v); /* posts the batches */

void links_settle(struct verbs *v);                        /* doomed ops, links up and lost */
void links_timers(struct verbs *v);                        /* quiesce bounds, connecting */
void links_lose(struct verbs *v, const struct error *why); /* all: the device goes */
bool links_qp_event(struct verbs *v, uint32_t qp_num, enum ibv_event_type event);

#endif
