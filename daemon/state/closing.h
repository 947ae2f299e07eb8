/* SPDX-License-Identifier: MIT */
/*
 * closing.h - descriptors of files that a client has or had as well are closed by somebody whom the
 * last close may keep.
 *
 * Memory is freed in its last close, which takes the longer the larger the client made it: a
 * registration thread of its user does that. What an epoll of the client's watches (a doorbell, a
 * socket, a pipe) is closed when the client lets it be: that is for the porter (ipc/porter.h),
 * which gives it to a process of that user's.
 */
#ifndef RDMAD_STATE_CLOSING_H
#define RDMAD_STATE_CLOSING_H

#include "daemon/base/offload.h"
#include "daemon/ipc/porter.h"

struct session;

struct closing { /* all internal */
    int fd;
    struct offload_job job;
    struct porter_visit visit;
    void (*closed)(void *arg);
    void *arg;
};

/* Closes fd. closed is called when it is, in a later turn or in this one; until then c and s stay.
 * What a porter has that dies is not waited for any longer. */
void closing_begin(struct closing *c, struct session *s, int fd, void (*closed)(void *arg),
                   void *arg);

/* Closes fd, holding s. Until it is closed nothing more of the session is read, so it has few
 * waiting. */
void session_close_fd(struct session *s, int fd);
/* The same, and reads on: for what a session has once. */
void session_close_one_fd(struct session *s, int fd);

#endif
