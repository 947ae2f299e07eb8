/* SPDX-License-Identifier: MIT */
/*
 * away_rig.h - client_rig.h's session, with a channel, at a fake daemon that goes and comes back.
 */
#ifndef RDMAD_TESTS_AWAY_RIG_H
#define RDMAD_TESTS_AWAY_RIG_H

#include "tests/unit/client_rig.h"

#define AWAY_URI "rdmad://127.0.0.1:1/service"
#define AWAY_RECEIVES 16384u /* where their buffers begin */
#define AWAY_IMPORTED 71u    /* and how many daemons there were: pools that are taken in */

/* What the fake daemon does not do, or has seen. */
struct away {
    int refuse_proof, refuse_resume, refuse_session, refuse_service, refuse_keepalive;
    bool weak, go_for_proof;
    bool go_for_ring;    /* once, and is followed at once */
    bool go_for_pool;    /* once it has taken one in, the same */
    int end_for_pool;    /* once, as one is brought back: how it ends the session; the same */
    uint16_t leaves_for; /* once: as a daemon refuses it that is drained */
    uint16_t short_for;  /* short_times: it is out of memory then */
    unsigned short_times;
    uint16_t slow_type; /* answered when it may be; until then other things are said */
    bool released;      /* atomic; it may be */
    uint32_t peer_flags;
    struct rdmad_channel_resume_req asked[4];
    struct rdmad_channel_close_req closed;
    struct rdmad_service_close_req service_closed;
    uint64_t pool_destroyed;
    unsigned nasked, nclosed, nproofs, nservice_closes, nimports, npool_ends; /* atomic */
};
extern struct away away;
extern rdmad_channel *channel; /* number 41 */

void away_set_up(void); /* and rig_tear_down */
unsigned away_count_of(const unsigned *count);
void away_await(const unsigned *count, unsigned value);

/* The newest ring, as the daemon has it. */
struct fake_ring *away_newest(void);
struct rdmad_sqe away_take(void);
void away_answer(const struct rdmad_sqe *sqe, int status, int outcome);

/* Every user_data has a buffer of its own. */
struct rdmad_sqe *away_prep_recv(uint64_t user_data);
void away_submit_recv(uint64_t user_data);
void away_submit_send(uint64_t user_data);
void away_expect_end(uint64_t user_data, int status, int outcome);

struct rdmad_event away_next_event(void);
void away_await_resumed(void);
/* The daemon goes, and nothing has completed when all that is known of the ring's ops is settled.
 */
void away_go(void);
/* It is back, and so is the ring. */
void away_come_back(void);
/* The daemon goes. call has little patience, and the next daemon is too slow to answer slow_type.
 */
void away_without_patience(uint16_t slow_type, void *(*call)(void *), void *arg);

#endif
