/* SPDX-License-Identifier: MIT */
/*
 * page.h - reading the page of the peer's target.
 */
#ifndef RDMAD_FABRIC_VERBS_LINK_PAGE_H
#define RDMAD_FABRIC_VERBS_LINK_PAGE_H

#include "daemon/fabric/verbs/link/link.h"

bool page_wanted(const struct verbs_link *l); /* it is to be read now */
void page_sge(const struct verbs_link *l, struct ibv_sge *sge);
void page_came(struct verbs_link *l); /* it was read */
void page_look(struct verbs_link *l); /* for timers */

/* page_ask: the message has arrived; its answer is looked for in the page. page_end_asking: there
 * will be no answers any more. */
void page_ask(struct verbs_link *l, struct fabric_op *op);
void page_end_asking(struct verbs_link *l, int status);

#endif
