/* SPDX-License-Identifier: MIT */
/*
 * fake_daemon.h - the other end of librdmad's socket, for tests: one client, one thread, no RDMA.
 * Or, where sessions outlive it, one daemon after the other.
 *
 * It answers every request in the plainest way (pools and rings are real memfds). A test changes
 * that with hook, and plays the daemon's end of a ring itself with fake_ring_*.
 */
#ifndef RDMAD_TESTS_FAKE_DAEMON_H
#define RDMAD_TESTS_FAKE_DAEMON_H

#include <pthread.h>
#include <rdmad/ring.h>
#include <rdmad/wire.h>
#include <stdbool.h>

struct fake_ring {
    struct rdmad_ring_client *client;
    struct rdmad_ring_daemon *daemon;
    struct rdmad_sqe *sqe;
    struct rdmad_cqe *cqe;
    size_t client_bytes, daemon_bytes;
    uint32_t sq_entries, cq_entries, sq_head, cq_tail;
    int wakeup, doorbell;
    bool unready; /* atomic; the client has not said that it is ready */
};

#define FAKE_RINGS 8u
#define FAKE_POOLS 8u
#define FAKE_POOL 11u /* the first pool's handle; the next have the next */

struct fake_daemon {
    char dir[64];
    int listener, conn, stop[2];
    pthread_t thread;
    struct fake_ring rings[FAKE_RINGS]; /* in the order in which they were created */
    unsigned nrings;                    /* atomic; of those */
    struct fake_ring *ring;             /* the last one created */
    bool have_ring;                     /* atomic */
    char *pool[FAKE_POOLS];             /* the daemon's view of them */
    size_t pool_bytes[FAKE_POOLS];
    unsigned npools;
    unsigned nchannels; /* made so far */
    int lifeline;       /* what clients get for LIFELINE; 0: it has none */
    bool outlived;      /* sessions, and channels, may be resumed; set before fake_start */
    unsigned lives;     /* atomic; connections that were accepted */
    uint64_t spin_ns;   /* advice in HELLO's reply */
    uint64_t ttl_ns;    /* of leases */
    uint16_t version;   /* of what it says; 0: RDMAD_ABI_VERSION */
    /* True: it has answered (or not) by itself. Runs on the fake's thread. */
    bool (*hook)(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body);
};

void fake_start(struct fake_daemon *f);
void fake_stop(struct fake_daemon *f);

void fake_send(struct fake_daemon *f, uint16_t type, uint32_t seq, int status, const void *body,
               size_t size, const int *fds, unsigned nfds);
void fake_refuse(struct fake_daemon *f, const struct rdmad_msg_header *h, int status,
                 const char *text);
void fake_lease_ended(struct fake_daemon *f, uint64_t lease, uint64_t handle, int reason);
void fake_event(struct fake_daemon *f, uint16_t type, const void *body, size_t size);
void fake_reply(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body,
                size_t size);
/* To an attach: to a lease of 4096 bytes at a peer, for a minute; the first handle, 31, is lease
 * 7's, the next 8's. */
void fake_reply_attached(struct fake_daemon *f, const struct rdmad_msg_header *h, uint64_t handle);
void fake_hang_up(struct fake_daemon *f);
/* It cannot be connected to until it is back. fake_go: and hangs up. */
void fake_hide(struct fake_daemon *f);
void fake_go(struct fake_daemon *f);
void fake_come_back(struct fake_daemon *f);

/* Returns when the client has a ring. */
void fake_await_ring(struct fake_daemon *f);

/* Makes both memories and the wakeup; fds are the client's. */
void fake_ring_make(struct fake_ring *r, uint32_t entries, int fds[4]);
/* Waits for an entry; false after a second without. */
bool fake_ring_take(struct fake_ring *r, struct rdmad_sqe *out);
/* Whether an entry can be taken. */
bool fake_ring_has(struct fake_ring *r);
/* Publishes a completion and wakes the client if it sleeps; returns whether it did. */
bool fake_ring_complete(struct fake_ring *r, const struct rdmad_cqe *cqe);

#endif
