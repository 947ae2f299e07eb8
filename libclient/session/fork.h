/* SPDX-License-Identifier: MIT */
/*
 * fork.h - sessions and fork.
 */
#ifndef RDMAD_LIBCLIENT_FORK_H
#define RDMAD_LIBCLIENT_FORK_H

struct rdmad_session;

/* From add to remove: in a child of fork the session is lost, and inherited. */
void rdmad_fork_add(struct rdmad_session *s);
void rdmad_fork_remove(struct rdmad_session *s);

#endif
