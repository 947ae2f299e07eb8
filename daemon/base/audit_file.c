/* SPDX-License-Identifier: MIT */
/*
 * audit_file.c - opened so that a path that somebody else prepared does no harm: no link is
 * followed, no FIFO waited for, nobody else's file written to.
 */
#include "daemon/base/audit_file.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int audit_file_check(int fd, const char *path, struct error *err) {
    struct stat st;
    if (fstat(fd, &st))
        return error_errno(err, RDMAD_E_CONFIG, "audit.file %s", path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, RDMAD_E_CONFIG, "audit.file %s is no regular file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return error_set(err, RDMAD_E_CONFIG,
                         "audit.file %s belongs to uid %u; it must be root's or rdmad's own", path,
                         (unsigned)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return error_set(err, RDMAD_E_CONFIG,
                         "audit.file %s can be written by others (mode %03o); chmod it to 600",
                         path, (unsigned)st.st_mode & 07777);
    return 0;
}

/* Whether an earlier daemon, or a full disk, left it without the last newline. */
static bool ends_torn(const char *path) {
    char last = '\n';
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    off_t size = lseek(fd, 0, SEEK_END);
    bool torn = size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
    close(fd);
    return torn;
}

#define OPEN_FLAGS (O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)

/* A disk that is full, or fails, is no wrong setting; nor is a table of files. */
static bool audit_file_may_pass(int error) {
    return error == ENOSPC || error == EDQUOT || error == EIO || error == EROFS ||
           error == EMFILE || error == ENFILE || error == ENOMEM;
}

static int no_file(const char *path, struct error *err) {
    return error_errno(err, audit_file_may_pass(errno) ? RDMAD_E_SYSTEM : RDMAD_E_CONFIG,
                       "audit.file %s cannot be opened", path);
}

int audit_file_look(const char *path, struct error *err) {
    char dir[PATH_MAX];
    int rc = 0, fd = *path ? open(path, OPEN_FLAGS) : -1;
    if (fd >= 0) {
        rc = audit_file_check(fd, path, err);
        close(fd);
    } else if (*path) {
        snprintf(dir, sizeof(dir), "%s", path);
        if (errno != ENOENT || eaccess(dirname(dir), W_OK | X_OK))
            rc = no_file(path, err);
    }
    return rc;
}

int audit_file_open(struct audit_file *f, const char *path, struct error *err) {
    if (!*path) {
        audit_file_close(f);
        return 0;
    }
    int fd = open(path, OPEN_FLAGS | O_CREAT, 0600);
    if (fd < 0)
        return no_file(path, err);
    int rc = audit_file_check(fd, path, err);
    if (rc) {
        close(fd);
        return rc;
    }
    audit_file_close(f);
    *f = (struct audit_file){.fd = fd, .torn = ends_torn(path)};
    return 0;
}

static bool audit_file_write(const struct audit_file *f, const char *bytes, size_t size) {
    ssize_t n;
    do {
        n = write(f->fd, bytes, size);
    } while (n < 0 && errno == EINTR);
    if (n >= 0 && (size_t)n < size)
        errno = ENOSPC;
    return n == (ssize_t)size;
}

bool audit_file_append(struct audit_file *f, const char *line, size_t size) {
    if (f->fd < 0)
        return true;
    if (f->torn && !audit_file_write(f, "\n", 1))
        return false;
    f->torn = !audit_file_write(f, line, size);
    return !f->torn;
}

void audit_file_close(struct audit_file *f) {
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}
