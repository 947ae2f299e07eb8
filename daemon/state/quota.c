/* SPDX-License-Identifier: MIT */
/*
 * quota.c - three accounts a charge: the session's, its uid's, everybody's.
 *
 * All three are checked before any is touched, so a refusal changes nothing.
 */
#include "daemon/state/quota.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a resource is called in outputs and in sentences, and the settings that limit it; NULL: no
 * limit of that kind. */
static const struct {
    const char *word, *name, *total_key, *uid_key, *session_key;
} resources[QUOTA_COUNT] = {
#define UID(KEY) "limits." KEY "_per_uid"
#define BOTH(KEY) UID(KEY), "limits." KEY "_per_session"
    [QUOTA_SESSIONS] = {"sessions", "sessions", "limits.sessions", UID("sessions"), NULL},
    [QUOTA_BYTES] = {"pool_bytes", "bytes of pools and rings", "limits.pool_bytes",
                     BOTH("pool_bytes")},
    [QUOTA_REGISTERED] = {"registered_bytes", "bytes registered for other daemons",
                          "limits.registered_bytes", BOTH("registered_bytes")},
    [QUOTA_POOLS] = {"pools", "pools", NULL, BOTH("pools")},
    [QUOTA_RINGS] = {"rings", "rings", NULL, BOTH("rings")},
    [QUOTA_LEASES] = {"leases", "leases", NULL, BOTH("leases")},
    [QUOTA_ATTACHES] = {"attaches", "attached leases", NULL, BOTH("attaches")},
    [QUOTA_SERVICES] = {"services", "services", NULL, BOTH("services")},
    [QUOTA_MAPPINGS] = {"mappings", "mappings of pools and rings",
                        "limits.mappings and vm.max_map_count", UID("mappings"), NULL},
    [QUOTA_CHANNELS] = {"channels", "channels", NULL, BOTH("channels")},
    [QUOTA_QUESTIONS] = {"questions", "questions at other daemons", NULL, BOTH("questions")},
#undef BOTH
#undef UID
};

const char *quota_name(enum quota_resource r) {
    return resources[r].word;
}

bool quota_find_key(const char *key, enum quota_resource *of, bool *session) {
    for (enum quota_resource r = 0; r < QUOTA_COUNT; r++) {
        const char *a = resources[r].uid_key, *b = resources[r].session_key;
        *of = r;
        *session = b && !strcmp(key, b);
        if (*session || !strcmp(key, a))
            return true;
    }
    return false;
}

#define FORGOTTEN_AT_ONCE 16u

void quota_init(struct quota *q, const struct quota_limits *limits) {
    *q = (struct quota){.limits = *limits};
    list_init(&q->uids);
    list_init(&q->idle);
    list_init(&q->total.node);
}

static void account_free(struct quota_account *a) {
    free(a->own);
    free(a);
}

static void account_forget(struct quota_account *a) {
    list_remove(&a->node);
    list_remove(&a->idle_node);
    account_free(a);
}

void quota_fini(struct quota *q) {
    struct list *node;
    while ((node = list_pop(&q->uids)))
        account_free(list_entry(node, struct quota_account, node));
}

void quota_keep_last(struct quota *q) {
    q->keeps_last = true;
}

struct quota_account *quota_uid_ref(struct quota *q, uid_t uid) {
    return quota_user_ref(q, uid, 0);
}

static struct quota_account *quota_account_find(const struct quota *q, uid_t uid, uint32_t tenant) {
    list_for_each (node, &q->uids) {
        struct quota_account *a = list_entry(node, struct quota_account, node);
        if (a->uid == uid && a->tenant == tenant)
            return a;
    }
    return NULL;
}

const struct quota_account *quota_find(const struct quota *q, uid_t uid, uint32_t tenant) {
    return quota_account_find(q, uid, tenant);
}

struct quota_account *quota_user_ref(struct quota *q, uid_t uid, uint32_t tenant) {
    struct quota_account *a = quota_account_find(q, uid, tenant);
    if (a) {
        list_remove(&a->idle_node);
        a->refs++;
        return a;
    }
    a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    a->uid = uid;
    a->tenant = tenant;
    a->refs = 1;
    list_init(&a->idle_node);
    list_init(&a->failing);
    list_init(&a->failing_node);
    list_append(&q->uids, &a->node);
    return a;
}

void quota_uid_unref(struct quota *q, struct quota_account *uid) {
    if (!uid || --uid->refs || uid->lies)
        return;
    if (uid->calls_due_ns)
        list_append(&q->idle, &uid->idle_node);
    else
        account_forget(uid);
}

