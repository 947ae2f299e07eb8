/* SPDX-License-Identifier: MIT */
/*
 * owner_steps.h - a session of ours with a lease, to which peers played by the test on raw sockets
 * attach. Each test program that includes it has its own. (lessee_steps.h is the other side.)
 */
#ifndef RDMAD_TEST_OWNER_STEPS_H
#define RDMAD_TEST_OWNER_STEPS_H

#include "tests/unit/peer_rig.h"
#include <criterion/criterion.h>
#include <string.h>

static struct session *owner;
static struct lease *lease;

static inline void owner_up(unsigned max_peers) {
    peer_rig_up();
    rig.config.max_peers = max_peers;
    owner = rig_session(1);
    lease = rig_grant(owner, 3600000);
}

static inline void owner_down(void) {
    rig_close(owner);
    rig_advance(rig.config.lease_revoke_grace_ms * MS);
    fake_answer_all();
    quiet();
    fake_answer_all();
    peer_rig_down();
}

/* r holds our lease. */
static inline void attach(struct raw *r) {
    raw_attach(r, lease, 5, 3);
}

#endif
