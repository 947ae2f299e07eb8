/* SPDX-License-Identifier: MIT */
/*
 * resumer.h - the threads that watch sessions, and bring them back when their daemon has gone
 * (resume.h): one for each daemon, which is a socket's path. So one that hangs keeps nobody waiting
 * but its own sessions.
 */
#ifndef RDMAD_LIBCLIENT_RESUMER_H
#define RDMAD_LIBCLIENT_RESUMER_H

struct rdmad_session;
struct sockaddr_un;

/* Right after HELLO, which said name; address is the daemon's. A daemon that cannot resume leaves
 * the session as it is. Returns 0, or an error when the session cannot be opened at all. */
int rdmad_resumer_watch(struct rdmad_session *s, const struct sockaddr_un *address,
                        const char *name);
/* When this returns the thread is done with the session for good. */
void rdmad_resumer_leave(struct rdmad_session *s);

/* Around fork: a child has no such thread, and none of its parent's sessions. */
void rdmad_resumers_before_fork(void);
void rdmad_resumers_in_parent(void);
void rdmad_resumers_in_child(void);

#endif
