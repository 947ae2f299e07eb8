/* SPDX-License-Identifier: MIT */
/*
 * lifeline.c - the descriptor keeps its number from daemon to daemon, so who sleeps on it needs no
 * lock.
 */
#include "libclient/session/lifeline.h"
#include "libclient/base/error.h"
#include "libclient/control/control.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of one process that was asked twice. An inode has no other number while somebody holds it. */
static bool lifeline_is_same(int a, int b) {
    struct stat of_a, of_b;
    return a >= 0 && !fstat(a, &of_a) && !fstat(b, &of_b) && of_a.st_ino == of_b.st_ino &&
           of_a.st_dev == of_b.st_dev;
}

static int lifeline_set(struct rdmad_session *s, int fd) {
    int rc = 0;
    if (s->lifeline < 0) {
        __atomic_store_n(&s->lifeline, fd, __ATOMIC_RELEASE);
        return 0;
    }
    if (dup3(fd, s->lifeline, O_CLOEXEC) < 0)
        rc = rdmad_fail_errno(s, RDMAD_E_SYSTEM, "cannot keep the lifeline of rdmad");
    close(fd);
    return rc;
}

/* same: it is that of the daemon before, which still runs. */
static int lifeline_ask(struct rdmad_session *s, bool *same) {
    struct rdmad_lifeline_req request = {.reserved = 0};
    int fd;
    struct rdmad_call call = {.type = RDMAD_MSG_LIFELINE,
                              .request = &request,
                              .request_size = sizeof(request),
                              .fds = &fd,
                              .nfds = 1,
                              .one_try = true,
                              .quiet = true};
    if (s->version < RDMAD_ABI_LIFELINE)
        return 0;
    int rc = rdmad_control_call(s, &call);
    if (rc == RDMAD_E_TYPE)
        return 0; /* it is as good as any session was before there were lifelines */
    if (rc)
        return rdmad_is_lost(s) ? rdmad_fail_lost(s) : rdmad_fail(s, rc, "%s", call.text);
    *same = lifeline_is_same(s->lifeline, fd);
    return lifeline_set(s, fd);
}

int rdmad_lifeline_take(struct rdmad_session *s) {
    bool same = false;
    int rc = lifeline_ask(s, &same);
    if (!rc && !same)
        __atomic_store_n(&s->answered_at, rdmad_resumes(s), __ATOMIC_RELEASE);
    return rc;
}
