/* SPDX-License-Identifier: MIT */
/*
 * source.h - what share reads: a file, a directory or standard input, into a pool, with its
 * checksums (bundle.h).
 */
#ifndef RDMACTL_SOURCE_H
#define RDMACTL_SOURCE_H

#include "rdmactl/bundle.h"
#include "rdmactl/cli.h"
#include "rdmactl/tree_scan.h"
#include <rdmad/rdmad.h>

struct source {
    const char *file;
    bool raw;        /* its bytes alone, without a footer */
    int fd, signals; /* signals: -1 until somebody catches them */
    bool directory, to_the_end, interrupted;
    size_t bytes;          /* the contents */
    uint64_t length;       /* with all that goes with them: the lease's */
    struct tree_scan scan; /* of a directory */
    struct bundle_footer footer;
    uint64_t summed; /* pieces */
    struct progress progress;
    rdmad_session *session;
    rdmad_pool *pool;
};

/* Both return an exit code and report. open: looks at it, and at all of a directory. load: into a
 * pool of the session, unless interrupted. */
int source_open(struct source *s);
int source_load(struct source *s);
void source_close(struct source *s);

#endif
