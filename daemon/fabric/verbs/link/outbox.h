/* SPDX-License-Identifier: MIT */
/*
 * outbox.h - memory for messages to a peer, and for the answers of its device.
 */
#ifndef RDMAD_FABRIC_VERBS_LINK_OUTBOX_H
#define RDMAD_FABRIC_VERBS_LINK_OUTBOX_H

#include "daemon/fabric/verbs/link/link.h"

/* open: the queues are made; close: they are destroyed. */
int outbox_open(struct verbs_link *l, struct error *err);
void outbox_close(struct verbs_link *l);
void outbox_connect(struct verbs_link *l, const struct inbox_place *to);

/* Takes a slot for op; one must be free. Returns 0, RDMAD_E_LENGTH, or RDMAD_E_FAULT with
 * op->fault. */
int outbox_fill(struct verbs_link *l, struct fabric_op *op);
bool outbox_may_send(const struct outbox *ob); /* the peer has a receive for one more */
void outbox_sge(struct outbox *ob, const struct fabric_op *op, struct ibv_sge *sge);

/* For a work request that has taken its place: where its answer is to be written, and what was
 * written there; false if nothing was. */
void outbox_word_sge(const struct verbs_lane *lane, const struct ibv_send_wr *wr,
                     struct ibv_sge *sge);
bool outbox_word(const struct verbs_lane *lane, const struct wr_slot *slot, uint64_t *out);

/* The peer's page, as it was last read. */
struct inbox_page *outbox_page(const struct outbox *ob);

#endif
