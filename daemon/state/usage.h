/* SPDX-License-Identifier: MIT */
/*
 * usage.h - what each user and each peer has come to since the daemon started: sums that only grow,
 * also when sessions and links end.
 *
 * What is still there is counted where it is; when it ends, its last word is added here. So a
 * session's histogram goes with it, and what was in it stays.
 *
 * A user has an entry as long as it has sessions. The first USAGE_ROWS users keep theirs until the
 * daemon ends, and are the rows of metrics, which all others share; of the others the last
 * USAGE_IDLE whose sessions have all ended keep theirs. What was in an entry that went is in that
 * of all others. Peers have a table of a fixed size, in which the last row is all others'. A peer
 * is known by its name; only those get a row to which sessions here have a link, so nobody takes
 * rows by dialling us.
 */
#ifndef RDMAD_STATE_USAGE_H
#define RDMAD_STATE_USAGE_H

#include "daemon/base/list.h"
#include "daemon/base/user_id.h"
#include "daemon/plane/plane.h"
#include <rdmad/abi.h>
#include <stdint.h>

#define USAGE_ROWS 64u
#define USAGE_IDLE 64u

struct usage_sums {
    uint64_t ops, ops_failed, bytes_read, bytes_written;
    uint64_t failed[PLANE_CODES];   /* ops_failed, by status */
    uint64_t rebuilds, retransmits; /* of links */
};

struct usage_row {                 /* of a peer */
    char name[RDMAD_NAME_MAX + 1]; /* its */
    struct usage_sums sums;        /* of links that have ended */
};

struct usage_user {
    struct user_id who;
    char tenant[RDMAD_NAME_MAX + 1];
    unsigned row;             /* of metrics; USAGE_ROWS: that of all others */
    struct list node;         /* in usage.users */
    struct list idle_node;    /* in usage.idle: it has no sessions, and may be forgotten */
    struct list sessions;     /* those that have not said their last word, by the node of join */
    struct usage_sums sums;   /* of those that have, */
    struct histogram latency; /* and of their ops that were done */
};

struct usage {
    struct list users;                    /* of struct usage_user, as they came */
    struct list idle;                     /* the one first that went first */
    struct usage_user *named[USAGE_ROWS]; /* those that have rows */
    unsigned nusers, nidle;               /* of named; of idle */
    struct usage_user others; /* who are forgotten, or for whom there was no memory; in no list */
    struct usage_row peers[USAGE_ROWS + 1]; /* the last: all others */
    unsigned npeers;
};

void usage_init(struct usage *u);
void usage_fini(struct usage *u);

/* A session of the user begins: the user's entry, never NULL. session: in its list from now on.
 * tenant: its name; NULL or "": there is none. */
struct usage_user *usage_join(struct usage *u, struct user_id who, const char *tenant,
                              struct list *session);
/* It has ended, and this is its last word. The entry may be gone after that. */
void usage_leave(struct usage *u, struct usage_user *user, struct list *session,
                 const struct usage_sums *sums, const struct histogram *latency);

/* Its row, made if there is room: an index, USAGE_ROWS for all others. */
unsigned usage_peer(struct usage *u, const char *name);
void usage_add(struct usage_sums *to, const struct usage_sums *more);
/* What went by a link, and how often it was made anew. */
void usage_add_link(struct usage_sums *to, const struct plane_lane_stats *stats, uint64_t rebuilds);

#endif
