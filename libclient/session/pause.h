/* SPDX-License-Identifier: MIT */
/*
 * pause.h - the event that an operator paused or resumed the session.
 */
#ifndef RDMAD_LIBCLIENT_PAUSE_H
#define RDMAD_LIBCLIENT_PAUSE_H

struct rdmad_session;

int rdmad_pause_new(struct rdmad_session *s); /* 0 or RDMAD_E_NOMEM */
/* With the lock. */
void rdmad_pause_on_event(struct rdmad_session *s, const void *body);
void rdmad_pause_free(struct rdmad_session *s);

#endif
