/* SPDX-License-Identifier: MIT */
/*
 * quota.h - who holds how much, and how much is too much.
 *
 * Everything an outsider can make the daemon hold is charged to its session, its uid and the daemon
 * as a whole before it is made; the charge is an object in the holder's struct that undoes itself
 * exactly once. A refusal names the resource, whose limit it is, used, asked and the limit.
 *
 * The last free part of a total is for others (quota_keep_last): of what is free and a user's own,
 * an eighth of the total stays free, or half of it where that is less. So one user alone on the
 * machine can have seven eighths, and there is always a place for another. Nothing is kept of a
 * total below 8.
 */
#ifndef RDMAD_STATE_QUOTA_H
#define RDMAD_STATE_QUOTA_H

#include "daemon/base/error.h"
#include "daemon/base/list.h"
#include <stdbool.h>
#include <sys/types.h>

enum quota_resource {
    QUOTA_SESSIONS,
    QUOTA_BYTES,      /* of pools and rings */
    QUOTA_REGISTERED, /* bytes of leases, once for each attach from another daemon */
    QUOTA_POOLS,
    QUOTA_RINGS,
    QUOTA_LEASES,
    QUOTA_ATTACHES,
    QUOTA_SERVICES,
    QUOTA_MAPPINGS,  /* of the process, of which the kernel allows so many: a pool 1, a ring 2 */
    QUOTA_CHANNELS,  /* ends of channels, and connections that wait to be accepted */
    QUOTA_QUESTIONS, /* at other daemons: lists, watches, parts of leases, attaches given up */
    QUOTA_COUNT
};

/* As in outputs of rdmactl: "pool_bytes". */
const char *quota_name(enum quota_resource r);
/* What a setting ("limits.pools_per_uid") limits, of a user or of a session; false: it is none of
 * those. */
bool quota_find_key(const char *key, enum quota_resource *of, bool *session);

struct quota_limits {
    uint64_t total[QUOTA_COUNT], uid[QUOTA_COUNT], session[QUOTA_COUNT]; /* UINT64_MAX: none */
};

struct quota_account { /* one a session, one a user, one for all */
    uint64_t used[QUOTA_COUNT];
    uid_t uid;
    uint32_t tenant; /* of a user: by whose socket it came; 0: nobody's */
    /* Of a user, for itself and its sessions; NULL: everybody's. */
    struct quota_limits *own;
    uint64_t calls_due_ns; /* when the user's next request is due, by its rate; 0: it made none */
    uint32_t keepalive_questions; /* a second, of a user's channels (state/keepalive.h) */
    uint32_t budget_pieces;       /* that were handed over to a user's services (state/budget.h) */
    struct list failing, failing_node; /* its sessions with failures to tell (state/failures.h) */
    struct list idle_node; /* of a user that made some and has nothing now: in quota->idle */
    unsigned refs;
    unsigned lies; /* how often the uid lied about memory; an account with any is kept */
    struct list node;
};

struct quota {
    struct quota_limits limits;
    struct quota_account total;
    struct list uids; /* accounts alive, by uid and tenant */
    struct list idle; /* of those the ones that only keep what their user owes its rate */
    bool keeps_last;
};

struct quota_charge { /* zero: nothing charged */
    struct quota *quota;
    struct quota_account *session, *uid;
    enum quota_resource resource;
    uint64_t amount;
    bool kept; /* it has outlived its session, and has a reference of the uid's account */
};

void quota_init(struct quota *q, const struct quota_limits *limits);
void quota_fini(struct quota *q);

/* From now on the last part of each total is for others. */
void quota_keep_last(struct quota *q);

/* The account of a uid, made when missing; each ref is given back. NULL: out of memory. The same
 * uid by a tenant's socket is another user. */
struct quota_account *quota_uid_ref(struct quota *q, uid_t uid);
struct quota_account *quota_user_ref(struct quota *q, uid_t uid, uint32_t tenant);
/* The limits of one user and its sessions, copied; NULL: everybody's. 0 or RDMAD_E_NOMEM. */
int quota_set_own(struct quota_account *uid, const struct quota_limits *limits);
/* What holds for a user. */
const struct quota_limits *quota_limits_of(const struct quota *q, const struct quota_account *uid);
/* NULL: there is none at the moment. */
const struct quota_account *quota_find(const struct quota *q, uid_t uid, uint32_t tenant);
void quota_uid_unref(struct quota *q, struct quota_account *uid);
/* Users that have gone, and whose next request was due before that moment, are forgotten, some at a
 * time. Until then who comes again owes its rate what it owed. */
void quota_forget_idle(struct quota *q, uint64_t due_ns);

/* Charges amount to all three or to none. session may be NULL (the session itself is charged). */
int quota_charge(struct quota *q, struct quota_account *session, struct quota_account *uid,
                 enum quota_resource r, uint64_t amount, struct quota_charge *out,
                 struct error *err);
/* What was charged outlives its session and becomes something else: the uid and all are charged as
 * much of that, whatever the limits, and the session nothing. Who makes things that may come to
 * this asks before (quota_room). Harmless when nothing is charged. */
void quota_keep(struct quota_charge *from, enum quota_resource as, struct quota_charge *to);
/* 0 while the user has no more of it than it may; else RDMAD_E_LIMIT, as of a charge. */
int quota_room(struct quota *q, struct quota_account *uid, enum quota_resource r,
               struct error *err);
void quota_discharge(struct quota_charge *c); /* harmless when nothing is charged */

#endif
