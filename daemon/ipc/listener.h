/* SPDX-License-Identifier: MIT */
/*
 * listener.h - a listening Unix socket that accepts and hands over, nothing else.
 *
 * Binds RUNTIME_DIR/NAME with the given mode and group, or takes a socket that systemd passed. A
 * leftover socket on which nobody answers is replaced; if somebody answers, that is an error. A
 * socket that an earlier life of this process has bound there is gone on with. When descriptors run
 * out, a client is accepted with one that is kept in reserve, and given to refused, which tells it
 * so and closes; only if there is no such descriptor is accepting paused for a moment.
 *
 * Nothing is received here, and nothing that was queued is dropped: connections that nobody
 * accepted end with the process (listener_free leaves a listening socket open).
 */
#ifndef RDMAD_IPC_LISTENER_H
#define RDMAD_IPC_LISTENER_H

#include "daemon/base/error.h"
#include <stdbool.h>
#include <sys/types.h>

struct event_base;
struct kept; /* ipc/kept.h */
struct listener;

struct listener_spec {
    const char *path;
    int type; /* SOCK_SEQPACKET or SOCK_STREAM */
    mode_t mode;
    gid_t group;                         /* (gid_t)-1: as a new file's */
    int activated;                       /* a listening descriptor from systemd, or -1 */
    struct kept *kept;                   /* what the life before has left open; NULL: nothing */
    void (*refused)(void *user, int fd); /* takes over fd; NULL: there is nothing to say */
};

/* Whether listener_new would succeed, as far as that is seen without making or taking anything.
 * What is in spec->kept counts as kept by its path; NULL: it is not known who listens there, and
 * then whoever does is in nobody's way. */
int listener_check(const struct listener_spec *spec, struct error *err);

int listener_new(struct event_base *base, const struct listener_spec *spec,
                 void (*accepted)(void *user, int fd), void *user, struct listener **out,
                 struct error *err);
void listener_pause(struct listener *l); /* while stopping */
/* Lets nobody in for now; clients wait in the backlog. */
void listener_suspend(struct listener *l, bool on);
/* Its socket is in kept, too, as the next life would have it. False: it could not. */
bool listener_tell(const struct listener *l, struct kept *kept);
/* Its socket and path stay when it is freed, and are in kept, for the next life. False: they cannot
 * be, and it is as it was. */
bool listener_keep(struct listener *l, struct kept *kept);
void listener_free(struct listener *l); /* removes a path it bound itself */

#endif
