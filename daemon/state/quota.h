/* SPDX-License-Identifier: MIT */
/*
 * quota.h - who holds how much, and how much is too much.
 *
 * Everything an outsider can make the daemon hold is charged to its session, its uid and the daemon
 * as a whole before it is made; the charge is an object in the holder's struct that undoes itself
 * exactly once. A refusal names the resource, whose limit it is, used, asked and the limit.
 */
#ifndef RDMAD_STATE_QUOTA_H
#define RDMAD_STATE_QUOTA_H

#include "daemon/base/error.h"
#include "daemon/base/list.h"
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
    QUOTA_MAPPINGS, /* of the process, of which the kernel allows so many: a pool 1, a ring 2 */
    QUOTA_CHANNELS, /* ends of channels, and connections that wait to be accepted */
    QUOTA_COUNT
};

struct quota_limits {
    uint64_t total[QUOTA_COUNT], uid[QUOTA_COUNT], session[QUOTA_COUNT]; /* UINT64_MAX: none */
};

struct quota_account { /* one a session, one a uid, one for all */
    uint64_t used[QUOTA_COUNT];
    uid_t uid;
    unsigned refs;
    unsigned lies; /* how often the uid lied about memory; an account with any is kept */
    struct list node;
};

struct quota {
    struct quota_limits limits;
    struct quota_account total;
    struct list uids; /* accounts alive, by uid */
};

struct quota_charge { /* zero: nothing charged */
    struct quota *quota;
    struct quota_account *session, *uid;
    enum quota_resource resource;
    uint64_t amount;
};

void quota_init(struct quota *q, const struct quota_limits *limits);
void quota_fini(struct quota *q);

/* The account of a uid, made when missing; each ref is given back. NULL: out of memory. */
struct quota_account *quota_uid_ref(struct quota *q, uid_t uid);
void quota_uid_unref(struct quota *q, struct quota_account *uid);

/* Charges amount to all three or to none. session may be NULL (the session itself is charged). */
int quota_charge(struct quota *q, struct quota_account *session, struct quota_account *uid,
                 enum quota_resource r, uint64_t amount, struct quota_charge *out,
                 struct error *err);
void quota_discharge(struct quota_charge *c); /* harmless when nothing is charged */

#endif
