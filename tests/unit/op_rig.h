/* SPDX-License-Identifier: MIT */
/*
 * op_rig.h - two data planes on sim's clock, turned by hand, and clients on their rings.
 *
 * Plane HERE is the lessee's daemon, plane THERE the owner's. rig_settle turns the workers until
 * nothing happens at this moment; rig_step then moves the clock to the next moment at which
 * something will. So a test sees each moment, and no test depends on the speed of the machine.
 */
#ifndef RDMAD_TESTS_OP_RIG_H
#define RDMAD_TESTS_OP_RIG_H

#include "common/sanitizer.h"
#include "daemon/op/channel/channel.h"
#include "daemon/op/engine/kind.h"
#include "daemon/op/engine/part.h"
#include "daemon/op/engine/rings.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/engine/submit.h"
#include "daemon/op/engine/validate.h"
#include "daemon/op/seam/call.h"
#include "daemon/op/turn/plane.h"
#include "daemon/op/turn/turn.h"
#include "tests/support/sim.h"

/* A count that the plain build takes in full and ASan, which is ten times slower, a fifth of. */
#ifdef SANITIZED_ADDRESS
#define RIG_COUNT(n) ((n) / 5u)
#else
#define RIG_COUNT(n) (n)
#endif

#define RIG_PEER 77u  /* who HERE is to THERE */
#define RIG_OWNER 78u /* and THERE to HERE, in traces; its name is "there" */
#define RIG_SESSION 42u
#define RIG_LEASE 900u /* what a rig_remote is of */
#define RIG_HANDLE(n) ((UINT64_C(1) << 32) | (n))

enum { HERE, THERE };

/* With RIG_SECOND in its environment a test's links are of the second of two fabrics, and whoever
 * has the first do anything for a peer ends it. So a suite that passes both ways asks nothing of a
 * fixed fabric. The worker's fabric of the rig's links: */
#define RIG_FABRIC(rig, w) (&(w)->links[(rig).fabric])

struct rig {
    struct mailbox control;
    struct plane_settings settings;
    struct plane *plane[2];
    unsigned violated, lanes_lost, faults, failed;
    unsigned throttled[PLANE_RATES]; /* how often that was told, */
    uid_t throttled_uid;             /* of whom last */
    uid_t uid;                       /* whose the next session is, */
    uint32_t tenant;                 /* and by whose socket it comes */
    uint64_t sessions;               /* made so far; the first has the number RIG_SESSION */
    unsigned fabric;                 /* of the remotes and channels that are made next */
    void *cookie;                    /* of the last event */
    struct error why;
    const void *address;
};

struct rig_answer {
    bool done;
    struct error result;
    struct fabric_blob blob;
};

struct rig_client {
    struct rig *rig;
    struct plane_session *session;
    struct ring *ring;
    int fds[RING_FDS];
    struct rdmad_ring_client *client;
    const struct rdmad_ring_daemon *daemon;
    struct rdmad_sqe *sqe;
    const struct rdmad_cqe *cqe;
    uint32_t sq_tail, cq_head;
    unsigned more_rings; /* made by rig_ring_up */
    uint8_t *pool;
    size_t pool_bytes;
};

/* A lease of a peer, from THERE's window to HERE's handle. */
struct rig_remote {
    struct plane_lane *lane;
    struct plane_window *window;
    struct fabric_audit audit;
    uint64_t deadline_ns;
    uint8_t *base;
    uint64_t length;
    struct fabric_blob key;
    uint64_t notify_ref; /* 0: the lessee may not notify */
};

void rig_defaults(struct plane_settings *settings);
void rig_up(struct rig *rig, const struct plane_settings *settings, uint64_t seed);
void rig_down(struct rig *rig);

void rig_settle(struct rig *rig);
/* To the next moment with something to do, at most limit_ns; false when limit_ns was reached. */
bool rig_step(struct rig *rig, uint64_t limit_ns);
void rig_run_until(struct rig *rig, uint64_t at_ns);

void rig_done(void *answer, const struct error *result);
void rig_blob(void *answer, const struct error *result, const struct fabric_blob *blob);
/* Steps until it is there (a test fails after a simulated minute) and returns its code. */
int rig_await(struct rig *rig, struct rig_answer *answer);

/* A session on HERE with a ring under RIG_HANDLE(0) and a pool under RIG_HANDLE(0). */
void rig_client_up(struct rig *rig, struct rig_client *c, uint32_t sq_entries, uint32_t cq_entries,
                   size_t pool_bytes);
/* One more ring of c's session, under RIG_HANDLE(1) and so on; to be dropped with the session. */
void rig_ring_up(struct rig_client *c, struct rig_client *second, uint32_t sq_entries,
                 uint32_t cq_entries);
void rig_ring_free(struct rig_client *second); /* after the session's drop */
/* The same on either plane, as an owner needs it. */
void rig_client_on(struct rig *rig, int where, struct rig_client *c, uint32_t sq_entries,
                   uint32_t cq_entries, size_t pool_bytes);
void rig_client_down(struct rig_client *c); /* drops the session and waits */
void rig_client_free(struct rig_client *c); /* after its drop was answered */

/* The number of the lane's fabric. */
unsigned rig_fabric(const struct rig *rig, const struct plane_lane *lane);
/* Makes the lane a link to THERE, instead of any that it had; returns what came of it. */
int rig_connect(struct rig *rig, struct plane_lane *lane);
/* Connects a lane and opens a window on base; rig_lease makes it a handle of a client. */
void rig_remote_up(struct rig *rig, struct rig_remote *r, void *base, uint64_t length,
                   uint32_t rights, uint64_t deadline_ns);
/* The same, and the lessee behind the window may notify, if notify is not NULL. */
void rig_remote_notifies(struct rig *rig, struct rig_remote *r, void *base, uint64_t length,
                         uint32_t rights, uint64_t deadline_ns,
                         const struct plane_window_notify *notify);
/* After the lane's link broke: another, and the window for it. rig_key then tells the lease. */
void rig_rebuild(struct rig *rig, struct rig_remote *r);
void rig_key(struct rig_client *c, const struct rig_remote *r, uint64_t handle);
void rig_break(struct rig *rig); /* all links of HERE, now */
void rig_remote_down(struct rig *rig, struct rig_remote *r);
void rig_lease(struct rig_client *c, const struct rig_remote *r, uint64_t handle, uint64_t lease_id,
               uint32_t rights);
void rig_lease_local(struct rig_client *c, uint64_t handle, uint64_t lease_id, void *base,
                     uint64_t length, uint32_t rights, uint64_t deadline_ns,
                     struct fabric_audit *audit);

/* owner may be notified of the lease. */
void rig_grant(struct rig_client *owner, uint64_t lease_id);
/* A lease of owner, who is on the same daemon, for c. */
void rig_lease_of(struct rig_client *c, uint64_t handle, uint64_t lease_id,
                  struct rig_client *owner, void *base, uint64_t length, uint32_t rights,
                  uint64_t deadline_ns, struct fabric_audit *audit);

void rig_put(struct rig_client *c, const struct rdmad_sqe *sqe);
bool rig_take(struct rig_client *c, struct rdmad_cqe *out); /* false: none is published */
/* Steps until one is there, at most a simulated minute. */
struct rdmad_cqe rig_wait(struct rig_client *c);
struct rdmad_cqe rig_do(struct rig_client *c, const struct rdmad_sqe *sqe);

#endif
