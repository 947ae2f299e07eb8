/* SPDX-License-Identifier: MIT */
/*
 * weak_sender.h - datagrams and unacknowledged messages, on the way out of a link.
 */
#ifndef RDMAD_FABRIC_VERBS_LINK_WEAK_SENDER_H
#define RDMAD_FABRIC_VERBS_LINK_WEAK_SENDER_H

#include "daemon/fabric/verbs/link/link.h"

/* Returns 0 if messages of that kind may be put on *lane, or why not: UNSUPPORTED, or AGAIN. */
int weak_sender_ready(struct verbs_link *l, enum weak_kind kind, struct verbs_lane **lane);
/* Puts what is special to that kind into wr and its sge. */
void weak_sender_fill(struct verbs_link *l, enum weak_kind kind, struct ibv_send_wr *wr,
                      struct ibv_sge *sge);
/* The peer's page was read. Returns whether it said something new. */
bool weak_senders_read(struct verbs_link *l, const struct inbox_page *page);
void weak_senders_connect(struct verbs_link *l);
void weak_senders_close(struct verbs_link *l); /* the QPs are gone */

#endif
