/* SPDX-License-Identifier: MIT */
/*
 * totals.h - what status and metrics both tell, gathered once. Internal to ctl/.
 */
#ifndef RDMAD_CTL_TOTALS_H
#define RDMAD_CTL_TOTALS_H

#include "daemon/ctl/call.h"
#include "daemon/state/state.h"

struct ctl_totals {
    struct {
        uint64_t sessions, pools, pool_bytes, rings, leases, attaches, services, channels;
        uint64_t peers, links, lanes_in, lanes_in_encrypted;
        uint64_t ops_inflight, fds;
    } objects;
    struct channel_totals messages; /* of all channels there ever were */
    uint64_t open_fds;              /* objects.fds and the connections to control.sock */
    uint64_t rss_bytes;
    double uptime_s;
};

struct plane_counters;

/* To be called before the handler returns. Connections to control.sock count in open_fds, but not
 * in objects.fds. */
void ctl_totals(const struct ctl_call *call, struct ctl_totals *out, struct plane_counters *plane);
/* The same without a call: objects.fds is 0. */
void ctl_totals_of(struct state *st, struct ctl_totals *out, struct plane_counters *plane);

/* The same, of what is the caller's own; nothing in it tells of others. */
void ctl_totals_own(const struct ctl_call *call, struct ctl_totals *out,
                    struct plane_counters *plane);

/* How ops of all sessions ended, or of the caller's own that are there. */
struct plane_tally;
void ctl_tally(const struct ctl_call *call, struct plane_tally *out);
void ctl_tally_own(const struct ctl_call *call, struct plane_tally *out);

#endif
