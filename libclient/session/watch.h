/* SPDX-License-Identifier: MIT */
/*
 * watch.h - watches of names, as a program knows them.
 *
 * A program knows a watch by the number that the first daemon gave it. Later daemons give it
 * others, which nobody but watch.c sees.
 */
#ifndef RDMAD_LIBCLIENT_WATCH_H
#define RDMAD_LIBCLIENT_WATCH_H

#include <stdint.h>

struct rdmad_session;

/* What an event brings, with the lock. */
void rdmad_watch_on_event(struct rdmad_session *s, const void *body);
/* Frees all watches, and events that were not taken. */
void rdmad_watches_dispose(struct rdmad_session *s);

/* With the lock: the daemon that told of them is gone. */
void rdmad_watches_leave(struct rdmad_session *s);
/* How many the daemon at hand has not got. */
unsigned rdmad_watches_away(struct rdmad_session *s);
/* Begins those anew that the daemon has not got, many at a time, each once a round; from until_ns
 * on the next call goes on with it. round is 0 where one begins. How many it still has not got. */
unsigned rdmad_watches_resume(struct rdmad_session *s, uint64_t *round, uint64_t until_ns);
/* Those that it was asked for and still has not got end; how many there still are. */
unsigned rdmad_watches_give_up(struct rdmad_session *s);

#endif
