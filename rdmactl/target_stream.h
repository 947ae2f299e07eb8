/* SPDX-License-Identifier: MIT */
/*
 * target_stream.h - a pipe, a device or standard output that fetch writes, as it comes.
 *
 * Whoever reads there may do so late or never: while that is waited for, the signals of the terms
 * are heard. After one it is EXIT_FAILED with t->interrupted, which the caller reports.
 */
#ifndef RDMACTL_TARGET_STREAM_H
#define RDMACTL_TARGET_STREAM_H

#include "rdmactl/target.h"

/* As those of target.h, which calls them. file NULL: standard output. */
int stream_target_open(struct target *t, const char *file, const struct target_terms *terms);
int stream_target_put(struct target *t, const void *data, uint64_t size);

#endif
