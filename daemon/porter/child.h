/* SPDX-License-Identifier: MIT */
/*
 * child.h - a child that holds nothing of its parent's but what it is for.
 */
#ifndef RDMAD_PORTER_CHILD_H
#define RDMAD_PORTER_CHILD_H

#include <sys/types.h>

#define CHILD_FDS_MAX 66u

/* Forks. In the child (0) only the descriptors in keep (n, at most CHILD_FDS_MAX - 2) are open,
 * whose numbers stay; the parent goes on (the pid, or -1) when that is so. */
pid_t child_fork(const int *keep, unsigned n);

#endif
