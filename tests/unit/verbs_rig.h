/* SPDX-License-Identifier: MIT */
/*
 * verbs_rig.h - an instance of the verbs fabric turned by hand, and an initiator made of bare verbs
 * that does what no daemon of ours would: for tests in the guest.
 *
 * The owner is on rxe0, the raw initiator on rxe1. What fails ends the case.
 */
#ifndef RDMAD_TEST_VERBS_RIG_H
#define RDMAD_TEST_VERBS_RIG_H

#include "daemon/base/clock.h"
#include "daemon/fabric/verbs/instance/qp.h"
#include "tests/support/runner.h"
#include <limits.h>

#define PEER 7u
#define OTHER_PEER 8u

struct side {
    struct fabric_settings settings;
    struct fabric_env env;
    struct fabric_host *host;
    struct fabric *fabric;
    uint64_t skew_ns; /* added to the clock */
    unsigned up, lost, completed, messages;
    uint64_t message_bytes;
    void (*received)(struct side *s); /* NULL, or called for each message */
    struct error why;                 /* of the last loss */
};

/* rxe0 or rxe1; settings may be changed between the two. */
void side_defaults(struct side *s, const char *device);
void side_open(struct side *s);
void side_close(struct side *s);
void side_turn(struct side *s);
#define SIDE_UNTIL(s, condition)                                              \
    do {                                                                      \
        uint64_t until_ = clock_now_ns() + 20 * NSEC_PER_SEC;                 \
        while (!(condition)) {                                                \
            side_turn(s);                                                     \
            CHECK(clock_now_ns() < until_, "%s never came true", #condition); \
        }                                                                     \
    } while (0)

/* A window and what was told of it. */
struct wnd {
    struct fabric_window *window;
    struct fabric_blob blob;
    struct verbs_key key;
    struct error err;
    unsigned opened, failed, closed;
    struct fabric_audit audit;
};
struct range {
    uint8_t *base;
    uint64_t length;
    uint32_t rights;
    uint64_t via, owner;
    struct fabric_memory *memory;
};
/* Returns what window_open did; wnd_open waits, and it must go well. */
int wnd_ask(struct side *s, struct wnd *w, uint64_t peer, const struct range *r);
void wnd_open(struct side *s, struct wnd *w, uint64_t peer, const struct range *r);
void wnd_close(struct side *s, struct wnd *w); /* and waits */

/* An initiator of bare verbs. */
struct raw {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint8_t *buffer;
    size_t bytes;
    uint8_t gid_index, gid[16];
    unsigned lanes;
    struct ibv_qp *qp[VERBS_LANES_MAX];
    uint64_t number;          /* of the connection, at the target */
    struct inbox_place inbox; /* and where it takes messages */
};
void raw_open(struct raw *r, const char *device, size_t bytes);
void raw_close(struct raw *r);
/* A hello with new QPs; old ones are destroyed first. */
void raw_hello(struct raw *r, unsigned lanes, struct verbs_hello *out);
/* Hello, offer, connected. The second only returns what offer did. */
void raw_connect(struct raw *r, struct side *s, uint64_t peer, unsigned lanes);
int raw_try(struct raw *r, struct side *s, uint64_t peer, unsigned lanes, struct error *err);
void raw_hang_up(struct raw *r); /* destroys its QPs, tells nobody */
/* One access from the buffer's start to offset from the window's first byte. */
enum ibv_wc_status raw_access(struct raw *r, unsigned lane, enum ibv_wr_opcode opcode,
                              const struct verbs_key *key, int64_t offset, uint32_t length);
/* Posts without waiting; true when it was taken. */
bool raw_post(struct raw *r, unsigned lane, enum ibv_wr_opcode opcode, const struct verbs_key *key,
              int64_t offset, uint32_t length);
/* Requests a receiver of weak messages as a daemon's link does, or with so few bytes as none does.
 */
void raw_request_weak(struct raw *r, uint32_t kind, uint32_t qp_num, uint32_t bytes);

uint8_t *map_pages(size_t bytes);

/* What the kernel has of a device, of all processes. */
struct resources {
    unsigned pd, cq, qp, cm_id, mr;
};
struct resources resources_of(const char *device);
#define ANY_CQ UINT_MAX /* as cq of what is expected: an instance keeps CQs for a while */
void expect_resources(const char *device, const struct resources *before);
int shell(const char *command);

#endif
