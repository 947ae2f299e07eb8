/* SPDX-License-Identifier: MIT */
/*
 * instance.c - a flock on RUNTIME_DIR/rdmad.lock, which dies with the process whatever ends it. The
 * file stays: removing a locked file lets two daemons lock two files of one name.
 */
#include "daemon/instance.h"
#include "daemon/base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int instance_lock(const char *dir, struct error *err) {
    if (mkdir(dir, 0755) && errno != EEXIST)
        return error_errno(err, RDMAD_E_SYSTEM, "cannot make the runtime directory %s", dir);
    char path[128];
    snprintf(path, sizeof(path), "%s/rdmad.lock", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
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
    return fd;
}

/* A session takes two descriptors and each of its rings one, a peer one and its link another. */
static void check_enough(const struct config *c, uint64_t have) {
    uint64_t need = 3 * c->max_sessions + 2 * c->max_peers;
    if (have < need)
        LOG(WARNING, ("%llu files can be open, and %llu sessions (limits.sessions) with a ring "
                      "each and %llu "
                      "peers (peer.max) may need %llu: raise LimitNOFILE of the unit, or ulimit "
                      "-n, or lower "
                      "them",
                      (unsigned long long)have, (unsigned long long)c->max_sessions,
                      (unsigned long long)c->max_peers, (unsigned long long)need));
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
    return limit.rlim_cur;
}
