/* SPDX-License-Identifier: MIT */
/* ranges.c - in the order of their bases, and where two are the same of where they are themselves.
 */
#include "daemon/op/tool/ranges.h"
#include "daemon/base/list.h"

static struct range *range_of(const struct tree_node *node) {
    return node ? container_of((struct tree_node *)(uintptr_t)node, struct range, node) : NULL;
}

static int ranges_compare(const struct tree_node *a, const struct tree_node *b) {
    const struct range *x = range_of(a), *y = range_of(b);
    if (x->base != y->base)
        return x->base < y->base ? -1 : 1;
    return x == y ? 0 : (uintptr_t)x < (uintptr_t)y ? -1 : 1;
}

static struct range *range_last(const struct ranges *ranges) {
    struct tree_node *node = ranges->tree.root;
    while (node && node->right)
        node = node->right;
    return range_of(node);
}

void ranges_init(struct ranges *ranges) {
    tree_init(&ranges->tree, ranges_compare, NULL);
}

void ranges_add(struct ranges *ranges, struct range *r) {
    tree_add(&ranges->tree, &r->node);
}

void ranges_remove(struct ranges *ranges, struct range *r) {
    tree_remove(&ranges->tree, &r->node);
}

/* The last that does not begin behind it. */
struct range *ranges_find(const struct ranges *ranges, const void *address) {
    const struct range key = {.base = (uintptr_t)address};
    struct range *r = range_of(tree_from(&ranges->tree, &key.node));
    if (r && r->base != key.base)
        r = range_of(tree_prev(&r->node));
    else if (!r)
        r = range_last(ranges);
    return r && r->base <= key.base && key.base - r->base < r->bytes ? r : NULL;
}
