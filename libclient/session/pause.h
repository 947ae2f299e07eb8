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
/* The daemon that had it paused is gone. The next one says after HELLO if it has it paused, too. */
void rdmad_pause_leave(struct rdmad_session *s);
void rdmad_pause_free(struct rdmad_session *s);

#endif
