/* SPDX-License-Identifier: MIT */
/*
 * child.h - a child process that has no more of its parent's descriptors than it needs.
 */
#ifndef RDMAD_PORTER_CHILD_H
#define RDMAD_PORTER_CHILD_H

#include <sys/types.h>

#define CHILD_FDS_MAX 2052u

/* Forks. In the child (returns 0) only the n descriptors in keep (at most CHILD_FDS_MAX - 2) are
 * open, under their old numbers. In the parent returns the pid, or -1, once that is so. */
pid_t child_fork(const int *keep, unsigned n);

#endif
