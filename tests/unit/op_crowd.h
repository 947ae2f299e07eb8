/* SPDX-License-Identifier: MIT */
/*
 * op_crowd.h - users with many sessions, which keep the workers of a rig busy with ops of one kind,
 * and what each user got.
 *
 * All that is counted is counted in turns and on the scripted clock, so no test that stands on it
 * depends on the speed of the machine.
 */
#ifndef RDMAD_TESTS_UNIT_OP_CROWD_H
#define RDMAD_TESTS_UNIT_OP_CROWD_H

#include "tests/unit/op_rig.h"

#define BYTES (1u << 20)
#define REMOTE RIG_HANDLE(3)
#define LOCAL RIG_HANDLE(5)
#define RINGS 32u /* 64 would need more descriptors than many machines allow */
#define DEPTH 64u
#define ALICE 1001u
#define BOB 1002u

/* A session, which keeps its ring full of ops of some sizes; and its further rings. */
struct source {
    struct rig_client c, ring[RINGS];
    unsigned rings; /* besides the first */
};
/* A user's sessions, which all do the same. What they move locally is counted as it moves. */
struct crowd {
    struct source *of;
    unsigned sessions;
    uint8_t opcode;
    uint64_t lease;
    uint64_t size[4];
    unsigned sizes;
    unsigned at_once; /* ops in a ring; 0: as many as fit */
    bool stopped;
    struct fabric_audit *audit; /* of its local leases */
};

extern struct crowd alice, bob;
extern struct rig rig;
extern struct rig_remote remote;
extern uint8_t far[BYTES];

/* From now on alice and bob have one uid, and come by the sockets of two tenants. */
void crowds_are_tenants(void);
struct user_id crowd_user(uid_t uid); /* who alice, or bob, is */

/* A rig with so many workers, a remote lease (REMOTE, where there is one worker) and nobody yet. */
void crowds_up(unsigned workers);
void crowds_down(void); /* alice's, bob's, and the rig */

void crowd_up(struct crowd *crowd, uid_t uid, unsigned sessions, unsigned rings);
void crowd_does(struct crowd *crowd, uint8_t opcode, uint64_t lease, uint64_t size);
void crowd_fill(const struct crowd *crowd);
void crowd_down(struct crowd *crowd);

/* Alice with a weight of three times bob's, and both do the same. */
void both(unsigned of_alice, unsigned of_bob, uint8_t opcode, uint64_t lease, uint64_t size);
/* Holds for who is there, and is told again with each crowd_up of that user. */
void set_share(uid_t uid, uint32_t weight, int priority, uint64_t bytes, uint64_t ops);
void forget_share(uid_t uid); /* it is not told again */

/* Turns the workers while everybody has more to do than there is time for. */
void saturate(unsigned turns);

struct done {
    double ops, bytes;
};
struct done session_done(const struct source *s);
struct done crowd_done(const struct crowd *crowd);
/* What alice got for each that bob got in RIG_COUNT(turns), after both have begun. */
struct done ratio_of(unsigned turns);
void is_about(double ratio, double wanted);

#endif
