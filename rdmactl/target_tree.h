/* SPDX-License-Identifier: MIT */
/*
 * target_tree.h - a directory that fetch writes, by a list that was judged (tree.h).
 *
 * It is made beside its place, in a directory that only its owner may enter, and gets its name when
 * it is whole. Each step below it is taken by openat2() beneath it and without any symbolic link,
 * so whatever lies there from before leads nowhere else. Modes are the list's without set-id and
 * sticky bits and without what umask takes, and are set last.
 */
#ifndef RDMACTL_TARGET_TREE_H
#define RDMACTL_TARGET_TREE_H

#include "rdmactl/target.h"

/* As those of target.h, which calls them. */
int tree_target_open(struct target *t, const char *file, const struct target_terms *terms);
int tree_target_put(struct target *t, uint64_t offset, const void *data, uint64_t size);
bool tree_target_get(struct target *t, uint64_t offset, void *data, uint64_t size);
int tree_target_finish(struct target *t);
void tree_target_discard(struct target *t, bool keep);

#endif
