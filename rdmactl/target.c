/* SPDX-License-Identifier: MIT */
/*
 * target.c - see target.h.
 */
#include "rdmactl/target.h"
#include "rdmactl/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail_errno(const char *what) {
    return cli_fail("RDMAD_E_SYSTEM", "%s: %s", what, strerror(errno));
}

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

static int open_temporary(struct target *t, mode_t mode) {
    char copy[PATH_MAX];
    memcpy(copy, t->path, sizeof(copy));
    t->fd = open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    if (t->fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return t->fd >= 0 ? EXIT_GOOD : fail_errno(t->path);
    snprintf(t->temporary, sizeof(t->temporary), "%.*s.%d.part", (int)sizeof(t->path) - 32, t->path,
             (int)getpid());
    t->fd = open(t->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
    if (t->fd >= 0)
        return EXIT_GOOD;
    int code = fail_errno(t->temporary);
    t->temporary[0] = '\0';
    return code;
}

int target_open(struct target *t, const char *file, uint64_t bytes) {
    struct stat st;
    *t = (struct target){.fd = STDOUT_FILENO, .stream = true};
    if (!file)
        return EXIT_GOOD;
    if (!stat(file, &st) && S_ISDIR(st.st_mode)) {
        t->fd = -1;
        return cli_fail("RDMAD_E_INVAL", "%s is a directory", file);
    }
    if (!stat(file, &st) && !S_ISREG(st.st_mode)) {
        t->fd = open(file, O_WRONLY | O_CLOEXEC);
        return t->fd >= 0 ? EXIT_GOOD : fail_errno(file);
    }
    t->fd = -1;
    t->stream = false;
    bool replaces = !stat(file, &st);
    if (replaces && faccessat(AT_FDCWD, file, W_OK, AT_EACCESS))
        return fail_errno(file); /* that its directory may be written is not meant by it */
    int code = target_resolve(t, file);
    if (!code)
        code = open_temporary(t, replaces ? 0600 : 0666);
    if (!code && replaces && keep_mode(t->fd, &st))
        code = fail_errno(file);
    /* A full disk shows now and not at the end; that a file system cannot tell is no error. */
    if (!code && bytes && fallocate(t->fd, 0, 0, (off_t)bytes) && errno == ENOSPC)
        code = fail_errno(file);
    return code;
}

int target_write(struct target *t, const void *data, uint64_t size) {
    const char *from = data;
    while (size) {
        ssize_t n = write(t->fd, from, size);
        if (n < 0 && errno != EINTR)
            return fail_errno(t->path[0] ? t->path : "standard output");
        if (n > 0) {
            from += n;
            size -= (uint64_t)n;
        }
    }
    return EXIT_GOOD;
}

int target_finish(struct target *t) {
    if (t->stream)
        return EXIT_GOOD;
    if (!t->temporary[0]) {
        /* A file without a name cannot replace one, so it takes a temporary name on the way. */
        char self[64];
        snprintf(self, sizeof(self), "/proc/self/fd/%d", t->fd);
        snprintf(t->temporary, sizeof(t->temporary), "%.*s.%d.part", (int)sizeof(t->path) - 32,
                 t->path, (int)getpid());
        if (linkat(AT_FDCWD, self, AT_FDCWD, t->temporary, AT_SYMLINK_FOLLOW)) {
            int code = fail_errno(t->temporary);
            t->temporary[0] = '\0';
            return code;
        }
    }
    if (close(t->fd) || rename(t->temporary, t->path)) {
        t->fd = -1;
        return fail_errno(t->path);
    }
    t->fd = -1;
    t->temporary[0] = '\0';
    return EXIT_GOOD;
}

void target_discard(struct target *t) {
    if (t->temporary[0])
        unlink(t->temporary);
    if (t->fd > STDERR_FILENO)
        close(t->fd);
    t->temporary[0] = '\0';
    t->fd = -1;
}
