/* SPDX-License-Identifier: MIT */
/*
 * lane.h - how our workers reach a peer's memory and channels.
 */
#ifndef RDMAD_PEER_LANE_LANE_H
#define RDMAD_PEER_LANE_LANE_H

#include "daemon/peer/control/record.h"
#include "daemon/peer/peer.h"
#include "daemon/state/session.h"

/* What fails is tried again after a pause that doubles from the first to the second. */
#define PEER_RETRY_MIN_NS (10 * NSEC_PER_MSEC)
#define PEER_RETRY_MAX_NS NSEC_PER_SEC
/* When a link breaks that was up for so long, the pause is the shortest again. */
#define PEER_STEADY_NS NSEC_PER_SEC
/* A lane without users stays for the next attach: long enough that short leases do not cost a link
 * each, short enough that what a client's end gives back is back within a second. */
#define PEER_LANE_IDLE_NS (500 * NSEC_PER_MSEC)

/* The pause after this one. */
static inline uint64_t lane_pause_after(uint64_t pause_ns) {
    return 2 * pause_ns < PEER_RETRY_MAX_NS ? 2 * pause_ns : PEER_RETRY_MAX_NS;
}

struct lane;
enum lane_event {
    LANE_IS_UP,   /* it has a link */
    LANE_IS_DOWN, /* the link is being made anew */
    LANE_REFUSED, /* no link can be had, now and later */
};
struct lane_user { /* embedded */
    struct list node;
    void (*told)(struct lane_user *u, enum lane_event event); /* may make it leave */
    bool is_channel;
};
/* The session's lane to that worker of the peer (PEER_ANY_WORKER: the one that has its leases),
 * made if there is none. What it holds at a device for messages is charged to the session's user,
 * until it is gone, whoever uses it then. A user joins a lane, waits until it is up, and uses it;
 * lane_join may call told at once. NULL: err says why not. */
struct lane *lane_of(struct peer *p, struct session *s, uint32_t there, struct error *err);
void lane_join(struct lane *lane, struct lane_user *u);
void lane_leave(struct lane *lane, struct lane_user *u);
/* The peer has granted a lease to reach by it. A link that it refused because it had none, as a
 * daemon that has just begun, is asked for at once. */
void lane_relied_on(struct lane *lane);
struct plane_lane *lane_plane(const struct lane *lane);
/* The number of its link, 0 while it has none. */
uint64_t lane_number(const struct lane *lane);
/* The same for the session's lane for leases, which it need not have. */
uint64_t lane_number_for(struct peer *p, const struct session *s);
/* What went wrong with it last; code 0: nothing so far. */
const struct error *lane_trouble(const struct lane *lane);
/* What does not answer, in words, while it has no link and nothing went wrong; "": not known. */
const char *lane_silent(const struct lane *lane);
/* Its link is of no use any more, though here it is not broken: a new one is made. */
void lane_renew(struct lane *lane, const struct error *why);
void lane_take_link_rep(struct peer *p, const struct peer_msg *msg);
/* Nothing more is posted on the links of p's lanes. */
void lanes_rest(struct peer *p);
/* Whether that is so, and nothing posted is left. */
bool lanes_are_still(struct peer *p);
/* p is lost: its lanes end, but those that leases still use wait for it to come back. */
void lanes_lose(struct peer *p);
/* It has, as p: the lane is p's now, and gets a link. An error: it cannot be, as p talks over
 * another fabric. Harmless when it is p's already. */
int lane_return(struct lane *lane, struct peer *p, struct error *err);
void lanes_each(struct peer *p, void (*each)(void *arg, const struct link_view *v), void *arg);

#endif
