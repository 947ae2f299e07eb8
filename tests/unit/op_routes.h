/* SPDX-License-Identifier: MIT */
/*
 * op_routes.h - a client with a lease on either route, REMOTE of THERE's memory and LOCAL of a
 * neighbour's, BYTES each: what tests of how ops begin and end in a row start with. Each test
 * program that includes it has its own, and defines BYTES before.
 */
#ifndef RDMAD_TESTS_OP_ROUTES_H
#define RDMAD_TESTS_OP_ROUTES_H

#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define REMOTE RIG_HANDLE(3)
#define LOCAL RIG_HANDLE(5)

static struct rig rig;
static struct rig_client c;
static struct rig_remote remote;
static uint8_t far[BYTES], near[BYTES];
static struct fabric_audit audit;

/* settings NULL: rig_defaults. The client's pool is full of 'p'. */
static inline void routes_up(const struct plane_settings *settings, uint64_t seed,
                             uint64_t lease_ns) {
    struct plane_settings defaults;
    rig_defaults(&defaults);
    rig_up(&rig, settings ? settings : &defaults, seed);
    uint64_t deadline_ns = lease_ns == CLOCK_NEVER ? CLOCK_NEVER : sim_now() + lease_ns;
    rig_client_up(&rig, &c, 64, 128, BYTES);
    rig_remote_up(&rig, &remote, far, BYTES, RDMAD_RIGHTS_ALL, deadline_ns);
    rig_lease(&c, &remote, REMOTE, RIG_LEASE, RDMAD_RIGHTS_ALL);
    rig_lease_local(&c, LOCAL, 901, near, BYTES, RDMAD_RIGHTS_ALL, deadline_ns, &audit);
    memset(c.pool, 'p', BYTES);
}

static inline void routes_down(void) {
    rig_client_down(&c);
    rig_remote_down(&rig, &remote);
    cr_assert_eq(rig.violated, 0);
    rig_down(&rig);
}

/* No completion within that time. */
static inline void nothing_comes_for(uint64_t ns) {
    struct rdmad_cqe cqe;
    rig_run_until(&rig, sim_now() + ns);
    cr_assert_not(rig_take(&c, &cqe), "%lu came: %d", (unsigned long)cqe.user_data, cqe.status);
}

#endif
