/* SPDX-License-Identifier: MIT */
/*
 * contents.h - what a lease holds, by its footer, and the proof of it (bundle.h).
 *
 * Everything in it was made by somebody else: it is judged before it is believed, and its memory is
 * bounded by the lease's length and by max_entries.
 */
#ifndef RDMACTL_CONTENTS_H
#define RDMACTL_CONTENTS_H

#include "rdmactl/bundle.h"
#include "rdmactl/reading.h"
#include "rdmactl/tree.h"

struct contents {
    bool summed, directory; /* not summed: a lease without a footer, of bytes and nothing else */
    uint64_t bytes;
    uint32_t piece;
    uint8_t root[BUNDLE_SUM];
    uint8_t *sums;
    struct tree tree; /* of a directory */
};

/* Both return an exit code and report. */
int contents_learn(struct contents *c, struct reading *r, uint64_t length, uint32_t max_entries,
                   unsigned max_depth);
/* Is that the piece that its owner summed? */
bool contents_match(const struct contents *c, uint64_t piece, const void *data, uint64_t size);
void contents_free(struct contents *c);

#endif
