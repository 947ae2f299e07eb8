/* SPDX-License-Identifier: MIT */
/*
 * presence.h - whether the daemon is there, for threads that wait without having asked it anything:
 * for completions, events, connections.
 *
 * Who waits wakes once in the session's patience (options.call_timeout_ms) and asks something that
 * is answered at once. If nothing at all has come by the next time the daemon hangs, and the
 * session is lost as by a call that is not answered. So that is found out in twice the patience at
 * the latest. All that wait in a session ask one question among them. Nobody who waits, no
 * question.
 */
#ifndef RDMAD_LIBCLIENT_PRESENCE_H
#define RDMAD_LIBCLIENT_PRESENCE_H

#include "libclient/base/session.h"

/* When the next question is due, past or to come. A thread that waits sleeps no longer than until
 * then, and calls rdmad_presence_ask. */
static inline uint64_t rdmad_presence_due_ns(const struct rdmad_session *s) {
    return __atomic_load_n(&s->ask_ns, __ATOMIC_RELAXED);
}

/* Before anything waits. */
void rdmad_presence_begin(struct rdmad_session *s);
/* Asks, and judges, if it is due; else it does nothing. The session may be lost with that. */
void rdmad_presence_ask(struct rdmad_session *s);
/* With the lock, released meanwhile: rdmad_control_wait, and asks when it is due. Without a wait
 * (the deadline has passed), too. */
void rdmad_presence_wait(struct rdmad_session *s, bool (*ready)(struct rdmad_session *, void *),
                         void *arg, uint64_t deadline_ns);

#endif
