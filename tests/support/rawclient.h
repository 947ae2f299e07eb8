/* SPDX-License-Identifier: MIT */
/*
 * rawclient.h - the client socket and the rings spoken by hand, for tests that must be rude.
 *
 * Uses wire.h and ring.h only, nothing of librdmad. The raw_send/raw_recv pair sends any bytes and
 * descriptors; the calls above it speak properly, so that a test can be polite up to the point
 * where it is not. Failures of the test itself end the case; what the daemon answers is returned.
 */
#ifndef RDMAD_TEST_RAWCLIENT_H
#define RDMAD_TEST_RAWCLIENT_H

#include "tests/support/harness.h"

#include <rdmad/ring.h>
#include <rdmad/wire.h>
#include <stdbool.h>
#include <sys/types.h>

/* A connected socket, no HELLO sent. */
int raw_connect(const char *runtime_dir);

/* Returns 0 or -errno. */
int raw_send(int sock, const void *data, size_t size, const int *fds, unsigned nfds);

struct raw_packet {
    union {
        struct rdmad_msg_header header;
        uint8_t bytes[RDMAD_MSG_MAX];
    };
    size_t size; /* 0: end of file */
    int fds[RDMAD_MSG_MAX_FDS];
    unsigned nfds;
};
static inline const void *raw_body(const struct raw_packet *p) {
    return p->bytes + sizeof(p->header);
}
static inline const char *raw_text(const struct raw_packet *p) { /* of an error reply */
    return ((const struct rdmad_msg_error *)raw_body(p))->text;
}
/* The next packet, event or reply. False: nothing within timeout_ms. Descriptors are the caller's
 * (raw_drop closes them). */
bool raw_recv(int sock, struct raw_packet *out, int timeout_ms);
void raw_drop(struct raw_packet *p);

/* Fills in a well-formed request header with the next seq. */
void raw_header(struct rdmad_msg_header *h, uint16_t type, size_t body_size);
/* Sends a request and waits for its reply, skipping events. Returns the reply's status. */
int raw_request(int sock, uint16_t type, const void *body, size_t size, struct raw_packet *reply);

/* Connected and greeted. */
int raw_session(const char *runtime_dir);
/* What the daemon holds when its first session has come and gone: what that costs for good, and
 * nothing that is only about to be closed. */
json_t *raw_objects_at_rest(struct tdaemon *d);
/* Waits for end of file, throwing away what comes before; false after timeout_ms. */
bool raw_ended(int sock, int timeout_ms);
/* The next that comes says why it may not stay: code, in a sentence that has these words. */
void raw_expect_told_away(int sock, int code, const char *words);
/* Connects, and is told why it may not stay: code, in a sentence that has these words. */
void raw_expect_turned_away(const char *runtime_dir, int code, const char *words);

struct raw_pool {
    uint64_t handle;
    uint8_t *base;
    size_t bytes;
    int fd;
};
/* All of it: made, populated, sealed and ready. */
int raw_pool_create(int sock, size_t bytes, uint32_t flags, struct raw_pool *out); /* status */
/* And the steps. text (may be NULL, RDMAD_TEXT_MAX + 1) says why one was refused. */
int raw_pool_make(int sock, size_t bytes, uint32_t flags, struct raw_pool *out);
void raw_populate_and_seal(void *base, size_t bytes, int fd);
int raw_pool_ready(int sock, uint64_t pool, char *text);
void raw_pool_unmap(struct raw_pool *p);

/* Both grant and attach return the status; on failure text (RDMAD_TEXT_MAX + 1) says why. */
int raw_grant(int sock, const struct raw_pool *pool, uint64_t ttl_ns,
              struct rdmad_lease_grant_rep *out, char *text);
int raw_attach(int sock, const char *uri, struct rdmad_lease_attach_rep *out, char *text);
int raw_revoke(int sock, uint64_t lease);

struct raw_ring {
    uint64_t handle;
    struct rdmad_ring_client *client;
    const struct rdmad_ring_daemon *daemon;
    struct rdmad_sqe *sqe;
    const struct rdmad_cqe *cqe;
    size_t client_bytes, daemon_bytes;
    uint32_t sq_entries, cq_entries, sq_tail, cq_head;
    int client_fd, daemon_fd, wakeup, doorbell;
};
int raw_ring_create(int sock, uint32_t entries, struct raw_ring *out); /* status */
/* Its steps, as those of pools; make populates nothing. */
int raw_ring_make(int sock, uint32_t entries, struct raw_ring *out);
int raw_ring_ready(int sock, uint64_t ring, char *text);
void raw_ring_unmap(struct raw_ring *r);
/* Writes sqes as they are and publishes them; wakes the daemon. */
void raw_ring_put(struct raw_ring *r, const struct rdmad_sqe *sqes, unsigned count);
/* Publishes whatever tail it is told to, honest or not. */
void raw_ring_tail(struct raw_ring *r, uint32_t tail);
/* Takes the next completion; false: none within timeout_ms. */
bool raw_ring_take(struct raw_ring *r, struct rdmad_cqe *out, int timeout_ms);

#endif
