/* SPDX-License-Identifier: MIT */
/*
 * dir.c - opening, making, listing and locking the identity directory and those in it.
 */
#include "pki/dir.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *pki_default_dir(const char *config, char buf[PKI_PATH_MAX]) {
    const char *slash = config ? strrchr(config, '/') : NULL;
    int length = slash ? (int)(slash - config) : 0;
    bool etc = slash && length >= 4 && !strncmp(slash - 4, "/etc", 4);
    if (!config || !*config)
        snprintf(buf, PKI_PATH_MAX, "/etc/rdmad/identity");
    else if (!slash)
        snprintf(buf, PKI_PATH_MAX, "identity");
    else
        snprintf(buf, PKI_PATH_MAX, "%.*s%s/identity", length, config, etc ? "/rdmad" : "");
    return buf;
}

/* Judges an open directory; root works for its owner, others only for themselves. */
static int dir_check(struct pki_dir *dir, struct pki_error *err) {
    struct stat is;
    if (fstat(dir->fd, &is))
        return pki_fail_errno(err, RDMAD_E_SYSTEM, "%s", dir->path);
    if (is.st_uid != 0 && is.st_uid != geteuid() && geteuid() != 0)
        return pki_fail(err, RDMAD_E_PERM,
                        "%s belongs to uid %u, not to uid %u or root; chown it, or name another "
                        "directory",
                        dir->path, (unsigned)is.st_uid, (unsigned)geteuid());
    if (is.st_mode & 022)
        return pki_fail(err, RDMAD_E_PERM,
                        "%s has mode %04o: others may write to it; chmod it to 0700", dir->path,
                        (unsigned)(is.st_mode & 07777));
    /* A directory of root's serves a daemon that is not root, too: what that writes is its own. */
    dir->owner = geteuid() == 0 ? is.st_uid : geteuid();
    dir->group = geteuid() == 0 ? is.st_gid : getegid();
    return RDMAD_OK;
}

