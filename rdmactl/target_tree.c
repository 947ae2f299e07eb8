/* SPDX-License-Identifier: MIT */
/*
 * target_tree.c - see target_tree.h.
 */
#include "rdmactl/target_tree.h"
#include "rdmactl/beneath.h"
#include "rdmactl/cli.h"
#include "rdmactl/tree.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define MODES 0777u /* what is taken of a mode: no set-id, no sticky bit */

struct tree_target {
    const struct tree *tree;
    int parent, root;             /* directories: where it will be, and it */
    const char *name, *temporary; /* in parent */
    int fd;                       /* of the entry that is being written */
    uint32_t at;
    bool made; /* the directory is there */
};

static int fail_entry(const struct target *t, const char *path) {
    return cli_fail("RDMAD_E_SYSTEM", "%s/%s: %s", t->path, path, strerror(errno));
}

static int fail_path(const char *path, const char *what) {
    return cli_fail("RDMAD_E_SYSTEM", "%s: %s", path, what);
}

/* code, or what close says: over NFS it is the first to tell that a quota is used up. */
static int close_entry(const struct target *t, const char *path, int fd, int code) {
    return close(fd) && !code ? fail_entry(t, path) : code;
}

/* path without slashes at its end, as parent and name; t->temporary beside it. */
static int split(struct target *t, const char *file, const struct target_terms *terms) {
    size_t length = strlen(file);
    while (length > 1 && file[length - 1] == '/')
        length--;
    if (!length || length + 48 > sizeof(t->path))
        return cli_fail("RDMAD_E_INVAL", "%s: no directory can have that path", file);
    memcpy(t->path, file, length);
    t->path[length] = '\0';
    char *slash = strrchr(t->path, '/');
    const char *name = slash ? slash + 1 : t->path;
    if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
        return cli_fail("RDMAD_E_INVAL", "%s: name the directory that is to be made", file);
    char suffix[24];
    if (terms->sum)
        snprintf(suffix, sizeof(suffix), "%.16s", terms->sum);
    else
        snprintf(suffix, sizeof(suffix), "%d", (int)getpid());
    snprintf(t->temporary, sizeof(t->temporary), "%.*s.%s.part", (int)sizeof(t->path) - 48, t->path,
             suffix);
    if (strlen(name) + strlen(suffix) + 6 > NAME_MAX)
        return cli_fail("RDMAD_E_INVAL", "%s: the name is too long", file);
    t->tree->name = name;
    t->tree->temporary = t->temporary + (name - t->path);
    if (!slash)
        t->tree->parent = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    else {
        *slash = '\0';
        t->tree->parent = open(slash == t->path ? "/" : t->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        *slash = '/';
    }
    return t->tree->parent >= 0 ? EXIT_GOOD : cli_fail_errno(t->path);
}

static bool is_empty(int parent, const char *name) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    unsigned entries = 0;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    while (entries < 3 && readdir(dir)) /* . and .. */
        entries++;
    closedir(dir);
    return entries < 3;
}

