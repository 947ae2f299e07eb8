/* SPDX-License-Identifier: MIT */
/*
 * links.h - the links of an instance: fabric_ops.link_*, and what happens to all of them.
 */
#ifndef RDMAD_FABRIC_VERBS_LINK_LINKS_H
#define RDMAD_FABRIC_VERBS_LINK_LINKS_H

#include "daemon/fabric/verbs/link/link.h"

int verbs_link_new(struct fabric *f, void *cookie, struct fabric_link **out,
                   struct fabric_blob *hello, struct error *err);
int verbs_link_open(struct fabric_link *link, const char *host, const struct fabric_blob *offer,
                    struct error *err);
void verbs_link_close(struct fabric_link *link);

void links_settle(struct verbs *v);                        /* doomed ops, links up and lost */
void links_timers(struct verbs *v);                        /* quiesce bounds, connecting */
void links_lose(struct verbs *v, const struct error *why); /* all: the device goes */
bool links_qp_event(struct verbs *v, uint32_t qp_num, enum ibv_event_type event);

#endif
