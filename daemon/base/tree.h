/* SPDX-License-Identifier: MIT */
/*
 * tree.h - an ordered set whose nodes are embedded in what they order: a treap.
 *
 * Finding, adding and removing take logarithmic time on average, whatever order the keys come in
 * (priorities are random, so nobody can choose keys that make it deep). A tree may keep a sum over
 * each subtree: update is called for a node whenever its subtree changed, children first. Not
 * thread-safe.
 */
#ifndef RDMAD_BASE_TREE_H
#define RDMAD_BASE_TREE_H

#include <stddef.h>
#include <stdint.h>

struct tree_node {
    struct tree_node *parent, *left, *right;
    uint32_t priority;
};

struct tree {
    struct tree_node *root;
    int (*compare)(const struct tree_node *a, const struct tree_node *b);
    void (*update)(struct tree_node *node); /* may be NULL */
    uint32_t seed;
};

void tree_init(struct tree *t, int (*compare)(const struct tree_node *, const struct tree_node *),
               void (*update)(struct tree_node *));
/* Its key must not be there yet. */
void tree_add(struct tree *t, struct tree_node *node);
void tree_remove(struct tree *t, struct tree_node *node);
/* What node's sum is made of has changed. Its key must not have moved past a neighbour's. */
void tree_changed(struct tree *t, struct tree_node *node);
/* The node with the key, NULL when there is none. */
struct tree_node *tree_find(const struct tree *t, const struct tree_node *key);
/* The first node whose key is not before key; NULL when all are. */
struct tree_node *tree_from(const struct tree *t, const struct tree_node *key);
struct tree_node *tree_next(const struct tree_node *node);
struct tree_node *tree_prev(const struct tree_node *node);

#endif
