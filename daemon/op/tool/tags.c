/* SPDX-License-Identifier: MIT */
/*
 * tags.c - the hash table behind tags.h.
 */
#include "daemon/op/tool/tags.h"
#include <assert.h>
#include <stdlib.h>

#define SPARSE 8u /* a table this many times as long as what is in it is halved */

static void make_empty(struct tags *t) {
    t->bucket = t->least;
    t->buckets = TAGS_LEAST;
    t->used = 0;
    for (unsigned i = 0; i < TAGS_LEAST; i++)
        list_init(&t->least[i]);
}

void tags_init(struct tags *t, uint64_t secret, tags_charge *charge, void *payer) {
    *t = (struct tags){.secret = secret | 1, .charge = charge, .payer = payer};
    make_empty(t);
}

static int64_t bytes_of(const struct tags *t) {
    return t->bucket == t->least ? 0 : (int64_t)(t->buckets * sizeof(*t->bucket));
}

static void free_buckets(struct tags *t) {
    if (t->bucket != t->least)
        free(t->bucket);
}

void tags_fini(struct tags *t) {
    int64_t bytes = bytes_of(t);
    free_buckets(t);
    make_empty(t);
    if (bytes)
        t->charge(t->payer, -bytes);
}

/* The uppermost bits of the product with an odd number that the client does not know depend on all
 * bits of its own: any two numbers fall together about as often as by chance. */
struct list *tags_chain(struct tags *t, uint64_t user_data) {
    return &t->bucket[user_data * t->secret >> __builtin_clzll(t->buckets - 1)];
}

static void resize(struct tags *t, uint32_t buckets) {
    assert(buckets >= TAGS_LEAST);
    int64_t more = (int64_t)(buckets * sizeof(struct list)) - bytes_of(t);
    if (more > 0 && !t->charge(t->payer, more))
        return;
    struct list all, *bucket = reallocarray(NULL, buckets, sizeof(*bucket));
    if (!bucket) {
        if (more > 0)
            t->charge(t->payer, -more);
        return;
    }
    list_init(&all);
    for (uint32_t i = 0; i < t->buckets; i++)
        list_splice(&all, &t->bucket[i]);
    free_buckets(t);
    t->bucket = bucket;
    t->buckets = buckets;
    for (uint32_t i = 0; i < buckets; i++)
        list_init(&bucket[i]);
    for (struct list *pos; (pos = list_pop(&all));)
        list_append(tags_chain(t, list_entry(pos, struct tag, node)->user_data), pos);
    if (more < 0)
        t->charge(t->payer, more);
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
