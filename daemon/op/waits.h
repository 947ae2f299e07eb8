/* SPDX-License-Identifier: MIT */
/*
 * waits.h - how many ops may wait for somebody else: RECVs and NOTIFIEDs.
 *
 * They have no deadline, and what a ring's completion queue reserves for them bounds them by ring
 * only. So they are counted for the session, for its uid and for the daemon, each with a limit of
 * plane_settings. A uid's sessions may be on several workers: its count, and the daemon's, are
 * atomic, and a session takes from both some at a time. What it has taken and does not use (at most
 * 2 * WAITS_AT_ONCE - 1) counts as used.
 *
 * Accounts are made and dropped on the control thread, by session; a worker uses its sessions'.
 */
#ifndef RDMAD_OP_WAITS_H
#define RDMAD_OP_WAITS_H

#include "daemon/base/list.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WAITS_AT_ONCE 16u

struct plane;
struct worker;
struct op_session;

struct waits_account { /* of a uid, or of all */
    struct list node;  /* in plane->waits_of_uids */
    uid_t uid;
    unsigned sessions;
    uint64_t used; /* atomic */
};

/* Control thread. NULL: out of memory. */
struct waits_account *waits_join(struct plane *p, uid_t uid);
void waits_leave(struct plane *p, struct waits_account *uid); /* harmless with NULL */

/* Worker. Whether the session may start one more: 0, or RDMAD_E_LIMIT and whose limit it is. */
int waits_room(const struct worker *w, struct op_session *s, uint64_t *whose);
void waits_ended(struct op_session *s);  /* one of them */
void waits_return(struct op_session *s); /* it has none any more: all that was taken */

#endif
