/* SPDX-License-Identifier: MIT */
/*
 * list.h - intrusive doubly linked list. A node that is in no list points to itself.
 */
#ifndef RDMAD_BASE_LIST_H
#define RDMAD_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#define LIST_INIT(name) \
    { &(name), &(name) }
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define list_entry(node, type, member) container_of(node, type, member)
#define list_for_each(pos, head) \
    for (struct list *pos = (head)->next; pos != (head); pos = pos->next)
#define list_for_each_safe(pos, head)                                             \
    for (struct list *pos = (head)->next, *pos##_next = pos->next; pos != (head); \
         pos = pos##_next, pos##_next = pos->next)

static inline void list_init(struct list *l) {
    l->next = l->prev = l;
}
static inline bool list_empty(const struct list *l) {
    return l->next == l;
}

static inline void list_append(struct list *head, struct list *node) {
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

/* Takes node out of its list; harmless when it is in none. */
static inline void list_remove(struct list *node) {
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

static inline struct list *list_first(struct list *head) {
    return list_empty(head) ? NULL : head->next;
}

/* Takes the first node out; NULL when empty. */
static inline struct list *list_pop(struct list *head) {
    struct list *node = list_first(head);
    if (node)
        list_remove(node);
    return node;
}

/* Appends all of from's nodes to head, in order; from is empty afterwards. */
static inline void list_splice(struct list *head, struct list *from) {
    if (list_empty(from))
        return;
    from->next->prev = head->prev;
    head->prev->next = from->next;
    from->prev->next = head;
    head->prev = from->prev;
    list_init(from);
}

#endif
