/* SPDX-License-Identifier: MIT */
/*
 * fork.h - sessions and fork.
 */
#ifndef RDMAD_LIBCLIENT_FORK_H
#define RDMAD_LIBCLIENT_FORK_H

struct rdmad_session;

/* From add to remove, a child of fork finds the session INHERITED. */
void rdmad_fork_add(struct rdmad_session *s);
void rdmad_fork_remove(struct rdmad_session *s);

#endif
