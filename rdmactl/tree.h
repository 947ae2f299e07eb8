/* SPDX-License-Identifier: MIT */
/*
 * tree.h - a directory as a list of entries: made by share, judged by fetch.
 *
 * An entry has one name, not a path, and a depth: it lies in the last directory before it that is
 * one less deep. So no entry can point outside, by whatever name. There are files and directories
 * and nothing else: no links, devices, owners or times. The entries of a directory are in the
 * order of their names' bytes, so none comes twice. Where a file's bytes lie follows from the sizes
 * of those before it.
 *
 *     size 8 | mode 4 | depth 2 | length of the name 2 | name
 */
#ifndef RDMACTL_TREE_H
#define RDMACTL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TREE_RECORD 16 /* bytes, without the name */
#define TREE_NAME_MAX 255
#define TREE_DEPTH 64u /* the defaults of fetch; share does not go deeper either */
#define TREE_ENTRIES 1000000u
#define TREE_DEPTH_MAX 512u /* what a path of such names may still be */

struct tree_entry {
    uint64_t offset, size; /* of a file's bytes among the contents */
    mode_t mode;
    uint16_t depth, length;
    uint32_t parent;  /* the entry's number; TREE_TOP: it lies in the directory that was shared */
    const char *name; /* in the list, not ended by a 0 */
};
#define TREE_TOP UINT32_MAX

struct tree {
    char *list;
    size_t bytes, room;
    struct tree_entry *entry; /* only after tree_judge */
    uint32_t count;
    uint64_t contents;
};

/* Appends; false: no memory. */
bool tree_append(struct tree *t, const char *name, mode_t mode, uint64_t size, unsigned depth);
/* Judges t->list, which somebody else made, and fills entry, count and contents. NULL, or what is
 * wrong with it. */
const char *tree_judge(struct tree *t, uint64_t contents, uint32_t max_entries, unsigned max_depth);
/* The path of an entry below what was shared; false: longer than paths may be. */
bool tree_path(const struct tree *t, const struct tree_entry *e, char *path, size_t room);
void tree_free(struct tree *t);

#endif
