/* SPDX-License-Identifier: MIT */
/*
 * client_rig.h - a session with a pool, an attached lease and a ring of four entries, at a fake
 * daemon whose end of the ring the test plays.
 */
#ifndef RDMAD_TESTS_CLIENT_RIG_H
#define RDMAD_TESTS_CLIENT_RIG_H

#include "tests/unit/fake_daemon.h"
#include <rdmad/rdmad.h>

#define RIG_ENTRIES 4u

extern struct fake_daemon fake;
extern rdmad_session *s;
extern rdmad_pool *pool;
extern rdmad_lease *lease; /* of 4096 bytes; handle 31, number 7 */
extern rdmad_ring *ring;
extern char *memory; /* the pool's, 64 KiB */

void rig_set_up(void);
void rig_tear_down(void);

/* The daemon goes, and a while later there is the next. */
void rig_daemon_follows(void);
/* The next event is of that type. */
void rig_expect_event(uint32_t type);

/* Reserves and prepares a write of 64 bytes; every one has a buffer of its own. */
struct rdmad_sqe *rig_prep_write(uint64_t user_data);
/* The same, submitted. */
void rig_submit_write(uint64_t user_data);
/* The daemon's end of the ring. */
struct rdmad_sqe rig_take(void);
void rig_complete(const struct rdmad_sqe *sqe, int status);
/* Waits for a completion and gives it back, copied. */
struct rdmad_cqe rig_reap(void);
void rig_expect_nothing(void);
/* How many entries can be reserved; none stays so after the test. */
unsigned rig_free_entries(void);

/* A thread that answers every entry of every ring: with play, or done. Until rig_tear_down. */
typedef bool rig_player(struct fake_ring *r, const struct rdmad_sqe *sqe);
void rig_play(rig_player *play); /* play returns false for "done" */

#endif
