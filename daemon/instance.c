/* SPDX-License-Identifier: MIT */
/*
 * instance.c - whose the runtime directory is, and who is the one daemon in it.
 *
 * A user who may rename files in a directory could put another socket where clients look for ours,
 * or hold our lock. So the directory and all above it belong to root or to the daemon's user, and
 * others write to none of them but where the sticky bit protects what is not theirs.
 *
 * The lock is a flock on RUNTIME_DIR/rdmad.lock, which dies with the process whatever ends it. The
 * file stays: removing a locked file lets two daemons lock two files of one name.
 */
#include "daemon/instance.h"
#include "daemon/base/capable.h"
#include "daemon/base/log.h"
#include "daemon/base/upper_fd.h"
#include "daemon/state/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_FOR_CLIENTS 512u /* descriptors; of few, a quarter */
#define OVERFLOW_UID 65534u

/* Descriptors that the daemon keeps. Transfers over verbs need none; over tcp each worker has a
 * connection to a peer, or the peer's to us. */
#define FILES_OWN 64u
#define FILES_A_WORKER 8u
#define FILES_A_SESSION 1u
#define FILES_A_RING 2u /* once it is ready; a pool has none then */
#define FILES_A_MAPPING \
    2u /* at most: an unready ring has two mappings and four, a pool one and one */
#define FILES_UNREAD 64u /* of answers that a session does not take (ipc/conn.c) */
#define FILES_A_PEER 1u

/* In a user namespace what belongs to nobody there is shown as the overflow uid's; it is not a
 * user's who could touch it from within. */
static bool in_user_namespace(void) {
    unsigned inside, outside, count;
    FILE *f = fopen("/proc/self/uid_map", "re");
    if (!f)
        return false;
    bool whole = fscanf(f, "%u %u %u", &inside, &outside, &count) == 3 && !inside && !outside &&
                 count == UINT32_MAX;
    fclose(f);
    return !whole;
}

static bool trusted(uid_t uid) {
    return uid == 0 || uid == geteuid() || (uid == OVERFLOW_UID && in_user_namespace());
}

/* path is the runtime directory (last) or one above it. */
static int check_directory(const char *path, const char *dir, bool last, struct error *err) {
    struct stat st;
    const char *what = last ? "" : ", which is above it,";
    if (stat(path, &st))
        return error_errno(err, RDMAD_E_SYSTEM, "%s cannot be looked at", path);
    if (!S_ISDIR(st.st_mode))
        return error_set(err, RDMAD_E_CONFIG, "the runtime directory %s is not a directory", path);
    if (!trusted(st.st_uid))
        return error_set(err, RDMAD_E_PERM,
                         "the runtime directory %s is not safe: %s%s belongs to uid %u, who could "
                         "put a socket in our place; use a directory of root's or of uid %u",
                         dir, path, what, (unsigned)st.st_uid, (unsigned)geteuid());
    if ((st.st_mode & S_IWOTH) && (last || !(st.st_mode & S_ISVTX)))
        return error_set(err, RDMAD_E_PERM,
                         "the runtime directory %s is not safe: everybody may write to %s%s and "
                         "could put a socket in our place; chmod o-w %s",
                         dir, path, what, path);
    return 0;
}

/* from: the runtime directory (last), or the one that it is made in. */
static int check_directories(const char *from, const char *dir, bool last, struct error *err) {
    char path[PATH_MAX];
    if (!realpath(from, path))
        return error_errno(err, RDMAD_E_SYSTEM, "the runtime directory %s", dir);
    int rc = check_directory(path, dir, last, err);
    for (char *slash; !rc && path[1] && (slash = strrchr(path, '/'));) {
        slash[slash == path] = '\0'; /* the root keeps its slash */
        rc = check_directory(path, dir, false, err);
    }
    return rc;
}

static int cannot_make(const char *dir, struct error *err) {
    return error_errno(err, RDMAD_E_SYSTEM, "cannot make the runtime directory %s", dir);
}

/* make: O_CREAT, or 0. */
static int lock_take(const char *dir, int make, struct error *err) {
    char path[128];
    snprintf(path, sizeof(path), "%s/rdmad.lock", dir);
    int fd = open(path, O_RDWR | make | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "cannot open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        int rc =
            errno == EWOULDBLOCK
                ? error_set(err, RDMAD_E_BUSY,
                            "another rdmad runs in %s; stop it, or use another --runtime-dir", dir)
                : error_errno(err, RDMAD_E_SYSTEM, "cannot lock %s", path);
        close(fd);
        return rc;
    }
    return upper_fd(fd);
}

