/* SPDX-License-Identifier: MIT */
/*
 * targets.h - the targets of an instance: their making, for the ways of connecting; their end;
 * fabric_ops.expel, .forget and .accepted.
 */
#ifndef RDMAD_FABRIC_VERBS_TARGET_TARGETS_H
#define RDMAD_FABRIC_VERBS_TARGET_TARGETS_H

#include "daemon/fabric/verbs/target/target.h"

/* Makes the QPs of a connection. bare: for rdma_cm. */
struct verbs_target *target_new(struct vpeer *p, const struct connect_way *way, unsigned lanes,
                                bool bare, struct error *err);
/* Whether the peer may have one more connection (from newcomer, NULL when not known); dead ones
 * and, among too many, the oldest go for it. The caller holds p. */
int target_make_room(struct vpeer *p, const struct endpoint *newcomer, struct error *err);
/* End one: its QPs first of all break. close hands on the messages that came by it, for their
 * sender was told that they did; drop is silent from then on, also after a close. Not from inside
 * one of its completions: there target_broke is right. */
void target_close(struct verbs_target *t);
void target_drop(struct verbs_target *t);

void verbs_expel(struct fabric *f, uint64_t peer);
void verbs_forget(struct fabric *f, uint64_t peer, uint64_t number);
unsigned verbs_accepted(const struct fabric *f);

void targets_init(struct verbs *v); /* for the instance's birth */
void targets_fini(struct verbs *v); /* for its end: after targets_close, with all jobs done */
void targets_look(struct verbs *v); /* closes what broke, finishes what has ended */
bool targets_noted(const struct verbs *v); /* there is something to look at */
void targets_timers(struct verbs *v);
void targets_close(struct verbs *v); /* all: the device goes */
bool targets_qp_event(struct verbs *v, uint32_t qp_num, enum ibv_event_type event);

#endif
