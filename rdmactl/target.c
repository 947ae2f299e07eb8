/* SPDX-License-Identifier: MIT */
/*
 * target.c - see target.h.
 */
#include "rdmactl/target.h"
#include "rdmactl/cli.h"
#include "rdmactl/target_stream.h"
#include "rdmactl/target_tree.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* path becomes what file is a link to, or file itself. */
static int target_resolve(struct target *t, const char *file) {
    char real[PATH_MAX];
    const char *name = realpath(file, real) ? real : file;
    /* Room for the suffix of the temporary name. */
    if (strlen(name) + 32 > sizeof(t->path))
        return cli_fail("RDMAD_E_INVAL", "%s: the path is too long", file);
    memcpy(t->path, name, strlen(name) + 1);
    return EXIT_GOOD;
}

/* What replaces a file is no more open than that was, and belongs to whom it belonged as far as we
 * may say so. */
static int keep_mode(int fd, const struct stat *was) {
    struct stat now;
    mode_t mode = was->st_mode & 0777;
    if (fstat(fd, &now))
        return -1;
    bool kept = (now.st_uid == was->st_uid && now.st_gid == was->st_gid) ||
                !fchown(fd, was->st_uid, was->st_gid);
    if (!kept && now.st_gid != was->st_gid && fchown(fd, (uid_t)-1, was->st_gid))
        mode &= ~(mode_t)070; /* the old group's rights are not another's */
    return fchmod(fd, mode);
}

/* Is path still the file that we have open, and nobody else's? */
static bool is_ours(int fd, const char *path) {
    struct stat here, there;
    return !fstat(fd, &here) && !lstat(path, &there) && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev && S_ISREG(here.st_mode) && here.st_uid == geteuid() &&
           here.st_nlink == 1;
}

/* The file that an earlier fetch of the same has left, or a new one of that name. EXIT_GOOD with no
 * fd: somebody else is at it, or it is not ours to use. */
