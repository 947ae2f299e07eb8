/* SPDX-License-Identifier: MIT */
/*
 * tree.c - a treap: ordered by key from left to right, by priority from top to bottom, kept so by
 * rotations.
 */
#include "daemon/base/tree.h"
#include <assert.h>
#include <sys/random.h>

void tree_init(struct tree *t, int (*compare)(const struct tree_node *, const struct tree_node *),
               void (*tree_update)(struct tree_node *)) {
    *t = (struct tree){.compare = compare, .update = tree_update};
    if (getrandom(&t->seed, sizeof(t->seed), GRND_NONBLOCK) != (ssize_t)sizeof(t->seed) || !t->seed)
        t->seed = 2463534242u; /* before the kernel has any: then everybody's */
}

static uint32_t tree_priority(struct tree *t) { /* xorshift */
    t->seed ^= t->seed << 13;
    t->seed ^= t->seed >> 17;
    t->seed ^= t->seed << 5;
    return t->seed;
}

static void tree_update(struct tree *t, struct tree_node *node) {
    if (t->update)
        t->update(node);
}

/* Who points to node. */
static struct tree_node **tree_link(struct tree *t, const struct tree_node *node) {
    if (!node->parent)
        return &t->root;
    return node->parent->left == node ? &node->parent->left : &node->parent->right;
}

/* Lifts node above its parent. */
static void tree_rotate_up(struct tree *t, struct tree_node *node) {
    struct tree_node *parent = node->parent, *moved;

    *tree_link(t, parent) = node;
    node->parent = parent->parent;
    if (parent->left == node) {
        parent->left = moved = node->right;
        node->right = parent;
    } else {
        parent->right = moved = node->left;
        node->left = parent;
    }
    if (moved)
        moved->parent = parent;
    parent->parent = node;
    tree_update(t, parent);
    tree_update(t, node);
}

void tree_changed(struct tree *t, struct tree_node *node) {
    if (!t->update)
        return;
    for (; node; node = node->parent)
        t->update(node);
}

void tree_add(struct tree *t, struct tree_node *node) {
    struct tree_node **at = &t->root, *parent = NULL;

    while (*at) {
        parent = *at;
        int order = t->compare(node, parent);
        assert(order);
        at = order < 0 ? &parent->left : &parent->right;
    }
    *node = (struct tree_node){.parent = parent, .priority = tree_priority(t)};
    *at = node;
    tree_changed(t, node);
    while (node->parent && node->parent->priority < node->priority)
        tree_rotate_up(t, node);
}

void tree_remove(struct tree *t, struct tree_node *node) {
    assert(*tree_link(t, node) == node);
    while (node->left || node->right) {
        struct tree_node *up = !node->left                                    ? node->right
                               : !node->right                                 ? node->left
                               : node->left->priority > node->right->priority ? node->left
                                                                              : node->right;
        tree_rotate_up(t, up);
    }
    struct tree_node *parent = node->parent;
    *tree_link(t, node) = NULL;
    node->parent = NULL;
    tree_changed(t, parent);
}

struct tree_node *tree_find(const struct tree *t, const struct tree_node *key) {
    struct tree_node *node = tree_from(t, key);
    return node && t->compare(node, key) == 0 ? node : NULL;
}

struct tree_node *tree_from(const struct tree *t, const struct tree_node *key) {
    struct tree_node *node = t->root, *best = NULL;

    while (node) {
        if (t->compare(node, key) < 0) {
            node = node->right;
        } else {
            best = node;
            node = node->left;
        }
    }
    return best;
}

struct tree_node *tree_next(const struct tree_node *node) {
    struct tree_node *at;

    if (node->right) {
        for (at = node->right; at->left; at = at->left)
            ;
        return at;
    }
    for (at = node->parent; at && at->right == node; at = at->parent)
        node = at;
    return at;
}

struct tree_node *tree_prev(const struct tree_node *node) {
    struct tree_node *at;

    if (node->left) {
        for (at = node->left; at->right; at = at->right)
            ;
        return at;
    }
    for (at = node->parent; at && at->left == node; at = at->parent)
        node = at;
    return at;
}
