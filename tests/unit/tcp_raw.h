/* SPDX-License-Identifier: MIT */
/*
 * tcp_raw.h - the engine's wire spoken by hand, for tests that must be rude.
 *
 * A raw peer is a plain socket: either dialled to an engine with a token (it then asks), or
 * accepted from one (it then answers). Calls ending in _try tell how much went; the others fail the
 * test. Where engines encrypt (PAIR_ENCRYPT) a raw peer that was welcomed does, too: what a test
 * says and hears is what is in the records.
 */
#ifndef RDMAD_TEST_TCP_RAW_H
#define RDMAD_TEST_TCP_RAW_H

#include "daemon/fabric/tcp/frame.h"
#include "daemon/fabric/tcp/secure.h"
#include "tests/unit/tcp_pair.h"
#include <sys/types.h>

/* Of an engine's offer. */
uint16_t raw_port(const struct fabric_blob *offer);
const uint8_t *raw_token(const struct fabric_blob *offer);

int raw_dial(uint16_t port);                    /* a nonblocking socket */
int raw_dial_as(struct pair *p, uint64_t peer); /* and welcomed by the owner */
/* The owner's engine has taken the hello with the offer's token: the handshake, if there is to be
 * one, and the welcome. */
void raw_welcomed(struct pair *p, int fd, const struct fabric_blob *offer);
/* The encrypted stream that fd has; NULL: it is in clear. */
struct secure *raw_secure(int fd);
#define RAW_NUMBER 77u                             /* of the link, as such an offer says */
int raw_listen(struct fabric_blob *offer);         /* and an offer that leads an engine there */
int raw_accept_link(struct pair *p, int listener); /* the link's hello taken and welcomed */

void raw_send(struct pair *p, int fd, const void *data, size_t n); /* turning while it is full */
ssize_t raw_send_try(int fd, const void *data, size_t n);
void raw_recv(struct pair *p, int fd, void *data, size_t n); /* turning until all has come */
ssize_t raw_recv_try(int fd, void *data, size_t n);
bool raw_closed(struct pair *p, int fd); /* turns until it is closed by the engine; 10 s */

extern size_t raw_largest_recv; /* what any recv asked for at most */
/* How often anybody sent, and of that to a socket that was full. */
extern unsigned raw_sends, raw_vain_sends;
extern unsigned raw_recvs; /* and called recv */

void raw_frame(struct pair *p, int fd, const struct frame *f);
struct frame raw_answer(struct pair *p, int fd);
/* A request for the window of key. */
struct frame raw_request(const struct fabric_blob *key, int type, uint32_t op, uint64_t offset,
                         uint32_t length);

#endif
