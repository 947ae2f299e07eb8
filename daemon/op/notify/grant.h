/* SPDX-License-Identifier: MIT */
/*
 * grant.h - a lease as its owner's worker knows it: notices that wait, and NOTIFIEDs that wait.
 */
#ifndef RDMAD_OP_NOTIFY_GRANT_H
#define RDMAD_OP_NOTIFY_GRANT_H

#include "daemon/op/notify/notifier.h"

/* The owner's worker, or one that gives it there by mail. On failure nothing was left and nothing
 * changed. */
int notice_leave(struct worker *w, struct op_notifier *from, uint32_t imm, uint64_t length);
/* Attaches that are gone have left so many that nobody takes any, by the looks of it. */
bool notices_too_many(const struct worker *w, const struct op_notifier *n);

/* NOTIFIED: takes a notice or waits; 0 or why it is refused. */
int notified_take(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  struct op_request *rq);
uint64_t notified_lease_number(const struct op *op);

struct op_grant *op_grant_new(void);
/* The session granted that lease. When it cannot be noted g is freed. */
int grant_add(struct worker *w, struct op_session *s, struct op_grant *g, uint64_t lease_id);
/* Nobody finds it any more, and its session waits for it; NULL: there is none. grant_end follows,
 */
struct op_grant *grant_hide(struct worker *w, const struct op_session *s, uint64_t lease_id);
/* once a turn until it is true: the grant is gone, with all that waited there. */
bool grant_end(struct worker *w, struct op_grant *g, int reason);
/* The session's, some a turn; true: it has none any more. */
bool grants_session_gone(struct worker *w, struct op_session *s);

#endif
