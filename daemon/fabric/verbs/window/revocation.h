/* SPDX-License-Identifier: MIT */
/*
 * revocation.h - a right that must be taken back from the device, until it is.
 */
#ifndef RDMAD_FABRIC_VERBS_WINDOW_REVOCATION_H
#define RDMAD_FABRIC_VERBS_WINDOW_REVOCATION_H

#include "daemon/fabric/verbs/target/target.h"

struct revocation {
    struct offload_job job;
    struct list retry; /* in windows.retries */
    uint64_t at_ns;
    unsigned tries;
    int failed; /* errno of the last try */
    struct vpeer *peer;
    uint64_t lease_id;
    int (*take)(struct revocation *r);   /* on the revoker: 0 or an errno */
    void (*taken)(struct revocation *r); /* on the worker; may free it */
};

/* take and taken are set, and the job's owner. */
void revocation_start(struct revocation *r, struct vpeer *p, uint64_t lease_id);
void revocations_timers(struct verbs *v); /* what could not be taken back is tried again */
/* Whether all jobs under way are of rights that the device has refused to take back. */
bool revocations_stuck(const struct verbs *v);

#endif
