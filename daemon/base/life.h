/* SPDX-License-Identifier: MIT */
/*
 * life.h - a node's lives: from one start of its daemon to the next, and the proof that one of them
 * is over.
 *
 * The happy path: each start counts one more and makes a life of the node's secret. Whoever is told
 * two lives of a node can tell for sure which is the later, because their keys are a chain of
 * hashes, of which each life shows one more link. A later life's key can only come from the node
 * itself, which shows it only when that life has begun; then the earlier one is over. So it does no
 * harm if somebody repeats a key.
 *
 * A key that is made up or copied is another node's, or the same life's, and proves nothing. Lives
 * that are more than LIFE_REACH starts apart are not compared: so the work is bounded, and nothing
 * is left of a life so long ago. A node whose secret is lost, or has been used up (LIFE_LAST), is a
 * new one.
 */
#ifndef RDMAD_BASE_LIFE_H
#define RDMAD_BASE_LIFE_H

#include "daemon/base/hash.h"
#include <stdbool.h>

#define LIFE_NODE_BYTES 16u
#define LIFE_REACH 64u
#define LIFE_LAST 8191u

struct life {
    uint8_t node[LIFE_NODE_BYTES]; /* the same in all of its lives */
    uint32_t number;               /* from 1 on; 0: none is told */
    uint8_t key[HASH_BYTES];
};

void life_make(const uint8_t secret[HASH_BYTES], uint32_t number, struct life *out);

/* A life and the LIFE_REACH before it, to compare many with: the hashing is done once. */
struct life_past {
    struct life life;
    uint8_t key[LIFE_REACH + 1][HASH_BYTES]; /* of this life, the one before, and so on */
};
void life_recall(const struct life *life, struct life_past *out);
/* Whether earlier is of the same node and over, since life has begun; or is life itself. */
bool life_follows(const struct life_past *life, const struct life *earlier);
bool life_is(const struct life *a, const struct life *b);

#endif
