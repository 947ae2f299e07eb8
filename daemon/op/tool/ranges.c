/* SPDX-License-Identifier: MIT */
/*
 * ranges.c - a treap: by its bases it is a search tree, by its ranks a heap.
 */
#include "daemon/op/tool/ranges.h"
#include <stdbool.h>
#include <stddef.h>

void ranges_init(struct ranges *ranges, uint64_t secret) {
    *ranges = (struct ranges){.random = secret};
}

/* splitmix64 */
static uint64_t ranges_next_rank(struct ranges *ranges) {
    uint64_t z = ranges->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static bool range_before(const struct range *a, const struct range *b) {
    return a->base != b->base ? a->base < b->base : (uintptr_t)a < (uintptr_t)b;
}

/* What of the tree is before r, and what behind it. */
static void range_split(struct range *tree, const struct range *r, struct range **before,
                        struct range **behind) {
    while (tree) {
        struct range *top = tree;
        if (range_before(top, r)) {
            *before = top;
            before = &top->right;
            tree = top->right;
        } else {
            *behind = top;
            behind = &top->left;
            tree = top->left;
        }
    }
    *before = *behind = NULL;
}

/* All of before lies before all of behind. */
static void range_join(struct range **to, struct range *before, struct range *behind) {
    while (before && behind) {
        if (before->rank > behind->rank) {
            *to = before;
            to = &before->right;
            before = before->right;
        } else {
            *to = behind;
            to = &behind->left;
            behind = behind->left;
        }
    }
    *to = before ? before : behind;
}

void ranges_add(struct ranges *ranges, struct range *r) {
    struct range **at = &ranges->root;
    r->rank = ranges_next_rank(ranges);
    while (*at && (*at)->rank > r->rank)
        at = range_before(r, *at) ? &(*at)->left : &(*at)->right;
    range_split(*at, r, &r->left, &r->right);
    *at = r;
}

void ranges_remove(struct ranges *ranges, struct range *r) {
    struct range **at = &ranges->root;
    while (*at != r)
        at = range_before(r, *at) ? &(*at)->left : &(*at)->right;
    range_join(at, r->left, r->right);
}

struct range *ranges_find(const struct ranges *ranges, const void *address) {
    uintptr_t at = (uintptr_t)address;
    struct range *r = ranges->root;
    while (r && (at < r->base || at - r->base >= r->bytes))
        r = at < r->base ? r->left : r->right;
    return r;
}
