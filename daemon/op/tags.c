/* SPDX-License-Identifier: MIT */
/*
 * tags.c - the hash table behind tags.h.
 */
#include "daemon/op/tags.h"
#include <stdlib.h>

#define SPARSE 8u /* a table this many times as long as what is in it is halved */

void tags_init(struct tags *t, uint64_t secret) {
    *t = (struct tags){.bucket = t->least, .buckets = TAGS_LEAST, .secret = secret | 1};
    for (unsigned i = 0; i < TAGS_LEAST; i++)
        list_init(&t->least[i]);
}

void tags_fini(struct tags *t) {
    if (t->bucket != t->least)
        free(t->bucket);
    tags_init(t, t->secret);
}

/* The uppermost bits of the product with an odd number that the client does not know depend on all
 * bits of its own: any two numbers fall together about as often as by chance. */
struct list *tags_chain(struct tags *t, uint64_t user_data) {
    return &t->bucket[user_data * t->secret >> __builtin_clzll(t->buckets - 1)];
}

static void resize(struct tags *t, uint32_t buckets) {
    struct list all, *bucket = malloc(buckets * sizeof(*bucket));
    if (!bucket)
        return;
    list_init(&all);
    for (uint32_t i = 0; i < t->buckets; i++)
        list_splice(&all, &t->bucket[i]);
    if (t->bucket != t->least)
        free(t->bucket);
    t->bucket = bucket;
    t->buckets = buckets;
    for (uint32_t i = 0; i < buckets; i++)
        list_init(&bucket[i]);
    for (struct list *pos; (pos = list_pop(&all));)
        list_append(tags_chain(t, list_entry(pos, struct tag, node)->user_data), pos);
}

void tags_add(struct tags *t, struct tag *tag) {
    if (t->used++ >= t->buckets)
        resize(t, 2 * t->buckets);
    list_append(tags_chain(t, tag->user_data), &tag->node);
}

void tags_remove(struct tags *t, struct tag *tag) {
    list_remove(&tag->node);
    t->used--;
    if (t->buckets > TAGS_LEAST && t->used < t->buckets / SPARSE)
        resize(t, t->buckets / 2);
}
