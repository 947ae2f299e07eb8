/* SPDX-License-Identifier: MIT */
/*
 * false_peer.h - the control connection of a program that says it is a lessee's daemon: dials the
 * owner's daemon and speaks the peer protocol, one message at a time, as the test wants it.
 *
 * Every call ends the case when the owner's daemon refuses or goes.
 */
#ifndef RDMAD_TEST_FALSE_PEER_H
#define RDMAD_TEST_FALSE_PEER_H

#include "daemon/peer/wire/wire.h"

#include <stdbool.h>

struct false_peer {
    int fd; /* the connection; blocking, with a time-out */
};

/* A blocking connection with a time-out. */
int false_peer_dial(const char *host, uint16_t port);

/* listen: "127.0.0.1:PORT". fabric: what it says it uses. */
void false_peer_connect(struct false_peer *p, const char *listen, const char *fabric);
/* The same; false, and closed, when it is refused or thrown out. */
bool false_peer_try(struct false_peer *p, const char *listen, const char *fabric);
void false_peer_close(struct false_peer *p);

void false_peer_say(const struct false_peer *p, const struct peer_msg *m);
/* The next message, whatever it is, pings answered; false: none within ms. */
bool false_peer_hear(const struct false_peer *p, int ms, struct peer_msg *m);
/* The next message of the type; others are lost, BYE ends the case. */
void false_peer_await(const struct false_peer *p, uint16_t type, struct peer_msg *m);

/* Asks for a lease: for a window on the link of number via, 0 for none yet. */
void false_peer_attach(const struct false_peer *p, const char *uri, uint64_t lessee_ref,
                       uint64_t via, struct peer_attach_rep *out);

#endif
