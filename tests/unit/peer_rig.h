/* SPDX-License-Identifier: MIT */
/*
 * peer_rig.h - one daemon's peers with everything below scripted (lease_rig.h), and at the other
 * end of a real loopback socket the test itself, which speaks the wire and need not be polite.
 */
#ifndef RDMAD_TESTS_PEER_RIG_H
#define RDMAD_TESTS_PEER_RIG_H

#include "daemon/peer/peer.h"
#include "daemon/peer/wire/wire.h"
#include "tests/unit/lease_rig.h"

struct raw {
    int fd;
    uint8_t in[4096];
    size_t have;
};

void peer_rig_up(void);   /* rig_up, and peers that listen */
void peer_rig_down(void); /* peers_stop must come to its end; rig_down */

/* Runs the loop until nothing more happens by itself. */
void settle(void);
void quiet(void); /* the same for who may answer late */
/* Runs it until the condition holds; the test fails when it does not. */
#define AWAIT(condition)                                                   \
    do {                                                                   \
        bool await_done = (condition);                                     \
        for (int await_n = 0; await_n < 20000 && !await_done; await_n++) { \
            settle();                                                      \
            await_done = (condition);                                      \
        }                                                                  \
        cr_assert(await_done, "waited for " #condition);                   \
    } while (0)

struct raw *raw_dial(void);                   /* connects to our listener */
struct raw *raw_dial_from(const char *ip);    /* of 127.0.0.0/8, each a host of its own */
struct raw *raw_dial_unheard(const char *ip); /* the daemon has not had a turn since */
struct raw *raw_greet_from(const char *ip);   /* the same, and says hello both ways */
struct raw *raw_listen(uint16_t *port);
struct raw *raw_accept(struct raw *listener);
void raw_close(struct raw *r);
void raw_bytes(struct raw *r, const void *data, size_t size);
void raw_send(struct raw *r, const struct peer_msg *m);
/* The next message, asserted to be of that type. */
struct peer_msg raw_expect(struct raw *r, uint16_t type);
bool raw_silent(struct raw *r); /* nothing has come */
bool raw_eof(struct raw *r);    /* the other end closed, perhaps after a last message */

struct peer_msg raw_hello(void); /* a good one, of another node */
struct raw *raw_greet(void);     /* dials and says hello both ways */

/* A good one, by the lease's URI; via 0: no link is up. */
struct peer_msg raw_attach_req(const struct lease *l, uint64_t ref, uint64_t via);
/* Asks it, and is answered well, a window having been opened if there is a link. */
struct peer_attach_rep raw_attach(struct raw *r, const struct lease *l, uint64_t ref, uint64_t via);

unsigned peers_in_state(const char *state);

#endif
