/* SPDX-License-Identifier: MIT */
/*
 * pause.h - a session whose rings are not read for a while, because somebody says so.
 *
 * What the worker took before goes on to its end; what is on the rings stays there, and its
 * deadlines begin when it is taken. Everything else lives on: memory, leases, attaches, channels,
 * and requests over the socket, so the end of the session, or of anything of it, waits for no
 * resume. The client is told of either; one that reads late is told how it stands then.
 *
 * Who pauses with the right "act" decides alone when it ends: the session's own user may neither
 * resume nor pause it anew then.
 */
#ifndef RDMAD_STATE_PAUSE_H
#define RDMAD_STATE_PAUSE_H

#include "daemon/state/late_event.h"

struct session_pause {
    struct session *session;
    bool on;
    bool by_admin; /* who had the right to act on everybody's sessions */
    bool by_drain; /* all are, and until that is over */
    uid_t uid;     /* who said so last */
    uint64_t since_ns;
    char why[RDMAD_TEXT_MAX + 1]; /* the sentence for the client */
    struct late_event told;
};

struct pause_order {
    bool pause; /* or resume */
    uid_t uid;
    bool by_admin, by_drain;
    const char *why; /* NULL: nothing was said */
};

/* Whether it would be done: 0, RDMAD_E_PERM, or RDMAD_E_BUSY (all are paused, drain.h). */
int session_may_pause(const struct session *s, const struct pause_order *order, struct error *err);
/* done: so it is. To pause a session that is paused says who and why anew; to resume one that is
 * not changes nothing. Returns 0, or without a call of done what session_may_pause does, or
 * RDMAD_E_NOMEM. The session must not be closing. */
int session_pause(struct session *s, const struct pause_order *order, plane_done *done, void *arg,
                  struct error *err);
/* NULL: it is not paused. */
const struct session_pause *session_paused(const struct session *s);
/* The client was greeted, and hears of a pause that was there before. */
void session_pause_greeted(struct session *s);
/* The session closes. */
void session_pause_forget(struct session *s);

#endif
