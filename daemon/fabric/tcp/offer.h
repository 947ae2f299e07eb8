/* SPDX-License-Identifier: MIT */
/*
 * offer.h - who may connect: tokens that were offered, and strangers, which have yet to show one.
 */
#ifndef RDMAD_FABRIC_TCP_OFFER_H
#define RDMAD_FABRIC_TCP_OFFER_H

#include "daemon/fabric/tcp/instance.h"

#define TCP_CONNS_PER_PEER 64u /* accepted connections and unused offers together */

int listener_open(struct tcp *t, struct error *err);
void listener_close(struct tcp *t);
void listener_timers(struct tcp *t); /* old tokens, late strangers, a paused listener */
int tcp_offer(struct fabric *f, uint64_t peer, const struct fabric_blob *hello,
              struct fabric_blob *out, struct error *err);
void offers_drop(struct tcp *t, uint64_t peer);
void offer_drop(struct tcp *t, uint64_t peer, uint64_t number);

#endif
