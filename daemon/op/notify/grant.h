/* SPDX-License-Identifier: MIT */
/*
 * grant.h - a lease as its owner's worker knows it: notices that wait, and NOTIFIEDs that wait.
 */
#ifndef RDMAD_OP_NOTIFY_GRANT_H
#define RDMAD_OP_NOTIFY_GRANT_H

#include "daemon/op/notify/notifier.h"

/* Leaves a notice, from any worker; if need be it goes to the owner's by mail. On failure none is
 * left and nothing has changed. */
int notice_leave(struct worker *w, struct op_notifier *from, uint32_t imm, uint64_t length);
/* So many notices wait, most of attaches that are gone, that apparently nobody takes any. */
bool notices_too_many(const struct worker *w, const struct op_notifier *n);

/* Once a turn: NOTIFIEDs that wait are given the notices that have come. Returns how much there was
 * to do. */
unsigned notices_run(struct worker *w);

/* A NOTIFIED takes a notice or waits. Returns 0, or why it is refused. */
int notified_take(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  struct op_request *rq);
uint64_t notified_lease_number(const struct op *op);

struct op_grant *op_grant_new(void);
/* The session granted that lease: from now on it can be notified. On failure g is freed. */
int grant_add(struct worker *w, struct op_session *s, struct op_grant *g, uint64_t lease_id);
/* Takes the grant from where notices find it, and has its session wait for its end. NULL: there is
 * none. Then grant_end is called */
struct op_grant *grant_hide(struct worker *w, const struct op_session *s, uint64_t lease_id);
/* once a turn until it returns true: the grant is gone, with all that waited there. */
bool grant_end(struct worker *w, struct op_grant *g, int reason);
/* Ends the session's grants, some in a turn. True: it has none any more. */
bool grants_session_gone(struct worker *w, struct op_session *s);

#endif
