/* SPDX-License-Identifier: MIT */
/*
 * tree.c - see tree.h.
 */
#include "rdmactl/tree.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct record {
    uint64_t size;
    uint32_t mode;
    uint16_t depth, length;
};
_Static_assert(sizeof(struct record) == TREE_RECORD, "a record has no holes");

bool tree_append(struct tree *t, const char *name, mode_t mode, uint64_t size, unsigned depth) {
    size_t length = strlen(name);
    struct record r = {size, mode, (uint16_t)depth, (uint16_t)length};
    if (t->room - t->bytes < sizeof(r) + length) {
        size_t room = 2 * t->room + sizeof(r) + length;
        char *grown = realloc(t->list, room);
        if (!grown)
            return false;
        t->list = grown;
        t->room = room;
    }
    memcpy(t->list + t->bytes, &r, sizeof(r));
    memcpy(t->list + t->bytes + sizeof(r), name, length);
    t->bytes += sizeof(r) + length;
    t->contents += size;
    t->count++;
    return true;
}

static bool name_is_one(const char *name, size_t length) {
    return length && length <= TREE_NAME_MAX && !memchr(name, '/', length) &&
           !memchr(name, '\0', length) && !(length == 1 && name[0] == '.') &&
           !(length == 2 && name[0] == '.' && name[1] == '.');
}

static bool comes_after(const struct tree_entry *e, const struct tree_entry *before) {
    size_t both = e->length < before->length ? e->length : before->length;
    int order = memcmp(e->name, before->name, both);
    return order > 0 || (!order && e->length > before->length);
}

/* The entry of a record; last has, for each depth, the number of the last entry there. */
static const char *judge_record(const struct tree *t, const struct record *r, uint32_t *last,
                                unsigned *open, uint64_t *contents, struct tree_entry *e) {
    *e = (struct tree_entry){.offset = *contents,
                             .size = r->size,
                             .mode = r->mode,
                             .depth = r->depth,
                             .length = r->length,
                             .parent = TREE_TOP,
                             .name = e->name};
    if (!name_is_one(e->name, e->length))
        return "a name in it is none that a file can have";
    if (!S_ISREG(e->mode) && !(S_ISDIR(e->mode) && !e->size))
        return "an entry of it is neither a file nor a directory";
    if (e->depth > *open)
        return "an entry of it lies in no directory";
    if (e->depth)
        e->parent = last[e->depth - 1];
    if (last[e->depth] != TREE_TOP && !comes_after(e, &t->entry[last[e->depth]]))
        return "its entries are not in order";
    if (__builtin_add_overflow(*contents, e->size, contents))
        return "its files are larger than all memory";
    return NULL;
}

const char *tree_judge(struct tree *t, uint64_t contents, uint32_t max_entries,
                       unsigned max_depth) {
    uint32_t last[TREE_DEPTH_MAX + 1];
    unsigned open = 0; /* entries may be this deep now */
    const char *why = NULL;
    size_t at = 0, room = t->bytes / (TREE_RECORD + 1) + 1;
    for (unsigned d = 0; d <= TREE_DEPTH_MAX; d++)
        last[d] = TREE_TOP;
    t->count = 0;
    t->contents = 0;
    if (room > max_entries)
        room = max_entries;
    t->entry = calloc(room ? room : 1, sizeof(*t->entry));
    if (!t->entry)
        return "there is no memory for it";
    while (!why && at < t->bytes) {
        struct record r;
        if (t->count == max_entries)
            return "it has more entries than --max-entries";
        if (t->bytes - at < sizeof(r))
            return "it ends in the middle of an entry";
        memcpy(&r, t->list + at, sizeof(r));
        at += sizeof(r);
        if (t->bytes - at < r.length)
            return "it ends in the middle of a name";
        if (r.depth >= max_depth || r.depth >= TREE_DEPTH_MAX)
            return "it is deeper than --max-depth";
        struct tree_entry *e = &t->entry[t->count];
        e->name = t->list + at;
        at += r.length;
        why = judge_record(t, &r, last, &open, &t->contents, e);
        last[r.depth] = t->count++;
        open = S_ISDIR(e->mode) ? r.depth + 1u : r.depth;
        last[r.depth + 1] = TREE_TOP; /* nothing in it yet */
    }
    return why || t->contents == contents ? why : "its files do not add up to what the lease holds";
}

bool tree_path(const struct tree *t, const struct tree_entry *e, char *path, size_t room) {
    size_t at = room - 1;
    path[at] = '\0';
    for (;;) {
        if (at < e->length + 1u)
            return false;
        at -= e->length;
        memcpy(path + at, e->name, e->length);
        if (e->parent == TREE_TOP)
            break;
        path[--at] = '/';
        e = &t->entry[e->parent];
    }
    memmove(path, path + at, room - at);
    return true;
}

void tree_free(struct tree *t) {
    free(t->list);
    free(t->entry);
    *t = (struct tree){0};
}
