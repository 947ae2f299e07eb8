/* SPDX-License-Identifier: MIT */
/*
 * targets.h - the targets of an instance: made, for the ways of connecting, and ended;
 * fabric_ops.expel, .forget and .accepted.
 */
#ifndef RDMAD_FABRIC_VERBS_TARGET_TARGETS_H
#define RDMAD_FABRIC_VERBS_TARGET_TARGETS_H

#include "daemon/fabric/verbs/target/target.h"

/* Makes the QPs of a connection. bare: for rdma_cm. */
struct verbs_target *target_new(struct vpeer *p, const struct connect_way *way, unsigned lanes,
                                bool bare, struct error *err);
/* Makes room for one more connection of the peer, from newcomer (NULL: not known): dead ones are
 * dropped, and if there are too many the oldest. Returns 0, or why there is no room. The caller
 * holds p. */
int target_make_room(struct vpeer *p, const struct endpoint *newcomer, struct error *err);
/* Both end a target, and first of all break its QPs. target_close hands on the messages that came
 * by it, because their sender was told that they arrived; after target_drop, also if it follows a
 * close, nothing is handed on. Not to be called from inside one of the target's completions: use
 * target_broke there. */
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
void targets_break(struct verbs *v); /* all: nothing is acknowledged to their peers any more */
void targets_close(struct verbs *v); /* all: the device goes */
bool targets_qp_event(struct verbs *v, uint32_t qp_num, enum ibv_event_type event);

#endif
