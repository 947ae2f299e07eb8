/* SPDX-License-Identifier: MIT */
/*
 * offer.h - who may connect: what was offered to peers and not taken up yet.
 */
#ifndef RDMAD_FABRIC_TCP_OFFER_H
#define RDMAD_FABRIC_TCP_OFFER_H

#include "daemon/fabric/tcp/blob.h"
#include "daemon/fabric/tcp/instance.h"

#define TCP_CONNS_PER_PEER 64u /* accepted connections and unused offers together */

struct tcp_offer {
    struct list node;  /* in tcp.offers, until it is taken */
    struct list same;  /* in tcp.tokens, until it is taken, with those whose tokens begin alike */
    struct list mates; /* in its share's offers */
    struct tcp_share *share;
    uint64_t expires_ns;
    struct invitation is;
};

/* Whether this end wants connections to be encrypted, with a peer whose control connection is
 * secured, or not. */
bool encryption_wanted(const struct tcp *t, bool secured);

int tcp_offer(struct fabric *f, uint64_t peer, bool secured, const struct fabric_blob *hello,
              struct fabric_blob *out, struct error *err);
void offers_expire(struct tcp *t); /* those that nobody has taken */
/* Those of the peer that nobody has taken; the number's alone, unless it is 0. */
void offers_drop(struct tcp *t, uint64_t peer, uint64_t number);
/* The offer of that token, which now is taken, and its taker's to forget. NULL: it is unknown, used
 * or expired. */
struct tcp_offer *offer_take(struct tcp *t, const uint8_t token[FRAME_TOKEN_BYTES]);
void offer_forget(struct tcp_offer *o);

#endif
