/* SPDX-License-Identifier: MIT */
/*
 * tcp_pair.h - two tcp engines in one process, for tests that drive both by hand.
 *
 * The owner has memory and windows, the lessee a link to it. Nothing moves unless a test polls, so
 * a test can stop the world in the middle of a transfer. Time is the clock plus what a test adds.
 *
 * With PAIR_ENCRYPT=1 in the environment both engines encrypt.
 */
#ifndef RDMAD_TEST_TCP_PAIR_H
#define RDMAD_TEST_TCP_PAIR_H

#include "daemon/base/clock.h"
#include "daemon/fabric/fabric.h"
#include <criterion/criterion.h>
#include <rdmad/abi.h>
#include <stdlib.h>
#include <string.h>

#define LESSEE 7u  /* the lessee's peer id at the owner */
#define STRANGE 8u /* some other peer's */

struct side {
    struct fabric *fabric;
    struct fabric_env env;
    struct fabric_settings settings;
    uint64_t skew_ns; /* added to the clock */
    unsigned up, lost, faults, completed;
    struct error why; /* of the last loss */
    const void *fault_address;
    uint64_t word;     /* with which it answers SENDs that ask */
    unsigned received; /* SENDs of peers; the last: */
    uint64_t from, number;
    size_t size;
    uint8_t message[128 << 10];
    struct fabric_landing landing; /* of a long one: behind its head in message, or at */
    uint8_t *at;
    bool nowhere;                     /* what lands is not wanted */
    unsigned landings, lost_landings; /* begun; ended without a message */
    int landed;                       /* how the last one ended */
    bool under_way;
    void (*then)(struct side *s); /* called at each; may be NULL */
};

struct top { /* an op that remembers its end */
    struct fabric_op op;
    bool done;
    void (*then)(struct top *op); /* called when done; may be NULL */
};

struct pair {
    struct side owner, lessee;
    struct fabric_link *link;
    struct fabric_window *window;
    struct fabric_window_spec spec;
    struct fabric_blob key;
    struct fabric_audit audit;
    uint8_t *memory; /* the owner's, behind the window, */
    uint8_t *local;  /* and the lessee's; both of bytes length, page-aligned */
    size_t bytes;
};

void side_open(struct side *s);
void side_close(struct side *s);
/* Engines, window of all rights over memory, link up. Settings may be changed before. */
void pair_defaults(struct pair *p, size_t bytes);
/* Before pair_start: that memory's second half is gone, touching it is SIGBUS, naming it to the
 * kernel EFAULT. The descriptor is the test's. */
int pair_halve(struct pair *p, uint8_t **memory);
void pair_start(struct pair *p);
void pair_open(struct pair *p, size_t bytes); /* both of the above */
void pair_close(struct pair *p);

unsigned pair_turn(struct pair *p); /* one poll of each side */
/* Turns until the condition holds; fails the test after ten seconds. */
#define PAIR_UNTIL(p, condition)                                                  \
    do {                                                                          \
        uint64_t until_ = clock_now_ns() + 10 * NSEC_PER_SEC;                     \
        while (!(condition)) {                                                    \
            pair_turn(p);                                                         \
            cr_assert(clock_now_ns() < until_, "%s never came true", #condition); \
        }                                                                         \
    } while (0)

/* A window of peer over the owner's memory, and a new link of the lessee. */
struct fabric_window *pair_window(struct pair *p, uint64_t peer, uint32_t rights, uint64_t offset,
                                  uint64_t length, struct fabric_blob *key);
struct fabric_link *pair_dial(struct pair *p, uint64_t peer);
/* A link that starts connecting by the offer; none when that fails at once. */
int link_dial(struct fabric *f, const char *host, const struct fabric_blob *offer,
              struct fabric_link **out, struct error *err);
extern const struct fabric_blob no_hello; /* a tcp link in clear has none */
bool pair_encrypts(void);

/* Fills op in for memory at local, window offset, key of p. */
void op_prepare(struct pair *p, struct top *op, int opcode, size_t local, uint64_t offset,
                uint64_t length);
/* A SEND of head and of length bytes at local; and 8 bytes at the window's offset. */
void send_prepare(struct pair *p, struct top *op, const void *head, uint16_t head_size,
                  size_t local, uint64_t length);
void word_prepare(struct pair *p, struct top *op, int opcode, uint64_t offset, uint64_t compare,
                  uint64_t swap);
/* Posts, turning while the link is full. */
void op_post(struct pair *p, struct top *op);
/* Posts and waits. Returns the status. */
int op_run(struct pair *p, struct top *op);

void random_fill(void *to, size_t n, uint64_t seed);
uint64_t random_next(uint64_t *state);
unsigned fd_count(void);

#endif