static int dir_openat(int at, const char *name, struct pki_dir *out, struct pki_error *err) {
    out->fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (out->fd < 0 && errno == ENOENT)
        return PKI_NOT_THERE;
    if (out->fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return pki_fail(err, RDMAD_E_PERM, "%s is no directory, or a link to one; it must be one",
                        out->path);
    if (out->fd < 0)
        return pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot open %s", out->path);
    int rc = dir_check(out, err);
    if (rc)
        pki_dir_close(out);
    return rc;
}

int pki_dir_open(const char *path, struct pki_dir *out, struct pki_error *err) {
    *out = (struct pki_dir){.fd = -1};
    if (snprintf(out->path, sizeof(out->path), "%s", path) >= (int)sizeof(out->path))
        return pki_fail(err, RDMAD_E_LENGTH, "the identity's directory has a path of %zu bytes",
                        strlen(path));
    return dir_openat(AT_FDCWD, path, out, err);
}

/* The directories above path. */
static int make_above(const char *path, struct pki_error *err) {
    char above[PKI_PATH_MAX];
    if (snprintf(above, sizeof(above), "%s", path) >= (int)sizeof(above))
        return pki_fail(err, RDMAD_E_LENGTH, "the identity's directory has a path of %zu bytes",
                        strlen(path));
    for (char *slash = strchr(above + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(above, 0755) && errno != EEXIST)
            return pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot make %s", above);
        *slash = '/';
    }
    return RDMAD_OK;
}

int pki_dir_make(const char *path, struct pki_dir *out, struct pki_error *err) {
    int rc = pki_dir_open(path, out, err);
    if (rc != PKI_NOT_THERE)
        return rc;
    if ((rc = make_above(path, err)))
        return rc;
    if (mkdir(path, 0700) && errno != EEXIST)
        return pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot make %s", path);
    if ((rc = pki_dir_open(path, out, err)))
        return rc == PKI_NOT_THERE ? pki_fail(err, RDMAD_E_SYSTEM, "%s vanished", path) : rc;
    const struct passwd *service = geteuid() == 0 ? getpwnam("rdmad") : NULL;
    if (!service)
        return RDMAD_OK;
    if (fchown(out->fd, service->pw_uid, service->pw_gid)) {
        rc = pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot give %s to the user rdmad", path);
        pki_dir_close(out);
        return rc;
    }
    out->owner = service->pw_uid;
    out->group = service->pw_gid;
    return RDMAD_OK;
}

static int dir_path(const struct pki_dir *in, const char *name, struct pki_dir *out,
                    struct pki_error *err) {
    *out = (struct pki_dir){.fd = -1};
    if (snprintf(out->path, sizeof(out->path), "%s/%s", in->path, name) < (int)sizeof(out->path))
        return RDMAD_OK;
    return pki_fail(err, RDMAD_E_LENGTH, "the path of %s/... is too long", in->path);
}

int pki_dir_enter(const struct pki_dir *in, const char *name, struct pki_dir *out,
                  struct pki_error *err) {
    int rc = dir_path(in, name, out, err);
    return rc ? rc : dir_openat(in->fd, name, out, err);
}

int pki_dir_enter_or_make(const struct pki_dir *in, const char *name, bool open_to_all,
                          struct pki_dir *out, struct pki_error *err) {
    int rc = pki_dir_enter(in, name, out, err);
    if (rc != PKI_NOT_THERE)
        return rc;
    if (mkdirat(in->fd, name, 0700) && errno != EEXIST)
        return pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot make %s/%s", in->path, name);
    if ((rc = pki_dir_enter(in, name, out, err)))
        return rc == PKI_NOT_THERE ? pki_fail(err, RDMAD_E_SYSTEM, "%s vanished", out->path) : rc;
    if ((geteuid() == in->owner || !fchown(out->fd, in->owner, in->group)) &&
        !fchmod(out->fd, open_to_all ? 0755 : 0700)) {
        out->owner = in->owner;
        out->group = in->group;
        return RDMAD_OK;
    }
    rc = pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot set owner and mode of %s", out->path);
    pki_dir_close(out);
    return rc;
}

void pki_dir_close(struct pki_dir *dir) {
    if (dir->fd >= 0)
        close(dir->fd);
    dir->fd = -1;
}

int pki_dir_flush(const struct pki_dir *dir, struct pki_error *err) {
    return fsync(dir->fd) ? pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot flush %s", dir->path)
                          : RDMAD_OK;
}

/* ---- listing -------------------------------------------------------------------------------- */

static bool ends_in(const char *name, const char *suffix) {
    size_t n = strlen(name), s = strlen(suffix);
    return name[0] != '.' && n > s && !strcmp(name + n - s, suffix);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What else may lie there before listing gives up. */
#define SEEN_MAX 65536u

static int add_name(struct pki_names *to, const char *name, const struct pki_dir *dir, unsigned max,
                    struct pki_error *err) {
    if (to->count == max)
        return pki_fail(err, RDMAD_E_LIMIT, "%s has more than %u entries; remove some", dir->path,
                        max);
    char **grown = realloc(to->names, (to->count + 1) * sizeof(*grown));
    char *copy = grown ? strdup(name) : NULL;
    if (grown)
        to->names = grown;
    if (!copy)
        return pki_fail(err, RDMAD_E_NOMEM, "out of memory to list %s", dir->path);
    to->names[to->count++] = copy;
    return RDMAD_OK;
}

int pki_names_read(const struct pki_dir *dir, const char *suffix, unsigned max,
                   struct pki_names *out, struct pki_error *err) {
    *out = (struct pki_names){0};
    int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (!stream) {
        int rc = pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot list %s", dir->path);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = RDMAD_OK;
    unsigned seen = 0;
    for (const struct dirent *e; !rc && (e = readdir(stream));) {
        if (ends_in(e->d_name, suffix))
            rc = add_name(out, e->d_name, dir, max, err);
        else if (++seen > SEEN_MAX)
            rc = pki_fail(err, RDMAD_E_LIMIT, "%s is full of what is not ours", dir->path);
    }
    closedir(stream);
    if (rc)
        pki_names_free(out);
    else if (out->count)
        qsort(out->names, out->count, sizeof(*out->names), compare_names);
    return rc;
}

void pki_names_free(struct pki_names *names) {
    for (unsigned i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
    *names = (struct pki_names){0};
}

/* ---- the lock ------------------------------------------------------------------------------- */

int pki_lock(const struct pki_dir *dir, int *lock, struct pki_error *err) {
    int fd = openat(dir->fd, ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot open %s/.lock", dir->path);
    if (geteuid() != dir->owner && fchown(fd, dir->owner, dir->group)) {
        int rc = pki_fail_errno(err, RDMAD_E_SYSTEM, "cannot chown %s/.lock", dir->path);
        close(fd);
        return rc;
    }
    for (unsigned waited = 0; flock(fd, LOCK_EX | LOCK_NB); waited += 10) {
        if (waited >= PKI_LOCK_MS) {
            close(fd);
            return pki_fail(err, RDMAD_E_BUSY,
                            "%s is held by another rdmactl cluster or rdmad for %u s; look which "
                            "process has %s/.lock open, and try again",
                            dir->path, PKI_LOCK_MS / 1000, dir->path);
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    *lock = fd;
    return RDMAD_OK;
}

void pki_unlock(int lock) {
    close(lock);
}
