/* SPDX-License-Identifier: MIT */
/*
 * resume.h - a session that outlives its daemon.
 *
 * Where the daemon can (RDMAD_MSG_RESUME_OFFER), a session whose socket ends without a word is
 * AWAY, not lost. A thread of the process watches all such sessions. It looks for another daemon at
 * the same path, proves to it which session this was, and hands back what the session has: pools
 * with their contents, leases that it granted and what others made of them, services with their
 * budgets, channels, leases that it attached to; and it watches names anew. Then the
 * session is OPEN again, and RDMAD_EVENT_SESSION_RESUMED says so. Rings are revived by their own
 * threads when they are next used (ring/revive.h). If no daemon has come after the session's
 * call_timeout_ms, or it refuses, the session is lost.
 */
#ifndef RDMAD_LIBCLIENT_RESUME_H
#define RDMAD_LIBCLIENT_RESUME_H

struct rdmad_session;
struct sockaddr_un;

/* Right after HELLO, which said name; address is the daemon's. A daemon that cannot leaves the
 * session as it is. Returns 0, or an error when the session cannot be opened at all. */
int rdmad_resume_new(struct rdmad_session *s, const struct sockaddr_un *address, const char *name);
/* When this returns the thread is done with the session for good. */
void rdmad_resume_free(struct rdmad_session *s);

/* Around fork: a child has no thread, and none of its parent's sessions. */
void rdmad_resume_before_fork(void);
void rdmad_resume_in_parent(void);
void rdmad_resume_in_child(void);

#endif
