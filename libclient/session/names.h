/* SPDX-License-Identifier: MIT */
/*
 * names.h - events of watches.
 */
#ifndef RDMAD_LIBCLIENT_NAMES_H
#define RDMAD_LIBCLIENT_NAMES_H

struct rdmad_session;

/* What an event brings, with the lock. */
void rdmad_names_on_event(struct rdmad_session *s, const void *body);
/* Frees those that were not taken. */
void rdmad_names_dispose(struct rdmad_session *s);

#endif
