/* SPDX-License-Identifier: MIT */
/*
 * tags.h - finds things by the number that a client gave them, its user_data.
 *
 * An intrusive hash table, in which many may have the same number, that grows and shrinks with what
 * is in it. A secret keeps the client from choosing numbers that fall together. The memory that it
 * allocates is charged to somebody; where the charge or the memory is refused, chains get longer.
 * Not thread-safe, and not to be moved.
 */
#ifndef RDMAD_OP_TAGS_H
#define RDMAD_OP_TAGS_H

#include "daemon/base/list.h"
#include <stdbool.h>
#include <stdint.h>

#define TAGS_LEAST 8u

struct tag { /* embedded in the thing */
    struct list node;
    uint64_t user_data;
};

/* Charges bytes, or gives them back if they are negative. False: the charge is refused. */
typedef bool tags_charge(void *payer, int64_t bytes);

struct tags {
    struct list *bucket;
    uint32_t buckets; /* a power of two */
    uint32_t used;
    uint64_t secret;
    tags_charge *charge;
    void *payer;
    struct list least[TAGS_LEAST];
};

void tags_init(struct tags *t, uint64_t secret, tags_charge *charge, void *payer);
void tags_fini(struct tags *t); /* forgets what is in it; the table can be used again */
void tags_add(struct tags *t, struct tag *tag);
void tags_remove(struct tags *t, struct tag *tag);

/* The chain in which all things of that number are, among others; good until the next add or
 * remove. */
struct list *tags_chain(struct tags *t, uint64_t user_data);

#endif
