/* SPDX-License-Identifier: MIT */
/*
 * limits.c - settings to limits. A byte limit of 0 is a share of the machine, smaller for one user
 * and for one session, so that by default nobody alone can take everything. What has no total has
 * a limit for a user nevertheless, by default that of FULL_SESSIONS sessions: otherwise one with
 * very many sessions could use up what is counted for the whole process (its descriptors) or grow
 * the tables without bound. What the kernel counts for the process and clients use up together, its
 * mappings, has a total: what the kernel allows, less a quarter for ourselves.
 */
#include "daemon/state/limits.h"
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define FULL_SESSIONS 64u
#define REGISTERED_TIMES 16u
#define FEW 2u /* that each of a user's sessions may have in any case */

static uint64_t machine_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/* Where /proc/sys cannot be seen, what the kernel's default is. */
static uint64_t machine_mappings(void) {
    uint64_t count = 65530;
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
    if (f && fscanf(f, "%" SCNu64, &count) != 1)
        count = 65530;
    if (f)
        fclose(f);
    return count / 4 * 3;
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

static void limit_objects(struct quota_limits *l, enum quota_resource r, uint64_t session,
                          uint64_t uid) {
    uint64_t full = session * FULL_SESSIONS, few = l->uid[QUOTA_SESSIONS] * FEW;
    l->session[r] = session;
    l->uid[r] = or_else(uid, full > few ? full : few);
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

    uint64_t carried = machine_mappings(), mappings = or_else(c->max_mappings, carried);
    out->total[QUOTA_MAPPINGS] = mappings < carried ? mappings : carried;
    out->uid[QUOTA_MAPPINGS] = or_else(c->max_mappings_uid, out->total[QUOTA_MAPPINGS] / 4);

    out->total[QUOTA_SESSIONS] = c->max_sessions;
    out->uid[QUOTA_SESSIONS] = c->max_sessions_uid;
    limit_objects(out, QUOTA_POOLS, c->max_pools_session, c->max_pools_uid);
    limit_objects(out, QUOTA_RINGS, c->max_rings_session, c->max_rings_uid);
    limit_objects(out, QUOTA_LEASES, c->max_leases_session, c->max_leases_uid);
    limit_objects(out, QUOTA_ATTACHES, c->max_attaches_session, c->max_attaches_uid);
    limit_objects(out, QUOTA_SERVICES, c->max_services_session, c->max_services_uid);
    limit_objects(out, QUOTA_CHANNELS, c->max_channels_session, c->max_channels_uid);
    limit_objects(out, QUOTA_QUESTIONS, c->max_questions_session, c->max_questions_uid);
}

int limits_check(const struct config *c, const struct quota_limits *limits, struct error *err) {
    uint64_t total = limits->total[QUOTA_MAPPINGS], uid = limits->uid[QUOTA_MAPPINGS];
    uint64_t session = c->max_pools_session + 2 * c->max_rings_session;
    if (c->max_mappings > total || c->max_mappings_uid > total)
        return error_set(err, RDMAD_E_LIMIT,
                         "limits.mappings is %" PRIu64 " and limits.mappings_per_uid %" PRIu64
                         ", but this machine gives a process %" PRIu64
                         " for pools and rings; raise vm.max_map_count to a third more than that "
                         "is to be",
                         c->max_mappings, c->max_mappings_uid, total);
    if (session > uid)
        return error_set(err, RDMAD_E_LIMIT,
                         "%" PRIu64 " pools and %" PRIu64 " rings of one session take %" PRIu64
                         " mappings, but one user may have %" PRIu64
                         "; lower limits.pools_per_session or raise vm.max_map_count",
                         c->max_pools_session, c->max_rings_session, session, uid);
    return 0;
}
