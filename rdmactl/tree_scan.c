/* SPDX-License-Identifier: MIT */
/*
 * tree_scan.c - see tree_scan.h.
 */
#include "rdmactl/tree_scan.h"
#include "rdmactl/beneath.h"
#include "rdmactl/cli.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct walk {
    struct tree_scan *scan;
    const char *file;
    char path[PATH_MAX]; /* below file */
};

static int fail_at(const struct walk *w, const char *what) {
    return cli_fail("RDMAD_E_SYSTEM", "%s/%s: %s", w->file, w->path, what);
}

static int by_bytes(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_itself(const struct dirent *d) {
    return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int walk_directory(struct walk *w, int dir, unsigned depth);

static int walk_into(struct walk *w, int dir, const char *name, unsigned depth) {
    if (depth + 1 >= TREE_DEPTH)
        return cli_fail("RDMAD_E_LIMIT", "%s/%s is deeper than %u directories: share its parts",
                        w->file, w->path, TREE_DEPTH);
    int fd = open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fail_at(w, strerror(errno));
    int code = walk_directory(w, fd, depth + 1);
    close(fd);
    return code;
}

static int walk_entry(struct walk *w, int dir, const char *name, unsigned depth) {
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
        return fail_at(w, strerror(errno));
    bool directory = S_ISDIR(st.st_mode);
    if (!directory && !S_ISREG(st.st_mode)) {
        if (!w->scan->left_out++)
            snprintf(w->scan->first_left_out, sizeof(w->scan->first_left_out), "%s", w->path);
        return EXIT_GOOD;
    }
    if (w->scan->tree.count == TREE_ENTRIES)
        return cli_fail("RDMAD_E_LIMIT", "%s has more than %u entries: share its parts", w->file,
                        TREE_ENTRIES);
    if (!tree_append(&w->scan->tree, name, st.st_mode & (S_IFMT | 0777),
                     directory ? 0 : (uint64_t)st.st_size, depth))
        return cli_fail("RDMAD_E_NOMEM", "out of memory for the list of %s", w->file);
    return directory ? walk_into(w, dir, name, depth) : EXIT_GOOD;
}

/* As deep as TREE_DEPTH at most, with a descriptor open for each. */
static int walk_directory(struct walk *w, int dir, unsigned depth) { /* NOLINT(misc-no-recursion) */
    struct dirent **entries;
    size_t end = strlen(w->path);
    int code = EXIT_GOOD, count = scandirat(dir, ".", &entries, not_itself, by_bytes);
    if (count < 0)
        return fail_at(w, strerror(errno));
    for (int i = 0; i < count; i++) {
        int n = snprintf(w->path + end, sizeof(w->path) - end, "%s%s", end ? "/" : "",
                         entries[i]->d_name);
        if (!code && (size_t)n >= sizeof(w->path) - end)
            code = fail_at(w, strerror(ENAMETOOLONG));
        if (!code)
            code = walk_entry(w, dir, entries[i]->d_name, depth);
        free(entries[i]);
        w->path[end] = '\0';
    }
    free(entries);
    return code;
}

int tree_scan(struct tree_scan *s, int dir, const char *file) {
    struct walk w = {.scan = s, .file = file};
    *s = (struct tree_scan){0};
    return walk_directory(&w, dir, 0);
}
