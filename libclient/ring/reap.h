/* SPDX-License-Identifier: MIT */
/*
 * reap.h - completions come off the queue.
 */
#ifndef RDMAD_LIBCLIENT_REAP_H
#define RDMAD_LIBCLIENT_REAP_H

#include "common/ringword.h"
#include "libclient/ring/ring.h"

/* Takes all completions off the queue and puts them into their slots. */
void rdmad_ring_gather(struct rdmad_ring *ring);

/* Tells the daemon which entries of the completion queue were taken. */
static inline void rdmad_ring_publish_head(struct rdmad_ring *r) {
    if (r->cq_head_published == r->cq_head)
        return;
    ringword_publish(&r->client->cq_head, r->cq_head);
    r->cq_head_published = r->cq_head;
}

/* Nothing has come: whoever looks shows the daemon that the program lives. */
static inline void rdmad_ring_show_alive(struct rdmad_ring *r) {
    uint32_t ask = ringword_peek(&r->daemon->ask);
    if (ask == r->answered)
        return;
    r->answered = ask;
    ringword_publish(&r->client->alive, ask + 1);
}

/* The daemon has closed its end: the session ends. */
void rdmad_ring_closed(struct rdmad_ring *ring);
/* The daemon does what no daemon may: the session ends. */
void rdmad_ring_lose(struct rdmad_ring *ring, const char *why);

#endif