void quota_forget_idle(struct quota *q, uint64_t due_ns) {
    struct list *first;
    for (unsigned n = 0; n < FORGOTTEN_AT_ONCE && (first = list_first(&q->idle)); n++) {
        struct quota_account *a = list_entry(first, struct quota_account, idle_node);
        if (a->calls_due_ns > due_ns)
            return;
        account_forget(a);
    }
}

int quota_set_own(struct quota_account *uid, const struct quota_limits *limits) {
    if (!limits) {
        free(uid->own);
        uid->own = NULL;
        return 0;
    }
    if (!uid->own && !(uid->own = malloc(sizeof(*uid->own))))
        return RDMAD_E_NOMEM;
    *uid->own = *limits;
    return 0;
}

const struct quota_limits *quota_limits_of(const struct quota *q, const struct quota_account *uid) {
    return uid->own ? uid->own : &q->limits;
}

/* Whether amount more fits; says why not. */
static int quota_check(const struct quota_account *a, enum quota_resource r, uint64_t limit,
                       uint64_t amount, const char *whose, const char *key, struct error *err) {
    uint64_t sum;
    if (!__builtin_add_overflow(a->used[r], amount, &sum) && sum <= limit)
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     "%s may have %" PRIu64 " %s, has %" PRIu64 " and asked for %" PRIu64
                     " more; give some back or raise %s",
                     whose, limit, resources[r].name, a->used[r], amount, key ? key : "the limit");
}

/* Whether enough is left for others of what all share; the total itself has been checked. */
static int check_last(const struct quota *q, const struct quota_account *uid, enum quota_resource r,
                      uint64_t amount, struct error *err) {
    uint64_t total = q->limits.total[r], others = q->total.used[r] - uid->used[r];
    uint64_t his = total > others ? total - others : 0; /* what is free, and the user's own */
    uint64_t kept = total / 8 < his / 2 ? total / 8 : his / 2;
    if (!q->keeps_last || total == UINT64_MAX || uid->used[r] + amount <= his - kept)
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     "of %" PRIu64 " %s others have %" PRIu64 " and uid %u may have %" PRIu64
                     " so that some are left; it has %" PRIu64 " and asked for %" PRIu64
                     " more; give some back or raise %s",
                     total, resources[r].name, others, (unsigned)uid->uid, his - kept, uid->used[r],
                     amount, resources[r].total_key);
}

int quota_charge(struct quota *q, struct quota_account *session, struct quota_account *uid,
                 enum quota_resource r, uint64_t amount, struct quota_charge *out,
                 struct error *err) {
    const struct quota_limits *l = quota_limits_of(q, uid);
    char user[32];
    int rc = 0;
    snprintf(user, sizeof(user), "uid %u", (unsigned)uid->uid);
    if (session)
        rc = quota_check(session, r, l->session[r], amount, "the session", resources[r].session_key,
                         err);
    if (!rc)
        rc = quota_check(uid, r, l->uid[r], amount, user, resources[r].uid_key, err);
    if (!rc)
        rc = quota_check(&q->total, r, q->limits.total[r], amount, "the daemon",
                         resources[r].total_key, err);
    if (!rc)
        rc = check_last(q, uid, r, amount, err);
    if (rc)
        return rc;

    if (session)
        session->used[r] += amount;
    uid->used[r] += amount;
    q->total.used[r] += amount;
    *out = (struct quota_charge){
        .quota = q, .session = session, .uid = uid, .resource = r, .amount = amount};
    return 0;
}

void quota_keep(struct quota_charge *from, enum quota_resource as, struct quota_charge *to) {
    const struct quota_charge was = *from;
    if (!was.quota)
        return;
    assert(!was.kept);
    was.uid->refs++; /* before the discharge, which may give the last one back */
    quota_discharge(from);
    was.uid->used[as] += was.amount;
    was.quota->total.used[as] += was.amount;
    *to = was;
    to->session = NULL;
    to->resource = as;
    to->kept = true;
}

int quota_room(struct quota *q, struct quota_account *uid, enum quota_resource r,
               struct error *err) {
    struct quota_charge none = {0};
    return quota_charge(q, NULL, uid, r, 0, &none, err);
}

void quota_discharge(struct quota_charge *c) {
    if (!c->quota)
        return;
    if (c->session)
        c->session->used[c->resource] -= c->amount;
    c->uid->used[c->resource] -= c->amount;
    c->quota->total.used[c->resource] -= c->amount;
    if (c->kept)
        quota_uid_unref(c->quota, c->uid);
    *c = (struct quota_charge){0};
}
