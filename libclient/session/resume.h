/* SPDX-License-Identifier: MIT */
/*
 * resume.h - a session that outlives its daemon.
 *
 * Where the daemon can (RDMAD_MSG_RESUME_OFFER), a session whose socket ends without a word is
 * AWAY, not lost. Another daemon is looked for at the same path, is proven to which session this
 * was, and is handed back what the session has: pools with their contents, leases that it granted
 * and what others made of them, services with their budgets, channels, leases that it attached to;
 * and names are watched anew. Then the session is OPEN again, and RDMAD_EVENT_SESSION_RESUMED says
 * so. Rings are revived by their own threads when they are next used (ring/revive.h). If no daemon
 * has come after the session's call_timeout_ms, or it refuses, the session is lost.
 *
 * All of it is done in steps, by the thread that watches the sessions of that daemon (resumer.h).
 * It alone calls what is not new or free, all but the step with the lock of its list.
 */
#ifndef RDMAD_LIBCLIENT_RESUME_H
#define RDMAD_LIBCLIENT_RESUME_H

#include "libclient/control/event_queue.h"
#include "libclient/lease/lease.h"
#include <rdmad/wire.h>
#include <stdbool.h>
#include <sys/un.h>

struct rdmad_resumer;
struct rdmad_session;

/* Of the daemon, by a step. */
enum rdmad_resume_found {
    RDMAD_FOUND_NOTHING, /* that is new */
    RDMAD_FOUND_DAEMON,  /* it is there: all was handed back */
    RDMAD_FOUND_SILENCE, /* it was met, and said nothing for too long */
};

struct rdmad_resume {
    struct rdmad_session *session;
    struct rdmad_resumer *resumer; /* who steps it */
    struct rdmad_resume *next;     /* the next one that it steps */
    unsigned place;                /* in its array for poll */
    int fd;                        /* just connected, until it is the session's; -1: none */
    bool due;                      /* the socket has ended */
    bool hopeless;                 /* AWAY: to be given up, and not tried any more */

    struct rdmad_resume_proof proof;
    struct sockaddr_un address;
    char name[RDMAD_NAME_MAX + 1];
    struct rdmad_event_source source; /* SESSION_RESUMED */
    uint64_t away_ns;                 /* for how long it was */
    struct rdmad_event_source losses; /* NOTIFICATIONS_LOST */
    size_t lost;                      /* that were not told yet; and whether there may be others */
    bool may_be_lost;

    uint64_t away_since_ns, next_ns, pause_ns;
    uint64_t gone_ns;        /* when the last daemon that it was shown to went; 0: not known yet */
    uint64_t asked_since_ns; /* when the rest was asked for first; 0: not yet */
    bool unmet;   /* AWAY: it has not looked for a daemon yet, or found none when it looked last */
    bool counted; /* what notifications were lost with the daemon at which it was open last */
    bool granted; /* since then another one has had its leases */
    bool some_away; /* attaches or watches, which are tried again */
    struct rdmad_attach_round round;
    uint64_t watch_round;
};

/* Right after HELLO, which said name; address is the daemon's. NULL in out: the daemon cannot, and
 * the session is as it is. Returns 0, or an error when the session cannot be opened at all. */
int rdmad_resume_new(struct rdmad_session *s, const struct sockaddr_un *address, const char *name,
                     struct rdmad_resume **out);
/* When nobody steps it any more. */
void rdmad_resume_free(struct rdmad_resume *r);

/* Whether a daemon that does not resume the session, or ends it while it is RESUMING, with that
 * status, may do so the next time: it has no room, is just stopping, or its porter has ended. */
bool rdmad_resume_may_mend(int status);

/* If the session is AWAY and this was not known, its time without a daemon begins now. */
void rdmad_resume_note_away(struct rdmad_resume *r, uint64_t now_ns);
/* When a step is due though its socket says nothing; UINT64_MAX: never. */
uint64_t rdmad_resume_next_ns(const struct rdmad_resume *r);
/* The lower, the earlier it has its turn among those that are due; UINT64_MAX: it is not due. One
 * that has been handed back lets those that are still away go first, for REST_FIRST_NS at most. */
uint64_t rdmad_resume_turn_ns(const struct rdmad_resume *r, uint64_t now_ns);
enum rdmad_resume_found rdmad_resume_step(struct rdmad_resume *r);
/* A daemon is there, which it need not wait to find. */
void rdmad_resume_hurry(struct rdmad_resume *r, uint64_t now_ns);
/* A daemon is there that said nothing to another session for as long as that one waits. Who has no
 * patience left, and would not wait for longer, is given up by its next step, before others have
 * their turn: one after the other they would each wait for that daemon. */
void rdmad_resume_despair(struct rdmad_resume *r, const struct rdmad_session *other,
                          uint64_t now_ns);

#endif
