/* SPDX-License-Identifier: MIT */
/*
 * ids.h - finds a thing by its number, among as many as there may be.
 *
 * An intrusive hash table that grows with what is in it, a bucket at a time, so that no call moves
 * more than a few things. The numbers are this daemon's own, but who makes and ends things may keep
 * those that fall together: a secret hides which do. Without memory to grow chains get longer, and
 * nothing else. What was allocated stays until ids_fini. Not thread-safe.
 */
#ifndef RDMAD_OP_IDS_H
#define RDMAD_OP_IDS_H

#include <stdint.h>

#define IDS_LEAST 16u /* buckets; a power of two */
#define IDS_PARTS 16u /* each as long as all before it */

struct id_node {          /* embedded in the thing */
    struct id_node *next; /* in its chain */
    uint64_t id;
};

struct ids { /* all zero: empty, with a secret that everybody knows */
    uint64_t secret;
    uint32_t used;
    uint32_t more; /* buckets in parts */
    struct id_node *least[IDS_LEAST];
    struct id_node **part[IDS_PARTS];
};

void ids_init(struct ids *ids, uint64_t secret);
void ids_fini(struct ids *ids); /* frees the table, not what is in it */

int ids_add(struct ids *ids, struct id_node *thing, uint64_t id); /* 0, or RDMAD_E_EXISTS */
void ids_remove(struct ids *ids, struct id_node *thing);      /* harmless when it is not in it */
struct id_node *ids_find(const struct ids *ids, uint64_t id); /* NULL: none has it */

#endif
