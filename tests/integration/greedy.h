/* SPDX-License-Identifier: MIT */
/*
 * greedy.h - a user with many sessions who asks for ten times of everything that limits.* counts,
 * in a process of its own, and tells what it got.
 *
 *     struct user *u = user_new(uid, sessions, asks, d);
 *     user_start(u);
 *     ... (it says when it has come to its next step: a byte in tell[0]) ...
 *     user_go_on(u);
 *     user_stop(u);
 *
 * It takes what it gets and keeps it. With another daemon (far) it first attaches to a lease there,
 * and goes on when it is told that this daemon is stopped; in the end, when that goes on, all its
 * READs have to be done. Who has left notifications takes them in the end, if takes is set.
 */
#ifndef RDMAD_TEST_GREEDY_H
#define RDMAD_TEST_GREEDY_H

#include "tests/support/harness.h"
#include "tests/support/rawclient.h"

#define GREEDY_SESSIONS 100u
#define GREEDY_TIMES 10u /* what is asked, of what there may be */
#define GREEDY_PAGE 4096u
#define GREEDY_LONG_NS UINT64_C(600000000000)

enum what {
    LEASES,
    ATTACHES,
    SERVICES,
    CHANNELS,
    POOLS,
    RINGS,
    BYTES,
    MAPPINGS,
    QUESTIONS,
    REGISTERED,
    WHATS
};

/* Most settings limit a session; its user may then have 64 times that. */
struct limit {
    const char *name;      /* as in status */
    const char *key, *all; /* the settings that a refusal of a session, or of its user, names */
    unsigned unit, session, user;
    unsigned ends; /* that are counted for one; the other end of a channel is its host's */
};
extern const struct limit limits[WHATS];
#define ASKS(what) (1u << (what))
#define WITH_OBJECTS \
    (ASKS(LEASES) | ASKS(ATTACHES) | ASKS(SERVICES) | ASKS(CHANNELS) | ASKS(POOLS) | ASKS(RINGS))

/* What has a bound of its own, and stands in no output: watches of this daemon's names, and
 * notifications that their owner does not take. */
#define ASKS_WATCHES (1u << WHATS)
#define ASKS_NOTICES (2u << WHATS)
enum { WATCHES_SESSION = 16, NOTICES_LEASE = 16384, NOTICES_USER = 131072 };

enum { WAITS_SESSION = 64, WAITS_USER = 2048 };
enum { OPS_FREE = 64, OPS_SESSION = 128, OPS_USER = 640 }; /* the first of each are not counted */

struct user_session {
    int sock;
    uint64_t far;      /* handle of a lease at the other daemon */
    uint64_t notifies; /* handle of the first attach by which it notified */
    unsigned notices;  /* that it left */
    struct raw_pool pool;
    struct raw_ring ring;
    struct rdmad_lease_grant_rep lease;
};

/* What a user does, and what came of it; in memory that it shares with the test. */
struct user {
    uid_t uid;
    unsigned sessions, asks; /* asks: bits by enum what, and those above */
    bool takes;
    char dir[256];
    char service[RDMAD_URI_MAX + 1];                           /* to connect to */
    char far_lease[RDMAD_URI_MAX + 1], far[RDMAD_URI_MAX + 1]; /* "": there is no other daemon */
    unsigned got[WHATS], most[WHATS];                          /* all of it, and by one session */
    char no_session[WHATS][RDMAD_TEXT_MAX + 1], no_user[WHATS][RDMAD_TEXT_MAX + 1];
    unsigned waits, most_waits, done_ops;
    unsigned watches, most_watches;
    char no_watch[RDMAD_TEXT_MAX + 1];
    unsigned notices, most_notices, most_of_lease; /* most_notices: by one attach */
    struct user_session s[GREEDY_SESSIONS];
    pid_t pid;
    int tell[2], go[2];
};

struct user *user_new(uid_t uid, unsigned sessions, unsigned asks, struct tdaemon *d);
void user_start(struct user *u);
void user_go_on(struct user *u);
void user_stop(struct user *u); /* from its last step; frees u */

/* Somebody was refused one more of that. */
void user_refused(struct user *u, enum what what, const char *text);

#endif
