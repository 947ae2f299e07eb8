/* SPDX-License-Identifier: MIT */
/*
 * extents.c - the extents of a range, free or not, as a tree by their offset that knows of each
 * subtree how long its longest free extent is.
 */
#include "daemon/state/extents.h"
#include "daemon/base/list.h"
#include <rdmad/abi.h>
#include <stdlib.h>

static struct extent *extent_of(const struct tree_node *node) {
    return node ? container_of((struct tree_node *)(uintptr_t)node, struct extent, node) : NULL;
}

static int by_offset(const struct tree_node *a, const struct tree_node *b) {
    const struct extent *x = extent_of(a), *y = extent_of(b);
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static uint64_t longest_of(const struct tree_node *node) {
    return node ? extent_of(node)->longest : 0;
}

static void sum(struct tree_node *node) {
    struct extent *e = extent_of(node);
    uint64_t left = longest_of(node->left), right = longest_of(node->right);
    e->longest = e->user ? 0 : e->length;
    if (e->longest < left)
        e->longest = left;
    if (e->longest < right)
        e->longest = right;
}

static struct extent *extent_new(struct extents *x, uint64_t offset, uint64_t length) {
    struct extent *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->offset = offset;
    e->length = length;
    tree_add(&x->tree, &e->node);
    return e;
}

int extents_init(struct extents *x, uint64_t length) {
    tree_init(&x->tree, by_offset, sum);
    x->free = length;
    return extent_new(x, 0, length) ? 0 : RDMAD_E_NOMEM;
}

/* Leaves first, so that nothing is put in order that goes next. */
void extents_fini(struct extents *x) {
    for (struct tree_node *node = x->tree.root; node;) {
        struct tree_node *up = node->parent;
        if (node->left || node->right) {
            node = node->left ? node->left : node->right;
            continue;
        }
        if (up)
            *(up->left == node ? &up->left : &up->right) = NULL;
        free(extent_of(node));
        node = up;
    }
    x->tree.root = NULL;
}

uint64_t extents_longest(const struct extents *x) {
    return longest_of(x->tree.root);
}

/* The first free one of at least length; there is one. */
static struct extent *first_fit(const struct extents *x, uint64_t length) {
    struct tree_node *node = x->tree.root;
    for (;;) {
        if (longest_of(node->left) >= length)
            node = node->left;
        else if (!extent_of(node)->user && extent_of(node)->length >= length)
            return extent_of(node);
        else
            node = node->right;
    }
}

/* Length in whole granules; 0: there are none, or too many. */
static uint64_t granules_round_up(uint64_t length) {
    uint64_t rounded;
    if (__builtin_add_overflow(length, EXTENT_GRANULE - 1, &rounded))
        return 0;
    return rounded & ~(uint64_t)(EXTENT_GRANULE - 1);
}

/* What is behind the first length bytes of e, which is free, becomes one of its own. */
static bool extent_cut(struct extents *x, struct extent *e, uint64_t length) {
    uint64_t rest = e->length - length;
    e->length = length; /* before its rest comes into the tree */
    if (rest && !extent_new(x, e->offset + length, rest)) {
        e->length += rest;
        return false;
    }
    tree_changed(&x->tree, &e->node);
    return true;
}

static struct extent *extent_use(struct extents *x, struct extent *e, void *user) {
    e->user = user;
    tree_changed(&x->tree, &e->node);
    x->free -= e->length;
    return e;
}

struct extent *extents_take(struct extents *x, uint64_t length, void *user, bool *no_room) {
    uint64_t rounded = granules_round_up(length);
    *no_room = !rounded || extents_longest(x) < rounded;
    if (*no_room)
        return NULL;
    struct extent *e = first_fit(x, rounded);
    return extent_cut(x, e, rounded) ? extent_use(x, e, user) : NULL;
}

/* The one in which offset lies; the first of all begins at 0. */
static struct extent *extent_around(const struct extents *x, uint64_t offset) {
    struct extent key = {.offset = offset};
    struct tree_node *node = tree_from(&x->tree, &key.node);
    if (node && extent_of(node)->offset == offset)
        return extent_of(node);
    if (node)
        return extent_of(tree_prev(node));
    node = x->tree.root;
    while (node->right)
        node = node->right;
    return extent_of(node);
}

struct extent *extents_take_at(struct extents *x, uint64_t offset, uint64_t length, void *user,
                               bool *no_room) {
    uint64_t rounded = granules_round_up(length), before;
    struct extent *e = extent_around(x, offset);
    before = offset - e->offset;
    *no_room = !rounded || offset % EXTENT_GRANULE || e->user || before > e->length ||
               rounded > e->length - before;
    if (*no_room)
        return NULL;
    if (before) {
        if (!extent_cut(x, e, before))
            return NULL;
        e = extent_of(tree_next(&e->node));
    }
    return extent_cut(x, e, rounded) ? extent_use(x, e, user) : NULL;
}

/* b, right behind a, becomes part of it. */
static void merge(struct extents *x, struct extent *a, struct extent *b) {
    tree_remove(&x->tree, &b->node);
    a->length += b->length;
    tree_changed(&x->tree, &a->node);
    free(b);
}

void extents_give(struct extents *x, struct extent *e) {
    struct extent *before = extent_of(tree_prev(&e->node)), *after = extent_of(tree_next(&e->node));
    x->free += e->length;
    e->user = NULL;
    tree_changed(&x->tree, &e->node);
    if (after && !after->user)
        merge(x, e, after);
    if (before && !before->user)
        merge(x, before, e);
}

struct extent *extents_find(const struct extents *x, uint64_t offset) {
    struct extent key = {.offset = offset};
    struct extent *e = extent_of(tree_find(&x->tree, &key.node));
    return e && e->user ? e : NULL;
}
