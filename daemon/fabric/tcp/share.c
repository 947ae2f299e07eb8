/* SPDX-License-Identifier: MIT */
/*
 * share.c - how much of a poll each peer may use, and which connections and offers are its.
 *
 * A share is brought up to the present poll when it is asked for: what it used beyond the budgets
 * of the polls since then is still owed.
 */
#include "daemon/fabric/tcp/share.h"
#include <assert.h>
#include <stdlib.h>

static unsigned share_chain(uint64_t peer) {
    return (unsigned)((peer * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (SHARE_CHAINS - 1);
}

void shares_init(struct tcp_shares *all) {
    for (unsigned i = 0; i < SHARE_CHAINS; i++)
        list_init(&all->peers[i]);
}

struct tcp_share *share_find(const struct tcp_shares *all, uint64_t peer) {
    const struct list *chain = &all->peers[share_chain(peer)];
    list_for_each (pos, chain) {
        struct tcp_share *s = list_entry(pos, struct tcp_share, node);
        if (s->peer == peer)
            return s;
    }
    return NULL;
}

static struct tcp_share *share_find_or_make(struct tcp_shares *all, uint64_t peer) {
    struct tcp_share *s = share_find(all, peer);
    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->peer = peer;
    s->bytes.due_ns = &s->bytes_due_ns;
    s->ops.due_ns = &s->ops_due_ns;
    list_init(&s->targets);
    list_init(&s->offers);
    list_append(&all->peers[share_chain(peer)], &s->node);
    return s;
}

static void drop_unused(struct tcp_share *s) {
    if (s->joined || s->kept)
        return;
    assert(list_empty(&s->targets) && list_empty(&s->offers));
    list_remove(&s->node);
    free(s);
}

struct tcp_share *share_join(struct tcp_shares *all, uint64_t peer) {
    struct tcp_share *s = share_find_or_make(all, peer);
    if (s)
        s->joined++;
    return s;
}

void share_leave(struct tcp_share *s) {
    assert(s->joined > 0);
    s->joined--;
    drop_unused(s);
}

uint32_t share_connections(const struct tcp_share *s) {
    uint32_t n = 0;
    if (!s)
        return 0;
    list_for_each (pos, &s->targets)
        n++;
    list_for_each (pos, &s->offers)
        n++;
    return n;
}

static size_t budget_of(uint32_t weight) {
    uint64_t budget = (uint64_t)TCP_SHARE_BUDGET * weight / TCP_WEIGHT;
    return budget < TCP_BUDGET_MIN    ? TCP_BUDGET_MIN
           : budget > TCP_POLL_BUDGET ? TCP_POLL_BUDGET
                                      : budget;
}

int share_set(struct tcp_shares *all, uint64_t peer, const struct fabric_share *share) {
    struct tcp_share *s = share_find_or_make(all, peer);
    if (!s)
        return RDMAD_E_NOMEM;
    s->budget = budget_of(share->weight);
    rate_set(&s->bytes, share->bytes_per_second);
    rate_set(&s->ops, share->ops_per_second);
    rate_owe_at_most(&s->bytes_due_ns, all->now_ns + RATE_OWED_NS);
    rate_owe_at_most(&s->ops_due_ns, all->now_ns + RATE_OWED_NS);
    s->kept =
        share->weight != TCP_WEIGHT || share->bytes_per_second > 0 || share->ops_per_second > 0;
    drop_unused(s);
    return 0;
}

void share_forget(struct tcp_shares *all, uint64_t peer) {
    struct tcp_share *s = share_find(all, peer);
    if (!s)
        return;
    s->kept = false;
    drop_unused(s);
}

void shares_fini(struct tcp_shares *all) {
    for (unsigned i = 0; i < SHARE_CHAINS; i++)
        list_for_each_safe (pos, &all->peers[i])
            share_forget(all, list_entry(pos, struct tcp_share, node)->peer);
}

uint64_t share_held_ns(const struct tcp_shares *all, const struct tcp_share *s) {
    uint64_t bytes_ns = rate_wait_ns(&s->bytes, all->now_ns);
    uint64_t ops_ns = rate_wait_ns(&s->ops, all->now_ns);
    return bytes_ns > ops_ns ? bytes_ns : ops_ns;
}

bool share_is_news(const struct tcp_shares *all, const struct tcp_share *s, bool *by_bytes) {
    uint64_t now_ns = all->now_ns;
    *by_bytes = rate_wait_ns(&s->bytes, now_ns) > rate_wait_ns(&s->ops, now_ns);
    uint64_t last_ns = *by_bytes ? s->bytes_told_ns : s->ops_told_ns;
    return !last_ns || now_ns >= last_ns + SHARE_TOLD_NS;
}

void share_told(const struct tcp_shares *all, struct tcp_share *s, bool by_bytes) {
    *(by_bytes ? &s->bytes_told_ns : &s->ops_told_ns) = all->now_ns;
}

void share_asked(struct tcp_shares *all, struct tcp_share *s, uint32_t requests, uint64_t bytes) {
    rate_use(&s->ops, requests, all->now_ns);
    if (bytes)
        rate_use(&s->bytes, bytes, all->now_ns);
}

static size_t budget(const struct tcp_share *s) {
    return s->budget ? s->budget : TCP_SHARE_BUDGET;
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
    share_begin(s, all->poll, budget(s));
    share_begin(&all->all, all->poll, TCP_POLL_BUDGET);
}

static size_t room(uint64_t of_share, uint64_t of_all, size_t most) {
    uint64_t own = of_share < most ? most - of_share : 0;
    uint64_t all = of_all < TCP_POLL_BUDGET ? TCP_POLL_BUDGET - of_all : 0;
    return own < all ? own : all;
}

size_t share_room_in(struct tcp_shares *all, struct tcp_share *s) {
    shares_begin(all, s);
    return room(s->in, all->all.in, budget(s));
}

size_t share_room_out(struct tcp_shares *all, struct tcp_share *s) {
    shares_begin(all, s);
    return room(s->out, all->all.out, budget(s));
}

void share_moved_in(struct tcp_shares *all, struct tcp_share *s, size_t bytes) {
    s->in += bytes;
    rate_use(&s->bytes, bytes, all->now_ns);
    all->all.in += bytes;
}

void share_worked_in(struct tcp_shares *all, struct tcp_share *s, size_t bytes) {
    s->in += bytes;
    all->all.in += bytes;
}

void share_moved_out(struct tcp_shares *all, struct tcp_share *s, size_t bytes) {
    s->out += bytes;
    all->all.out += bytes;
}
