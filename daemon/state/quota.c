/* SPDX-License-Identifier: MIT */
/*
 * quota.c - three accounts a charge: the session's, its uid's, everybody's.
 *
 * All three are checked before any is touched, so a refusal changes nothing.
 */
#include "daemon/state/quota.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* What a resource is called, and the settings that limit it; NULL: no limit of that kind. */
static const struct {
    const char *name, *total_key, *uid_key, *session_key;
} resources[QUOTA_COUNT] = {
    [QUOTA_SESSIONS] = {"sessions", "limits.sessions", "limits.sessions_per_uid", NULL},
    [QUOTA_BYTES] = {"bytes of pools and rings", "limits.pool_bytes", "limits.pool_bytes_per_uid",
                     "limits.pool_bytes_per_session"},
    [QUOTA_REGISTERED] = {"bytes registered for other daemons", "limits.registered_bytes",
                          "limits.registered_bytes_per_uid", "limits.registered_bytes_per_session"},
    [QUOTA_POOLS] = {"pools", NULL, "limits.pools_per_session", "limits.pools_per_session"},
    [QUOTA_RINGS] = {"rings", NULL, "limits.rings_per_session", "limits.rings_per_session"},
    [QUOTA_LEASES] = {"leases", NULL, "limits.leases_per_session", "limits.leases_per_session"},
    [QUOTA_ATTACHES] = {"attached leases", NULL, "limits.attaches_per_session",
                        "limits.attaches_per_session"},
    [QUOTA_SERVICES] = {"services", NULL, "limits.services_per_session",
                        "limits.services_per_session"},
    [QUOTA_MAPPINGS] = {"mappings of pools and rings", "limits.mappings and vm.max_map_count",
                        "limits.mappings_per_uid", NULL},
    [QUOTA_CHANNELS] = {"channels", NULL, "limits.channels_per_session",
                        "limits.channels_per_session"},
};

void quota_init(struct quota *q, const struct quota_limits *limits) {
    *q = (struct quota){.limits = *limits};
    list_init(&q->uids);
    list_init(&q->total.node);
}

void quota_fini(struct quota *q) {
    struct list *node;
    while ((node = list_pop(&q->uids)))
        free(list_entry(node, struct quota_account, node));
}

struct quota_account *quota_uid_ref(struct quota *q, uid_t uid) {
    list_for_each (node, &q->uids) {
        struct quota_account *a = list_entry(node, struct quota_account, node);
        if (a->uid == uid) {
            a->refs++;
            return a;
        }
    }
    struct quota_account *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    a->uid = uid;
    a->refs = 1;
    list_append(&q->uids, &a->node);
    return a;
}

void quota_uid_unref(struct quota *q, struct quota_account *uid) {
    (void)q;
    if (!uid || --uid->refs || uid->lies)
        return;
    list_remove(&uid->node);
    free(uid);
}

/* Whether amount more fits; says why not. */
static int check(const struct quota_account *a, enum quota_resource r, uint64_t limit,
                 uint64_t amount, const char *whose, const char *key, struct error *err) {
    uint64_t sum;
    if (!__builtin_add_overflow(a->used[r], amount, &sum) && sum <= limit)
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     "%s may have %" PRIu64 " %s, has %" PRIu64 " and asked for %" PRIu64
                     " more; give some back or raise %s",
                     whose, limit, resources[r].name, a->used[r], amount, key ? key : "the limit");
}

int quota_charge(struct quota *q, struct quota_account *session, struct quota_account *uid,
                 enum quota_resource r, uint64_t amount, struct quota_charge *out,
                 struct error *err) {
    const struct quota_limits *l = &q->limits;
    char user[32];
    int rc = 0;
    snprintf(user, sizeof(user), "uid %u", (unsigned)uid->uid);
    if (session)
        rc = check(session, r, l->session[r], amount, "the session", resources[r].session_key, err);
    if (!rc)
        rc = check(uid, r, l->uid[r], amount, user, resources[r].uid_key, err);
    if (!rc)
        rc = check(&q->total, r, l->total[r], amount, "the daemon", resources[r].total_key, err);
    if (rc)
        return rc;

    if (session)
        session->used[r] += amount;
    uid->used[r] += amount;
    q->total.used[r] += amount;
    *out = (struct quota_charge){q, session, uid, r, amount};
    return 0;
}

void quota_discharge(struct quota_charge *c) {
    if (!c->quota)
        return;
    if (c->session)
        c->session->used[c->resource] -= c->amount;
    c->uid->used[c->resource] -= c->amount;
    c->quota->total.used[c->resource] -= c->amount;
    *c = (struct quota_charge){0};
}
