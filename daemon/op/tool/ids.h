/* SPDX-License-Identifier: MIT */
/*
 * ids.h - finds a thing by its number, among as many as there may be.
 *
 * An intrusive hash table that doubles as it fills. The numbers are this daemon's own, so nobody
 * chooses them to collide. Not thread-safe.
 */
#ifndef RDMAD_OP_IDS_H
#define RDMAD_OP_IDS_H

#include <stdint.h>

struct id_node {          /* embedded in the thing */
    struct id_node *next; /* in its chain */
    uint64_t id;
};

struct ids { /* all zero: empty */
    struct id_node **bucket;
    uint32_t buckets; /* a power of two, or 0 */
    uint32_t used;
};

void ids_fini(struct ids *ids); /* frees the table, not what is in it */

/* 0, RDMAD_E_EXISTS, or RDMAD_E_NOMEM. */
int ids_add(struct ids *ids, struct id_node *thing, uint64_t id);
void ids_remove(struct ids *ids, struct id_node *thing);      /* harmless when it is not in it */
struct id_node *ids_find(const struct ids *ids, uint64_t id); /* NULL: none has it */

#endif
