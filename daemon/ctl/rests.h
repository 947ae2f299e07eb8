/* SPDX-License-Identifier: MIT */
/*
 * rests.h - how much of the control thread goes to callers: each uid has half of it at most,
 * however many connections it has and whatever they ask for. Internal to ctl/.
 *
 * What a uid's calls took it owes to everybody else, until none of its calls was served for as
 * long. Who owes more than REST_BEYOND_NS rests, on all of its connections; that goes on when these
 * have gone and others have come. Only the thread's own time is owed: that other programs have the
 * processor is nobody's doing here. As in base/send_cost.h, even that may be wrong, so nobody rests
 * longer than REST_MOST_NS.
 */
#ifndef RDMAD_CTL_RESTS_H
#define RDMAD_CTL_RESTS_H

#include "daemon/base/clock.h"
#include <sys/types.h>

#define REST_BEYOND_NS (2 * NSEC_PER_MSEC)
#define REST_MOST_NS NSEC_PER_SEC
#define RESTS_MAX 16u /* uids: as many as there are connections */

struct uid_rest {
    uid_t uid;
    unsigned conns;
    uint64_t paid_ns; /* when it will owe nothing any more */
};

struct rests { /* all zero at first */
    struct uid_rest of[RESTS_MAX];
};

/* A connection comes and goes; at most RESTS_MAX are there. */
struct uid_rest *rests_join(struct rests *r, uid_t uid);
void rests_leave(struct uid_rest *u);
/* For how long it rests, from now on. */
uint64_t rests_left_ns(const struct uid_rest *u, uint64_t now_ns);
/* A connection of it was served from began_ns until now, and that took so much of the thread's own
 * time. */
void rests_took(struct uid_rest *u, uint64_t began_ns, uint64_t now_ns, uint64_t took_ns);

#endif
