/* SPDX-License-Identifier: MIT */
/*
 * ctl.h - administration: JSON-RPC 2.0 over RUNTIME_DIR/control.sock, one document a line.
 *
 * ctl.c accepts and authorises, rpc.c turns lines into requests and results into lines, call.c is a
 * call until its answer, methods.c the table of what may be called. The policy ("admin") says what
 * a caller may, of the uid and groups that the kernel tells: its own, look at everybody's, or act.
 * Where there is a policy, as in every daemon, the socket is for everybody (0666); else for the
 * daemon's user and group.
 *
 * Everything runs on the control thread. Connections, the length of a line, the output that waits
 * and the calls that wait for an answer are bounded; a connection that exceeds a bound is answered
 * and closed.
 */
#ifndef RDMAD_CTL_CTL_H
#define RDMAD_CTL_CTL_H

#include "daemon/state/state.h"
#include <stdbool.h>

struct ctl;
struct ctl_method;

/* Listens. activated_fd: a listening SOCK_STREAM socket from systemd, or -1. Needs st->config and,
 * once calls arrive, the rest of st. */
int ctl_new(struct state *st, int activated_fd, struct ctl **out, struct error *err);

/* Whether its socket could be had (listener_check). */
int ctl_check(const struct state *st, struct error *err);

/* The same with any table of methods: find returns NULL where there is no such method. */
typedef const struct ctl_method *ctl_find(const char *name);
int ctl_listen(struct state *st, int activated_fd, ctl_find *find, struct ctl **out,
               struct error *err);

/* Lets nobody in for now, while the porter is behind; callers wait in the backlog. */
void ctl_suspend(struct ctl *ctl, bool on);

struct kept; /* ipc/kept.h */
/* As listener_tell has it. */
bool ctl_tell(const struct ctl *ctl, struct kept *kept);
/* Its socket is for the next life. */
bool ctl_keep(struct ctl *ctl, struct kept *kept);

/* Closes every connection; calls that still wait for the daemon end without an answer. Must run
 * before st's tables are freed. Peers and leases may still answer afterwards; those answers are
 * dropped. NULL is allowed. */
void ctl_free(struct ctl *ctl);

#endif
