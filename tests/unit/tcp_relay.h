/* SPDX-License-Identifier: MIT */
/*
 * tcp_relay.h - somebody between two engines: he reads all that passes, and may change it.
 */
#ifndef RDMAD_TEST_TCP_RELAY_H
#define RDMAD_TEST_TCP_RELAY_H

#include "tests/unit/tcp_pair.h"

enum { RELAY_TO_TARGET, RELAY_TO_LINK };

struct relay {
    int listener, fd[2]; /* of the link's end, of the target's */
    uint16_t port;       /* the target's */
    uint8_t *seen[2];    /* all that came, by its way, */
    size_t size[2];
    size_t passed[2]; /* and how much of that went on */
    bool held[2];     /* nothing goes on that way */
    /* Called before bytes of seen from `from` on go on; may change them. Returns how many do, and
     * the rest is dropped. May be NULL. */
    size_t (*meddle)(struct relay *r, int way, uint8_t *bytes, size_t n);
    uint64_t arg;
    bool cut; /* by who meddles: both connections are closed */
};

/* Makes the offer lead to the relay, and the relay to where the offer led. */
void relay_start(struct relay *r, struct fabric_blob *offer);
void relay_turn(struct relay *r);
void relay_stop(struct relay *r);
/* Whether n bytes occur in what was seen. */
bool relay_saw(const struct relay *r, const void *bytes, size_t n);

/* Turns of both engines and the relay until the condition holds; fails after ten seconds. */
#define RELAY_UNTIL(r, p, condition)                                              \
    do {                                                                          \
        uint64_t until_ = clock_now_ns() + 10 * NSEC_PER_SEC;                     \
        while (!(condition)) {                                                    \
            pair_turn(p);                                                         \
            relay_turn(r);                                                        \
            cr_assert(clock_now_ns() < until_, "%s never came true", #condition); \
        }                                                                         \
    } while (0)

#endif
