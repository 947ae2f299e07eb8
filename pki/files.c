/* SPDX-License-Identifier: MIT */
/*
 * files.c - every open is O_NOFOLLOW and O_NONBLOCK, and judged by fstat of what was opened: a name
 * that is looked up twice may be two files.
 */
#include "pki/files.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mode_t mode_of(enum pki_file_kind kind) {
    return kind == PKI_SECRET ? 0600 : 0644;
}

/* What is opened belongs to root or the directory's user, and others may not do `forbidden`. */
static int file_check(const struct pki_dir *dir, const char *name, const struct stat *is,
                      mode_t forbidden, struct pki_error *err) {
    if (is->st_uid != 0 && is->st_uid != dir->owner)
        return pki_fail(err, RDMAD_E_PERM,
                        "%s/%s belongs to uid %u, not to uid %u or root; chown it", dir->path, name,
                        (unsigned)is->st_uid, (unsigned)dir->owner);
    if (is->st_mode & forbidden)
        return pki_fail(err, RDMAD_E_PERM, "%s/%s has mode %04o: others may %s it; chmod it to %s",
                        dir->path, name, (unsigned)(is->st_mode & 07777),
                        is->st_mode & forbidden & 022 ? "write to" : "read",
                        forbidden & 044 ? "0600" : "0644");
    return RDMAD_OK;
}

static int file_open(const struct pki_dir *dir, const char *name, enum pki_file_kind kind,
                     struct stat *is, int *out, struct pki_error *err) {
    int fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT)
        return PKI_NOT_THERE;
    if (fd < 0 && errno == ELOOP)
        return pki_fail(err, RDMAD_E_PERM, "%s/%s is a link; it must be the file itself", dir->path,
                        name);
    if (fd < 0)
        return pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot open %s/%s", dir->path, name);
    int rc = RDMAD_OK;
    if (fstat(fd, is))
        rc = pki_fail_errno(err, RDMAD_E_SYSTEM, "%s/%s", dir->path, name);
    else if (!S_ISREG(is->st_mode))
        rc = pki_fail(err, RDMAD_E_PERM, "%s/%s is no regular file", dir->path, name);
    else
        rc = file_check(dir, name, is, kind == PKI_SECRET ? 077 : 022, err);
    if (!rc && is->st_size > (off_t)PKI_FILE_MAX)
        rc = pki_fail(err, RDMAD_E_LENGTH, "%s/%s has %jd bytes, at most %u are read", dir->path,
                      name, (intmax_t)is->st_size, PKI_FILE_MAX);
    if (rc) {
        close(fd);
        return rc;
    }
    *out = fd;
    return RDMAD_OK;
}

int pki_file_read(const struct pki_dir *dir, const char *name, enum pki_file_kind kind, char **out,
                  size_t *size, struct pki_error *err) {
    struct stat is;
    int fd = -1, rc = file_open(dir, name, kind, &is, &fd, err);
    if (rc)
        return rc;
    char *bytes = malloc(PKI_FILE_MAX + 1);
    size_t used = 0;
    ssize_t n = 1;
    while (bytes && used < PKI_FILE_MAX && n > 0) {
        n = read(fd, bytes + used, PKI_FILE_MAX - used);
        used += n > 0 ? (size_t)n : 0;
    }
    if (!bytes)
        rc = pki_fail(err, RDMAD_E_NOMEM, "out of memory to read %s/%s", dir->path, name);
    else if (n < 0)
        rc = pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot read %s/%s", dir->path, name);
    close(fd);
    if (rc) {
        pki_wipe(bytes, bytes ? PKI_FILE_MAX : 0);
        return rc;
    }
    bytes[used] = '\0';
    *out = bytes;
    *size = used;
    return RDMAD_OK;
}

void pki_wipe(char *bytes, size_t size) {
    if (bytes)
        OPENSSL_cleanse(bytes, size);
    free(bytes);
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool write_all(int fd, const char *bytes, size_t size) {
    while (size) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

/* A fresh file of the right mode and owner, whole and on disk, under the name in fresh. */
static int write_fresh(const struct pki_dir *dir, const char *name, enum pki_file_kind kind,
                       const void *bytes, size_t size, char fresh[64], struct pki_error *err) {
    uint64_t random;
    if (RAND_bytes((unsigned char *)&random, sizeof(random)) != 1)
        return pki_fail_ssl(err, RDMAD_E_SYSTEM, "no random bytes for a file's name");
    snprintf(fresh, 64, ".new.%016" PRIx64, random);
    int fd = openat(dir->fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot make a file in %s for %s", dir->path,
                              name);
    bool done = (geteuid() == dir->owner || !fchown(fd, dir->owner, dir->group)) &&
                !fchmod(fd, mode_of(kind)) && write_all(fd, bytes, size) && !fsync(fd);
    int saved = errno;
    close(fd);
    if (done)
        return RDMAD_OK;
    (void)unlinkat(dir->fd, fresh, 0);
    errno = saved;
    return pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot write %s/%s", dir->path, name);
}

int pki_file_write(const struct pki_dir *dir, const char *name, enum pki_file_kind kind,
                   const void *bytes, size_t size, struct pki_error *err) {
    char fresh[64];
    int rc = write_fresh(dir, name, kind, bytes, size, fresh, err);
    if (rc)
        return rc;
    if (!renameat(dir->fd, fresh, dir->fd, name) && !fsync(dir->fd))
        return RDMAD_OK;
    rc = pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot put %s/%s in its place", dir->path, name);
    (void)unlinkat(dir->fd, fresh, 0);
    return rc;
}

int pki_file_create(const struct pki_dir *dir, const char *name, enum pki_file_kind kind,
                    const void *bytes, size_t size, struct pki_error *err) {
    char fresh[64];
    int rc = write_fresh(dir, name, kind, bytes, size, fresh, err);
    if (rc)
        return rc;
    if (linkat(dir->fd, fresh, dir->fd, name, 0))
        rc = errno == EEXIST
                 ? pki_fail(err, RDMAD_E_EXISTS, "%s/%s is there already", dir->path, name)
                 : pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot make %s/%s", dir->path, name);
    (void)unlinkat(dir->fd, fresh, 0);
    return rc ? rc : pki_dir_flush(dir, err);
}

int pki_file_remove(const struct pki_dir *dir, const char *name, struct pki_error *err) {
    if (!unlinkat(dir->fd, name, 0))
        return pki_dir_flush(dir, err);
    if (errno == ENOENT)
        return PKI_NOT_THERE;
    return pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot remove %s/%s", dir->path, name);
}

int pki_file_move(const struct pki_dir *dir, const char *from, const char *to,
                  struct pki_error *err) {
    if (!renameat(dir->fd, from, dir->fd, to))
        return RDMAD_OK;
    if (errno == ENOENT)
        return PKI_NOT_THERE;
    return pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot rename %s/%s", dir->path, from);
}

bool pki_file_there(const struct pki_dir *dir, const char *name) {
    struct stat is;
    return !fstatat(dir->fd, name, &is, AT_SYMLINK_NOFOLLOW);
}