int instance_lock(const char *dir, struct error *err) {
    if (mkdir(dir, 0755) && errno != EEXIST)
        return cannot_make(dir, err);
    int unsafe = check_directories(dir, dir, true, err);
    return unsafe ? unsafe : lock_take(dir, O_CREAT, err);
}

/* Free, or not there. */
static int check_lock(const char *dir, struct error *err) {
    struct stat st;
    char path[128];
    snprintf(path, sizeof(path), "%s/rdmad.lock", dir);
    if (lstat(path, &st) && errno == ENOENT)
        return 0;
    int fd = lock_take(dir, 0, err);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

int instance_check(const char *dir, bool taken, struct error *err) {
    struct stat st;
    char above[PATH_MAX];
    snprintf(above, sizeof(above), "%s", dir);
    if (stat(dir, &st) && errno == ENOENT) {
        const char *parent = dirname(above);
        return eaccess(parent, W_OK | X_OK) ? cannot_make(dir, err)
                                            : check_directories(parent, dir, false, err);
    }
    int rc = check_directories(dir, dir, true, err);
    if (!rc && eaccess(dir, W_OK | X_OK))
        rc = error_errno(err, RDMAD_E_SYSTEM, "the runtime directory %s cannot be written to", dir);
    return rc || taken ? rc : check_lock(dir, err);
}

static const char *const remedy = "raise LimitNOFILE of the unit, or ulimit -n, or lower them";

/* What the limits allow clients and peers to have at once, and what of it they can make us keep
 * beyond what they use. */
static void check_enough(const struct config *c, uint64_t have) {
    struct quota_limits limits;
    limits_of(c, &limits);
    uint64_t mappings = limits.total[QUOTA_MAPPINGS];
    uint64_t own = FILES_OWN + FILES_A_WORKER * c->workers;
    uint64_t peers = c->max_peers * (FILES_A_PEER + c->workers);
    uint64_t need = own + c->max_sessions * (FILES_A_SESSION + FILES_A_RING) + peers;
    uint64_t worst = own + c->max_sessions * (FILES_A_SESSION + FILES_UNREAD) +
                     mappings * FILES_A_MAPPING + peers;
    if (have < need)
        LOG(WARNING, ("%" PRIu64 " files can be open, and %" PRIu64
                      " sessions (limits.sessions) with a ring each and %" PRIu64
                      " peers (peer.max) may need %" PRIu64 ": %s",
                      have, c->max_sessions, c->max_peers, need, remedy));
    else if (have < worst)
        LOG(INFO, ("rude clients can make rdmad keep %" PRIu64 " (%" PRIu64
                   " limits.sessions, %" PRIu64 " limits.mappings) files open, of %" PRIu64 ": %s",
                   worst, c->max_sessions, mappings, have, remedy));
}

uint64_t instance_raise_limits(const struct config *c) {
    struct rlimit limit, wanted;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 0;
    wanted = limit;
    wanted.rlim_cur = limit.rlim_max;
    if (limit.rlim_cur != limit.rlim_max && setrlimit(RLIMIT_NOFILE, &wanted) == 0)
        limit = wanted;
    else if (limit.rlim_cur != limit.rlim_max)
        LOG(WARNING,
            ("cannot raise the number of open files to %llu", (unsigned long long)limit.rlim_max));
    if (limit.rlim_cur == RLIM_INFINITY)
        return 0;
    check_enough(c, limit.rlim_cur);
    uint64_t kept = limit.rlim_cur / 4;
    return limit.rlim_cur - (kept < KEPT_FOR_CLIENTS ? kept : KEPT_FOR_CLIENTS);
}

/* ---- memory that is locked ----------------------------------------------------------------- */

static bool there_is_swap(void) {
    FILE *f = fopen("/proc/swaps", "re");
    int lines = 0;
    for (int c; f && (c = fgetc(f)) != EOF;)
        lines += c == '\n';
    if (f)
        fclose(f);
    return lines > 1; /* the first is a heading */
}

void instance_check_lock(uint64_t pool_bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= pool_bytes || capable(CAP_IPC_LOCK) || !there_is_swap())
        return;
    LOG(WARNING, ("%llu KiB of memory can be locked (RLIMIT_MEMLOCK), and pools and rings may take "
                  "%llu KiB (limits.pool_bytes): what is beyond may be swapped out, and a worker "
                  "that touches it waits for the disk, with all its sessions; set "
                  "LimitMEMLOCK=infinity in the unit, or raise ulimit -l",
                  (unsigned long long)limit.rlim_cur >> 10, (unsigned long long)pool_bytes >> 10));
}
