/* SPDX-License-Identifier: MIT */
/*
 * inbox.h - messages of a peer, by one of its connections.
 */
#ifndef RDMAD_FABRIC_VERBS_TARGET_INBOX_H
#define RDMAD_FABRIC_VERBS_TARGET_INBOX_H

#include "daemon/fabric/verbs/target/target.h"

/* Makes memory and registrations. The first QP of t, which will be in that PD, has INBOX_RECEIVES.
 */
int inbox_open(struct verbs_target *t, struct ibv_pd *pd, struct error *err);
/* Posts the receives: the QP is in INIT. */
int inbox_start(struct verbs_target *t, struct error *err);
void inbox_tell(const struct verbs_target *t, struct inbox_place *out);
void inbox_received(struct queue *q, uint32_t n, const struct ibv_wc *wc);
void inbox_close(struct verbs_target
                     *t); /* the QPs are gone; its memory stays for callers that are reading it */
void inbox_free(struct verbs_target *t);

#endif
