/* SPDX-License-Identifier: MIT */
/*
 * share.c - how much of a poll is whose.
 *
 * Bytes are counted each way, and frames as some more (conn->cost). All connections that a peer
 * made have one budget together, so that nobody gets more of a worker for having more of them; a
 * link of ours has its own, for what comes by it was asked for. A poll as a whole has one, too. A
 * read is not cut short by a budget: what it was too much comes off the next poll's.
 *
 * Who is left out goes first in the next poll (tcp.c), which is at once.
 */
#include "daemon/fabric/tcp/tcp.h"
#include <stdlib.h>

struct share *share_join(struct tcp *t, uint64_t peer) {
    list_for_each (pos, &t->shares) {
        struct share *s = list_entry(pos, struct share, node);
        if (s->peer == peer) {
            s->conns++;
            return s;
        }
    }
    struct share *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->peer = peer;
    s->conns = 1;
    list_append(&t->shares, &s->node);
    return s;
}

void share_leave(struct share *s) {
    if (--s->conns)
        return;
    list_remove(&s->node);
    free(s);
}

static uint64_t owed(uint64_t moved, uint64_t paid) {
    return moved > paid ? moved - paid : 0;
}

/* Brings it to the present poll. */
static void begin(const struct tcp *t, struct share *s, uint64_t budget) {
    uint64_t polls = t->polls - s->poll;
    s->poll = t->polls;
    s->in = owed(s->in, polls * budget);
    s->out = owed(s->out, polls * budget);
}

static void begin_both(struct conn *c) {
    begin(c->tcp, c->share, TCP_SHARE_BUDGET);
    begin(c->tcp, &c->tcp->all, TCP_POLL_BUDGET);
}

static size_t room(uint64_t of_share, uint64_t of_all) {
    uint64_t own = of_share < TCP_SHARE_BUDGET ? TCP_SHARE_BUDGET - of_share : 0;
    uint64_t all = of_all < TCP_POLL_BUDGET ? TCP_POLL_BUDGET - of_all : 0;
    return own < all ? own : all;
}

size_t share_room_in(struct conn *c) {
    begin_both(c);
    return room(c->share->in, c->tcp->all.in);
}

size_t share_room_out(struct conn *c) {
    begin_both(c);
    return room(c->share->out, c->tcp->all.out);
}

void share_moved_in(struct conn *c, size_t bytes) {
    c->share->in += bytes;
    c->tcp->all.in += bytes;
}

void share_moved_out(struct conn *c, size_t bytes) {
    c->share->out += bytes;
    c->tcp->all.out += bytes;
}
