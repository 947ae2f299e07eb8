/* SPDX-License-Identifier: MIT */
/*
 * watch.h - watches of names, as a program knows them.
 *
 * A program knows a watch by the number that the first daemon gave it. Later daemons give it
 * others, which nobody but watch.c sees.
 */
#ifndef RDMAD_LIBCLIENT_WATCH_H
#define RDMAD_LIBCLIENT_WATCH_H

struct rdmad_session;

/* What an event brings, with the lock. */
void rdmad_watch_on_event(struct rdmad_session *s, const void *body);
/* Frees all watches, and events that were not taken. */
void rdmad_watches_dispose(struct rdmad_session *s);

/* With the lock: the daemon that told of them is gone. */
void rdmad_watches_leave(struct rdmad_session *s);
/* Begins those anew that the daemon has not got, each once; how many it still has not. */
unsigned rdmad_watches_resume(struct rdmad_session *s);
/* Those that it still has not got end. */
void rdmad_watches_give_up(struct rdmad_session *s);

#endif
