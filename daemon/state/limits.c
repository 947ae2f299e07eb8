/* SPDX-License-Identifier: MIT */
/*
 * limits.c - settings to limits. A byte limit of 0 is a share of the machine, smaller for one user
 * and for one session, so that by default nobody alone can take everything. What has a limit for a
 * session only is limited for a user too, by that of FULL_SESSIONS sessions: otherwise one with
 * very many sessions could use up what is counted for the whole process (its mappings, 65530 by
 * default, its descriptors) or grow the tables without bound.
 */
#include "daemon/state/limits.h"
#include <unistd.h>

#define FULL_SESSIONS 64u
#define REGISTERED_TIMES 16u
#define FEW 2u /* that each of a user's sessions may have in any case */

static uint64_t machine_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

static uint64_t or_else(uint64_t value, uint64_t otherwise) {
    return value ? value : otherwise;
}

/* A device may pin or map a leased range once for each lessee, on top of the pool itself. */
static uint64_t registered(uint64_t configured, uint64_t pool_bytes) {
    uint64_t sum;
    if (__builtin_mul_overflow(pool_bytes, REGISTERED_TIMES, &sum))
        sum = UINT64_MAX;
    return or_else(configured, sum);
}

static void limit_uid(struct quota_limits *l, enum quota_resource r) {
    uint64_t full = l->session[r] * FULL_SESSIONS, few = l->uid[QUOTA_SESSIONS] * FEW;
    l->uid[r] = full > few ? full : few;
}

void limits_of(const struct config *c, struct quota_limits *out) {
    for (int r = 0; r < QUOTA_COUNT; r++)
        out->total[r] = out->uid[r] = out->session[r] = UINT64_MAX;

    uint64_t bytes = or_else(c->max_pool_bytes, machine_bytes() / 2);
    out->total[QUOTA_BYTES] = bytes;
    out->uid[QUOTA_BYTES] = or_else(c->max_pool_bytes_uid, bytes / 4 * 3);
    out->session[QUOTA_BYTES] = or_else(c->max_pool_bytes_session, bytes / 2);

    out->total[QUOTA_REGISTERED] = registered(c->max_registered_bytes, out->total[QUOTA_BYTES]);
    out->uid[QUOTA_REGISTERED] = registered(c->max_registered_bytes_uid, out->uid[QUOTA_BYTES]);
    out->session[QUOTA_REGISTERED] =
        registered(c->max_registered_bytes_session, out->session[QUOTA_BYTES]);

    out->total[QUOTA_SESSIONS] = c->max_sessions;
    out->uid[QUOTA_SESSIONS] = c->max_sessions_uid;
    out->session[QUOTA_POOLS] = c->max_pools_session;
    out->session[QUOTA_RINGS] = c->max_rings_session;
    out->session[QUOTA_LEASES] = c->max_leases_session;
    out->session[QUOTA_ATTACHES] = c->max_attaches_session;
    out->session[QUOTA_SERVICES] = c->max_services_session;
    out->session[QUOTA_CHANNELS] = c->max_channels_session;
    limit_uid(out, QUOTA_POOLS);
    limit_uid(out, QUOTA_RINGS);
    limit_uid(out, QUOTA_LEASES);
    limit_uid(out, QUOTA_ATTACHES);
    limit_uid(out, QUOTA_SERVICES);
    limit_uid(out, QUOTA_CHANNELS);
}
