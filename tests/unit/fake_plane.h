/* SPDX-License-Identifier: MIT */
/*
 * fake_plane.h - a data plane that only takes notes: the test reads what was asked of it and gives
 * each answer when it wants to, in any order.
 */
#ifndef RDMAD_TESTS_FAKE_PLANE_H
#define RDMAD_TESTS_FAKE_PLANE_H

#include "daemon/plane/plane.h"

enum fake_kind {
    FAKE_SESSION_DROP,
    FAKE_SESSION_PAUSE, /* number: 1 to pause, 0 to resume */
    FAKE_SESSION_ALIVE,
    FAKE_RING_ADD,
    FAKE_RING_DROP,
    FAKE_POOL_ADD,
    FAKE_POOL_DROP,
    FAKE_LEASE_ADD,
    FAKE_LEASE_EXTEND,
    FAKE_LEASE_RETURN, /* peer_number: its notify_ref */
    FAKE_LEASE_KEY,
    FAKE_LEASE_END,
    FAKE_LEASE_FORGET,
    FAKE_LANE_NEW,
    FAKE_LANE_HELLO,
    FAKE_LANE_OPEN,
    FAKE_LANE_REST,
    FAKE_LANE_UNLINK,
    FAKE_LANE_DROP,
    FAKE_OFFER,
    FAKE_FORGET,
    FAKE_EXPEL,
    FAKE_WINDOW_OPEN,
    FAKE_WINDOW_REOPEN,
    FAKE_WINDOW_EXTEND,
    FAKE_WINDOW_CLOSE,
    FAKE_GRANT_ADD,
    FAKE_GRANT_DROP,
    FAKE_CHANNEL_ADD,
    FAKE_CHANNEL_OPEN,
    FAKE_CHANNEL_REST,
    FAKE_CHANNEL_WAY,
    FAKE_CHANNEL_END,
    FAKE_CHANNEL_FORGET,
};

#define FAKE_DATAGRAM 920u /* bytes, of every lane that is up */

struct fake_call {
    enum fake_kind kind;
    uint64_t number; /* handle, worker, peer or via */
    unsigned fabric; /* of a lane, an offer, a window, what is forgotten or expelled */
    bool secured;    /* of a lane or an offer */
    const void *object;
    void *cookie; /* of a lane */
    int reason;
    uint32_t count; /* of notifications */
    uint64_t deadline_ns;
    struct plane_lease_spec spec;
    struct fabric_blob blob; /* hello, offer or key */
    struct fabric_memory *memory;
    struct fabric_window_spec window;
    struct plane_window_notify notify; /* ref 0: the window has none */
    struct plane_channel_spec channel;
    uint64_t peer_number;                  /* of a channel's other end, or a lease's owner */
    const struct plane_session *other_end; /* likewise; NULL: at a peer */
    bool linger;
    bool pending; /* an answer is owed */
    plane_done *done;
    plane_blob_done *blob_done;
    void *arg;
};

void fake_reset(void);
/* How many calls of that kind there were, and how many of them still wait for an answer. */
unsigned fake_count(enum fake_kind kind);
unsigned fake_pending(enum fake_kind kind);
/* The nth call of that kind; negative counts from the last. NULL when there is none. */
struct fake_call *fake_call(enum fake_kind kind, int nth);
/* The nth of those that a plane could answer next, or the last of them: calls about one object are
 * answered in the order made. NULL: none waits. */
struct fake_call *fake_next(unsigned nth);
/* Gives the answer that the call waits for. A lane that is told to be open gets the next number,
 * from 1 on; the nth blob given out says "blob" and n. */
void fake_answer(struct fake_call *call, int code);
/* Answers everything that waits, in the order asked, also what those answers ask. */
void fake_answer_all(void);

/* Every link has number 1, as those of tcp. */
extern bool fake_one_number;

/* plane_grant_add and plane_grant_drop answer at once, as they do after fake_reset. */
extern bool fake_grants_at_once;

/* So many ops of the session are done, and took so long each. Until its drop is answered. */
void fake_session_did(struct plane_session *s, uint64_t span_ns, uint64_t ops);

/* What links can be of; {&fake_fabric} after fake_reset. */
extern const struct fabric_ops *fake_fabrics[PLANE_FABRICS_MAX];
extern const struct fabric_ops fake_fabric; /* "fake" */

/* What fake_fabric says of its atomics; true after fake_reset. */
extern bool fake_atomics_are_cpus;

/* An op of the session fails. True: the data plane now tells so, by events.session_failed, which is
 * the test's to call. */
bool fake_fail(struct plane_session *s, const struct plane_failure *f);
extern unsigned fake_looks; /* calls of plane_session_hear_failures */

/* The share that plane_user_share or plane_peer_share were told last, and whose. */
extern struct plane_share fake_share;
extern uint64_t fake_share_of;

/* What plane_memory_add does: how much memory is known to the devices, and the error it shall give
 * (0: none). On any thread. */
extern unsigned fake_memories;
extern int fake_memory_error;

extern unsigned fake_workers;   /* how many there are */
extern bool fake_worker_stands; /* number 1 of them does not turn */
extern unsigned fake_questions; /* whether a worker turns */

#endif
