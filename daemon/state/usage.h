/* SPDX-License-Identifier: MIT */
/*
 * usage.h - what each user and each peer has come to since the daemon started: sums that only grow,
 * also when sessions and links end.
 *
 * What is still there is counted where it is; when it ends, its last word is added here. A table is
 * of a fixed size: the first USAGE_ROWS users and peers have a row each, all others share one. A
 * peer is known by its name; only those get a row to which sessions here have a link, so nobody
 * takes rows by dialling us.
 */
#ifndef RDMAD_STATE_USAGE_H
#define RDMAD_STATE_USAGE_H

#include "daemon/base/user_id.h"
#include "daemon/plane/plane.h"
#include <rdmad/abi.h>
#include <stdint.h>

#define USAGE_ROWS 64u

struct usage_sums {
    uint64_t ops, ops_failed, bytes_read, bytes_written;
    uint64_t failed[PLANE_CODES];   /* ops_failed, by status */
    uint64_t rebuilds, retransmits; /* of links */
};

struct usage_row {
    struct user_id user;           /* of a user */
    char name[RDMAD_NAME_MAX + 1]; /* of a user's tenant, or of a peer */
    struct usage_sums sums;        /* of what has ended */
};

struct usage {                                                     /* zero-initialised */
    struct usage_row users[USAGE_ROWS + 1], peers[USAGE_ROWS + 1]; /* the last: all others */
    unsigned nusers, npeers;
};

/* Its row, made if there is room: an index, USAGE_ROWS for all others. tenant: its name; NULL or
 * "": there is none. */
unsigned usage_user(struct usage *u, struct user_id user, const char *tenant);
unsigned usage_peer(struct usage *u, const char *name);
void usage_add(struct usage_sums *to, const struct usage_sums *more);
/* What went by a link, and how often it was made anew. */
void usage_add_link(struct usage_sums *to, const struct plane_lane_stats *stats, uint64_t rebuilds);

#endif
