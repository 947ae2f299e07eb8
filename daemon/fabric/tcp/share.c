/* SPDX-License-Identifier: MIT */
/*
 * share.c - how much of a poll each peer may use.
 *
 * A share is brought up to the present poll when it is asked for: what it used beyond the budgets
 * of the polls since then is still owed.
 */
#include "daemon/fabric/tcp/share.h"
#include <assert.h>
#include <stdlib.h>

struct tcp_share *share_join(struct tcp_shares *all, uint64_t peer) {
    list_for_each (pos, &all->peers) {
        struct tcp_share *s = list_entry(pos, struct tcp_share, node);
        if (s->peer == peer) {
            s->conns++;
            return s;
        }
    }
    struct tcp_share *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->peer = peer;
    s->conns = 1;
    list_append(&all->peers, &s->node);
    return s;
}

void share_leave(struct tcp_share *s) {
    assert(s->conns > 0);
    if (--s->conns)
        return;
    list_remove(&s->node);
    free(s);
}

static uint64_t owed(uint64_t moved, uint64_t paid) {
    return moved > paid ? moved - paid : 0;
}

static void share_begin(struct tcp_share *s, uint64_t poll, uint64_t budget) {
    uint64_t polls = poll - s->poll;
    s->poll = poll;
    s->in = owed(s->in, polls * budget);
    s->out = owed(s->out, polls * budget);
}

static void shares_begin(struct tcp_shares *all, struct tcp_share *s) {
    share_begin(s, all->poll, TCP_SHARE_BUDGET);
    share_begin(&all->all, all->poll, TCP_POLL_BUDGET);
}

static size_t room(uint64_t of_share, uint64_t of_all) {
    uint64_t own = of_share < TCP_SHARE_BUDGET ? TCP_SHARE_BUDGET - of_share : 0;
    uint64_t all = of_all < TCP_POLL_BUDGET ? TCP_POLL_BUDGET - of_all : 0;
    return own < all ? own : all;
}

size_t share_room_in(struct tcp_shares *all, struct tcp_share *s) {
    shares_begin(all, s);
    return room(s->in, all->all.in);
}

size_t share_room_out(struct tcp_shares *all, struct tcp_share *s) {
    shares_begin(all, s);
    return room(s->out, all->all.out);
}

void share_moved_in(struct tcp_shares *all, struct tcp_share *s, size_t bytes) {
    s->in += bytes;
    all->all.in += bytes;
}

void share_moved_out(struct tcp_shares *all, struct tcp_share *s, size_t bytes) {
    s->out += bytes;
    all->all.out += bytes;
}
