/* SPDX-License-Identifier: MIT */
/*
 * verbs_pair.h - two verbs fabrics in one process, on two devices, for tests that drive both by
 * hand, in a guest with rxe0 and rxe1 over the cable va - vb (tests/vm).
 *
 * The owner has memory and a window, the lessee a link to it. Nothing moves unless a test polls,
 * but what the device has, the device goes on with. Time is the clock plus what a test adds.
 */
#ifndef RDMAD_TEST_VERBS_PAIR_H
#define RDMAD_TEST_VERBS_PAIR_H

#include "daemon/base/clock.h"
#include "daemon/fabric/fabric.h"
#include <criterion/criterion.h>
#include <rdmad/abi.h>
#include <stdlib.h>
#include <string.h>

#define LESSEE 7u /* the lessee's peer id at the owner */
#define VPAIR_DEPTH 256u

struct vside {
    struct fabric_host *host;
    struct fabric *fabric;
    struct fabric_env env;
    struct fabric_settings settings;
    struct fabric_memory *memory;
    uint8_t *base; /* memory's, page-aligned */
    uint64_t skew_ns;
    unsigned up, lost, faults, completed;
    struct error why; /* of the last loss */
    const void *fault_address;
    bool in_lost; /* inside link_lost */
    unsigned messages;
    uint64_t word; /* with which it answers those that ask */
    void (*received)(struct vside *s, uint64_t number, const uint8_t *bytes, size_t size);
};

struct vop { /* an op that remembers its end */
    struct fabric_op op;
    bool done;
    void (*then)(struct vop *op);
    void *context;
};

struct vwindow {
    struct fabric_window *window;
    struct fabric_window_spec spec;
    struct fabric_blob key;
    struct fabric_audit audit;
    bool opened, closed;
    struct error err;
};

struct vpair {
    struct vside owner, lessee;
    struct fabric_link *link;
    struct vwindow window; /* over all of the owner's memory, for link */
    size_t bytes;          /* of memory on each side */
};

/* Hosts, instances, memory, link up, window. Settings may be changed between the two. */
void vpair_defaults(struct vpair *p, size_t bytes);
void vpair_start(struct vpair *p);
void vpair_open(struct vpair *p, size_t bytes); /* both of the above */
void vpair_close(struct vpair *p);

unsigned vpair_turn(struct vpair *p); /* one poll of each side */
#define VPAIR_UNTIL(p, condition)                                                 \
    do {                                                                          \
        uint64_t until_ = clock_now_ns() + 60 * NSEC_PER_SEC;                     \
        while (!(condition)) {                                                    \
            vpair_turn(p);                                                        \
            cr_assert(clock_now_ns() < until_, "%s never came true", #condition); \
        }                                                                         \
    } while (0)

/* A link of the lessee to the owner; vpair_try_dial fails where that fails, with why. */
struct fabric_link *vpair_dial(struct vpair *p);
int vpair_try_dial(struct vpair *p, struct fabric_link **out, struct error *err);
/* A window for the link of that number. */
void vpair_window(struct vpair *p, struct vwindow *w, uint64_t via, uint32_t rights,
                  uint64_t offset, uint64_t length);
void vpair_unwindow(struct vpair *p, struct vwindow *w);

/* Fills op in for memory at local, window offset, key of p. */
void vop_prepare(struct vpair *p, struct vop *op, int opcode, size_t local, uint64_t offset,
                 uint64_t length);
void vop_post(struct vpair *p, struct vop *op); /* turning while the link is full */
int vop_run(struct vpair *p, struct vop *op);   /* posts and waits; returns the status */

void fill(void *to, size_t n, uint64_t seed); /* pseudo-random bytes */
void must_run(const char *format, ...) __attribute__((format(printf, 1, 2))); /* a command */
unsigned fds_open(void);

#endif
