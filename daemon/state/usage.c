/* SPDX-License-Identifier: MIT */
/*
 * usage.c - the two tables of usage.h.
 */
#include "daemon/state/usage.h"
#include <stdio.h>
#include <string.h>

unsigned usage_user(struct usage *u, struct user_id user, const char *tenant) {
    for (unsigned i = 0; i < u->nusers; i++)
        if (user_id_same(u->users[i].user, user))
            return i;
    if (u->nusers == USAGE_ROWS)
        return USAGE_ROWS;
    struct usage_row *row = &u->users[u->nusers];
    row->user = user;
    snprintf(row->name, sizeof(row->name), "%s", tenant ? tenant : "");
    return u->nusers++;
}

unsigned usage_peer(struct usage *u, const char *name) {
    for (unsigned i = 0; i < u->npeers; i++)
        if (!strcmp(u->peers[i].name, name))
            return i;
    if (u->npeers == USAGE_ROWS)
        return USAGE_ROWS;
    snprintf(u->peers[u->npeers].name, sizeof(u->peers[0].name), "%s", name);
    return u->npeers++;
}

void usage_add(struct usage_sums *to, const struct usage_sums *more) {
    to->ops += more->ops;
    to->ops_failed += more->ops_failed;
    to->bytes_read += more->bytes_read;
    to->bytes_written += more->bytes_written;
    for (unsigned code = 0; more->ops_failed && code < PLANE_CODES; code++)
        to->failed[code] += more->failed[code];
    to->rebuilds += more->rebuilds;
    to->retransmits += more->retransmits;
}

void usage_add_link(struct usage_sums *to, const struct plane_lane_stats *stats,
                    uint64_t rebuilds) {
    struct usage_sums sums = {.ops = stats->ops,
                              .ops_failed = stats->ops_failed,
                              .bytes_read = stats->bytes_read,
                              .bytes_written = stats->bytes_written,
                              .rebuilds = rebuilds,
                              .retransmits = stats->retransmits};
    memcpy(sums.failed, stats->failed, sizeof(sums.failed));
    usage_add(to, &sums);
}
