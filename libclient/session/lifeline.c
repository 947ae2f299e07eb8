/* SPDX-License-Identifier: MIT */
/*
 * lifeline.c - the descriptor keeps its number from daemon to daemon, so who sleeps on it needs no
 * lock.
 */
#include "libclient/session/lifeline.h"
#include "libclient/base/error.h"
#include "libclient/control/control.h"
#include <fcntl.h>
#include <unistd.h>

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

static int lifeline_ask(struct rdmad_session *s) {
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
    return lifeline_set(s, fd);
}

int rdmad_lifeline_take(struct rdmad_session *s) {
    int rc = lifeline_ask(s);
    if (!rc)
        __atomic_store_n(&s->answered_at, rdmad_resumes(s), __ATOMIC_RELEASE);
    return rc;
}
