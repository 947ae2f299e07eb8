/* SPDX-License-Identifier: MIT */
/*
 * tree_scan.h - a directory of this machine as a list of entries (tree.h), for share.
 *
 * Symbolic links are not followed, and what is neither file nor directory is left out and counted.
 */
#ifndef RDMACTL_TREE_SCAN_H
#define RDMACTL_TREE_SCAN_H

#include "rdmactl/tree.h"
#include <limits.h>

struct tree_scan {
    struct tree tree;
    unsigned left_out;
    char first_left_out[PATH_MAX]; /* below the directory */
};

/* Returns an exit code and reports. dir stays the caller's; file is what it is called. */
int tree_scan(struct tree_scan *s, int dir, const char *file);

#endif