/* Nothing, or an empty directory, which the rename at the end replaces. */
static int is_free(const struct target *t) {
    struct stat st;
    const struct tree_target *d = t->tree;
    if (fstatat(d->parent, d->name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? EXIT_GOOD : cli_fail_errno(t->path);
    if (S_ISDIR(st.st_mode) && is_empty(d->parent, d->name))
        return EXIT_GOOD;
    return cli_fail("RDMAD_E_EXISTS",
                    "%s is there already: a directory is fetched to where nothing is, or an empty "
                    "directory",
                    t->path);
}

static int open_root(struct target *t, bool resumable) {
    struct tree_target *d = t->tree;
    struct stat st;
    d->made = !mkdirat(d->parent, d->temporary, 0700);
    if (!d->made && !(resumable && errno == EEXIST))
        return cli_fail_errno(t->temporary);
    t->resumed = !d->made;
    d->root = openat(d->parent, d->temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (d->root < 0 || fstat(d->root, &st))
        return cli_fail_errno(t->temporary);
    if (st.st_uid != geteuid() || (st.st_mode & 077 && fchmod(d->root, 0700)))
        return fail_path(t->temporary,
                         "it belongs to somebody else; remove it, or fetch to another "
                         "place");
    if (flock(d->root, LOCK_EX | LOCK_NB))
        return fail_path(t->temporary, "another fetch is writing it");
    d->made = true;
    t->kept = resumable;
    return EXIT_GOOD;
}

/* A directory is made in its parent, which is opened on the way that is safe. */
static int make_directory(const struct target *t, const char *path) {
    char above[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int fd = t->tree->root;
    if (slash) {
        snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
        fd = open_beneath(t->tree->root, above, O_PATH | O_DIRECTORY, 0);
        if (fd < 0)
            return fail_entry(t, above);
    }
    int failed = mkdirat(fd, slash ? slash + 1 : path, 0700);
    int code = failed && errno != EEXIST ? fail_entry(t, path) : EXIT_GOOD;
    if (slash)
        close(fd);
    return code;
}

static int open_entry(const struct target *t, const char *path, const struct tree_entry *e) {
    struct stat st;
    int flags = S_ISDIR(e->mode) ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT | O_NONBLOCK;
    int fd = open_beneath(t->tree->root, path, flags, 0600);
    if (fd < 0 || fstat(fd, &st)) {
        fail_entry(t, path);
    } else if ((st.st_mode & S_IFMT) != (e->mode & S_IFMT) || st.st_uid != geteuid() ||
               (S_ISREG(st.st_mode) && st.st_nlink != 1)) {
        cli_fail("RDMAD_E_EXISTS", "%s/%s is not what an earlier fetch has left; remove it",
                 t->temporary, path);
    } else {
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* there grows by what of it is on the disk already. */
static int make_file(const struct target *t, const char *path, const struct tree_entry *e,
                     uint64_t *there) {
    int fd = open_entry(t, path, e);
    if (fd < 0)
        return EXIT_FAILED;
    struct stat st;
    int failed =
        fstat(fd, &st) || ((uint64_t)st.st_size != e->size && ftruncate(fd, (off_t)e->size));
    if (!failed)
        *there += (uint64_t)st.st_blocks * 512;
    return close_entry(t, path, fd, failed ? fail_entry(t, path) : EXIT_GOOD);
}

static int make_all(const struct target *t) {
    char path[PATH_MAX];
    const struct tree *tree = t->tree->tree;
    uint64_t there = 0;
    int code = EXIT_GOOD;
    for (uint32_t i = 0; i < tree->count && !code; i++) {
        const struct tree_entry *e = &tree->entry[i];
        if (e->size > INT64_MAX || !tree_path(tree, e, path, sizeof(path)))
            return cli_fail("RDMAD_E_LIMIT", "%s: a path or a file in it is too long", t->path);
        code = S_ISDIR(e->mode) ? make_directory(t, path) : make_file(t, path, e, &there);
    }
    uint64_t bytes = tree->contents > there ? tree->contents - there : 0;
    return code ? code : target_room(t, t->tree->root, bytes);
}

int tree_target_open(struct target *t, const char *file, const struct target_terms *terms) {
    if (!file)
        return cli_fail("RDMAD_E_INVAL", "it is a directory that is shared: fetch it with -o DIR");
    t->tree = calloc(1, sizeof(*t->tree));
    if (!t->tree)
        return cli_fail("RDMAD_E_NOMEM", "out of memory");
    *t->tree = (struct tree_target){
        .tree = terms->tree, .name = "", .temporary = "", .parent = -1, .root = -1, .fd = -1};
    int code = split(t, file, terms);
    if (!code)
        code = is_free(t);
    if (!code)
        code = open_root(t, terms->sum != NULL);
    return code ? code : make_all(t);
}

/* Of the file that is being written, if there is one. */
static int close_written(struct target *t) {
    char path[PATH_MAX];
    struct tree_target *d = t->tree;
    int fd = d->fd;
    if (fd < 0)
        return EXIT_GOOD;
    d->fd = -1;
    tree_path(d->tree, &d->tree->entry[d->at], path, sizeof(path));
    return close_entry(t, path, fd, EXIT_GOOD);
}

/* The file in which that byte lies, open. */
static int open_at(struct target *t, uint64_t offset) {
    char path[PATH_MAX];
    struct tree_target *d = t->tree;
    const struct tree_entry *e = d->tree->entry;
    uint32_t i = d->fd >= 0 && offset >= e[d->at].offset ? d->at : 0;
    while (offset - e[i].offset >= e[i].size)
        i++;
    if (d->fd >= 0 && i == d->at)
        return EXIT_GOOD;
    if (close_written(t))
        return EXIT_FAILED;
    d->at = i;
    tree_path(d->tree, &e[i], path, sizeof(path));
    d->fd = open_entry(t, path, &e[i]);
    return d->fd >= 0 ? EXIT_GOOD : EXIT_FAILED;
}

/* What of [offset, offset + size) lies in the file that is open. */
static size_t here(const struct tree_target *d, uint64_t offset, uint64_t size, off_t *at) {
    const struct tree_entry *e = &d->tree->entry[d->at];
    uint64_t left = e->size - (offset - e->offset);
    *at = (off_t)(offset - e->offset);
    return left < size ? left : size;
}

int tree_target_put(struct target *t, uint64_t offset, const void *data, uint64_t size) {
    const char *from = data;
    while (size) {
        off_t at;
        int code = open_at(t, offset);
        if (code)
            return code;
        size_t some = here(t->tree, offset, size, &at);
        ssize_t n = pwrite(t->tree->fd, from, some, at);
        if (n < 0 && errno != EINTR)
            return cli_fail_errno(t->path);
        if (n > 0) {
            from += n;
            offset += (uint64_t)n;
            size -= (uint64_t)n;
        }
    }
    return EXIT_GOOD;
}

bool tree_target_get(struct target *t, uint64_t offset, void *data, uint64_t size) {
    char *to = data;
    while (size) {
        off_t at;
        if (open_at(t, offset))
            return false;
        size_t some = here(t->tree, offset, size, &at);
        ssize_t n = pread(t->tree->fd, to, some, at);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        if (n > 0) {
            to += n;
            offset += (uint64_t)n;
            size -= (uint64_t)n;
        }
    }
    return true;
}

int tree_target_finish(struct target *t) {
    char path[PATH_MAX];
    struct tree_target *d = t->tree;
    const mode_t mask = target_mask();
    if (close_written(t))
        return EXIT_FAILED;
    /* From the last to the first: what is in a directory comes before it. */
    for (uint32_t i = d->tree->count; i-- > 0;) {
        const struct tree_entry *e = &d->tree->entry[i];
        tree_path(d->tree, e, path, sizeof(path));
        int fd = open_entry(t, path, e);
        if (fd < 0)
            return EXIT_FAILED;
        int failed = fchmod(fd, e->mode & MODES & ~mask);
        if (close_entry(t, path, fd, failed ? fail_entry(t, path) : EXIT_GOOD))
            return EXIT_FAILED;
    }
    if (fchmod(d->root, MODES & ~mask) || renameat(d->parent, d->temporary, d->parent, d->name))
        return cli_fail_errno(t->path);
    d->made = false;
    t->temporary[0] = '\0';
    tree_target_discard(t, true);
    return EXIT_GOOD;
}

/* By the list: what somebody else put there stays, and then the directory does. */
static void remove_all(const struct tree_target *d) {
    char path[PATH_MAX], above[PATH_MAX];
    for (uint32_t i = d->root >= 0 ? d->tree->count : 0; i-- > 0;) {
        const struct tree_entry *e = &d->tree->entry[i];
        if (!tree_path(d->tree, e, path, sizeof(path)))
            continue;
        char *slash = strrchr(path, '/');
        snprintf(above, sizeof(above), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
        int fd = open_beneath(d->root, above, O_PATH | O_DIRECTORY, 0);
        if (fd < 0)
            continue;
        unlinkat(fd, slash ? slash + 1 : path, S_ISDIR(e->mode) ? AT_REMOVEDIR : 0);
        close(fd);
    }
    unlinkat(d->parent, d->temporary, AT_REMOVEDIR);
}

void tree_target_discard(struct target *t, bool keep) {
    struct tree_target *d = t->tree;
    if (d->made && !(t->kept && keep))
        remove_all(d);
    if (d->fd >= 0)
        close(d->fd);
    if (d->root >= 0)
        close(d->root);
    if (d->parent >= 0)
        close(d->parent);
    free(d);
    t->tree = NULL;
}