static int open_part(struct target *t, const struct target_terms *terms, mode_t mode) {
    struct stat st;
    int n = snprintf(t->temporary, sizeof(t->temporary), "%.*s.%.16s.part",
                     (int)sizeof(t->path) - 32, t->path, terms->sum);
    const char *name = strrchr(t->temporary, '/');
    if (n < 0 || strlen(name ? name + 1 : t->temporary) > NAME_MAX) {
        t->temporary[0] = '\0';
        return EXIT_GOOD;
    }
    t->fd = open(t->temporary, O_CREAT | O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
    if (t->fd < 0 && (errno == EACCES || errno == ENOSPC || errno == EDQUOT || errno == ENOENT ||
                      errno == EROFS || errno == ENOTDIR)) {
        int code = cli_fail_errno(t->temporary);
        t->temporary[0] = '\0';
        return code;
    }
    if (t->fd >= 0 && !flock(t->fd, LOCK_EX | LOCK_NB) && is_ours(t->fd, t->temporary) &&
        !fstat(t->fd, &st) &&
        ((uint64_t)st.st_size <= terms->bytes || !ftruncate(t->fd, (off_t)terms->bytes))) {
        t->resumed = st.st_size > 0;
        t->kept = true;
        return EXIT_GOOD;
    }
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    t->temporary[0] = '\0';
    return EXIT_GOOD;
}

static int open_temporary(struct target *t, mode_t mode) {
    char copy[PATH_MAX];
    memcpy(copy, t->path, sizeof(copy));
    t->fd = open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    if (t->fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return t->fd >= 0 ? EXIT_GOOD : cli_fail_errno(t->path);
    snprintf(t->temporary, sizeof(t->temporary), "%.*s.%d.part", (int)sizeof(t->path) - 32, t->path,
             (int)getpid());
    t->fd = open(t->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
    if (t->fd >= 0)
        return EXIT_GOOD;
    int code = cli_fail_errno(t->temporary);
    t->temporary[0] = '\0';
    return code;
}

int target_room(const struct target *t, int fd, uint64_t bytes) {
    struct statvfs fs;
    char need[CELL_MAX], free_bytes[CELL_MAX];
    if (fstatvfs(fd, &fs) || !fs.f_blocks)
        return EXIT_GOOD; /* a file system that cannot tell */
    double left = (double)fs.f_bavail * (double)fs.f_frsize;
    if ((double)bytes <= left)
        return EXIT_GOOD;
    return cli_fail("RDMAD_E_SYSTEM", "%s: %s: it needs %s more, and %s are free there", t->path,
                    strerror(ENOSPC), cli_human_bytes(need, (double)bytes),
                    cli_human_bytes(free_bytes, left));
}

/* What is there of it already needs no room. */
static int check_room(const struct target *t, uint64_t bytes) {
    struct stat st;
    uint64_t there = fstat(t->fd, &st) ? 0 : (uint64_t)st.st_blocks * 512;
    return target_room(t, t->fd, bytes > there ? bytes - there : 0);
}

/* Said of the directory, and not of the temporary name, which nobody has typed. */
static int check_directory(const struct target *t) {
    char copy[PATH_MAX];
    struct stat st;
    memcpy(copy, t->path, sizeof(copy));
    const char *directory = dirname(copy);
    if (stat(directory, &st) ? errno == ENOENT || errno == ENOTDIR : !S_ISDIR(st.st_mode))
        return cli_fail("RDMAD_E_SYSTEM", "%s: there is no directory %s", t->path, directory);
    if (faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS))
        return cli_fail("RDMAD_E_SYSTEM", "%s: nothing can be made in the directory %s: %s",
                        t->path, directory, strerror(errno));
    return EXIT_GOOD;
}

mode_t target_mask(void) {
    mode_t mask = umask(0);
    umask(mask);
    return mask;
}

/* A part that was there may be of a fetch to a place where there was another file, or none. */
static int set_mode(const struct target *t, mode_t mode) {
    return fchmod(t->fd, mode & ~target_mask()) ? cli_fail_errno(t->temporary) : EXIT_GOOD;
}

static int open_file(struct target *t, const char *file, const struct target_terms *terms) {
    t->replaces = !stat(file, &t->was);
    if (t->replaces && faccessat(AT_FDCWD, file, W_OK, AT_EACCESS))
        return cli_fail_errno(file); /* that its directory may be written is not meant by it */
    mode_t mode = t->replaces ? 0600 : 0666;
    int code = target_resolve(t, file);
    if (!code)
        code = check_directory(t);
    if (!code && terms->sum)
        code = open_part(t, terms, mode);
    if (!code && t->fd < 0)
        code = open_temporary(t, mode);
    if (!code && t->kept)
        code = set_mode(t, mode);
    return code ? code : check_room(t, terms->bytes);
}

int target_open(struct target *t, const char *file, const struct target_terms *terms) {
    struct stat st;
    *t = (struct target){.fd = -1};
    if (terms->tree)
        return tree_target_open(t, file, terms);
    bool there = file && !stat(file, &st);
    if (there && S_ISDIR(st.st_mode))
        return cli_fail("RDMAD_E_INVAL", "%s is a directory, and what is fetched is a file", file);
    if (file && (!there || S_ISREG(st.st_mode)))
        return open_file(t, file, terms);
    return stream_target_open(t, file, terms);
}

int target_put(struct target *t, uint64_t offset, const void *data, uint64_t size) {
    const char *from = data;
    if (t->tree)
        return tree_target_put(t, offset, data, size);
    if (t->stream)
        return stream_target_put(t, data, size);
    while (size) {
        ssize_t n = pwrite(t->fd, from, size, (off_t)offset);
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

bool target_get(struct target *t, uint64_t offset, void *data, uint64_t size) {
    char *to = data;
    if (t->tree)
        return tree_target_get(t, offset, data, size);
    while (size) {
        ssize_t n = pread(t->fd, to, size, (off_t)offset);
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

/* It did not get its name: the same command goes on there, so it is ours again. */
static void take_back(int fd) {
    if (fchown(fd, geteuid(), getegid()) || fchmod(fd, 0600))
        return; /* then it begins anew */
}

int target_finish(struct target *t) {
    if (t->tree)
        return tree_target_finish(t);
    if (t->stream)
        return EXIT_GOOD;
    if (t->replaces && keep_mode(t->fd, &t->was))
        return cli_fail_errno(t->path);
    if (!t->temporary[0]) {
        /* A file without a name cannot replace one, so it takes a temporary name on the way. */
        char self[64];
        snprintf(self, sizeof(self), "/proc/self/fd/%d", t->fd);
        snprintf(t->temporary, sizeof(t->temporary), "%.*s.%d.part", (int)sizeof(t->path) - 32,
                 t->path, (int)getpid());
        if (linkat(AT_FDCWD, self, AT_FDCWD, t->temporary, AT_SYMLINK_FOLLOW)) {
            int code = cli_fail_errno(t->temporary);
            t->temporary[0] = '\0';
            return code;
        }
    }
    /* What close says counts, but the lock stays until the file has its name: another fetch to the
     * same place would take what is here for what an earlier one has left, and then find it gone.
     */
    int lock = dup(t->fd);
    bool failed = close(t->fd) || rename(t->temporary, t->path);
    int code = failed ? cli_fail_errno(t->path) : EXIT_GOOD;
    if (failed && t->replaces && lock >= 0)
        take_back(lock);
    if (lock >= 0)
        close(lock);
    t->fd = -1;
    if (!failed)
        t->temporary[0] = '\0';
    return code;
}

void target_discard(struct target *t, bool keep) {
    if (t->tree) {
        tree_target_discard(t, keep);
        return;
    }
    if (t->temporary[0] && !(t->kept && keep))
        unlink(t->temporary);
    if (t->fd > STDERR_FILENO)
        close(t->fd);
    t->temporary[0] = '\0';
    t->fd = -1;
}
