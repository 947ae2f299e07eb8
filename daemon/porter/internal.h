/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the porter's files have of each other.
 */
#ifndef RDMAD_PORTER_INTERNAL_H
#define RDMAD_PORTER_INTERNAL_H

#include "daemon/porter/porter.h"
#include <stdbool.h>
#include <sys/types.h>

/* privileges.c: gives up what the process does not need. False: it must not go on. */
bool privileges_drop(int argc, char **argv);

/* child.c */
#define CHILD_FDS_MAX 66u
/* Forks. In the child (0) only the descriptors in keep are open, whose numbers stay; the parent
 * goes on (the pid, or -1) when that is so. */
pid_t child_fork(const int *keep, unsigned n);

/* packet.c: one packet with at most one descriptor over a pair of ours; these wait. */
bool packet_send(int sock, const void *data, size_t size, int fd);
/* False: the other side is gone. *size is in and out; *fd is -1 where none came. */
bool packet_recv(int sock, void *data, size_t *size, int *fd, bool wait);

/* worker.c: takes packets of one uid's sockets, in a process of its own. Does not return. */
_Noreturn void worker_run(int tasks);

/* drop.c: lets go of these descriptors, which may be the last references, without waiting for what
 * is queued in them. */
#define DROP_MAX 60u
void drop_all(const int *fds, unsigned n);
/* A child has ended. */
void drop_ended(pid_t pid);

#endif
