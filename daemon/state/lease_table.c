/* SPDX-License-Identifier: MIT */
/*
 * lease_table.c - leases by number and by name, and the tombstones of those that ended.
 *
 * A number names one lease for good: each life of the daemon has numbers of its own, short ones for
 * the first sixteen millions, and as many more as it can need. A secret is compared in constant
 * time, and a wrong one is answered in the same words as a number that never was: whoever guesses
 * learns nothing, not even that a lease exists. Tombstones are kept by number.
 * When there are more than lease.tombstones, whoever has most of them loses the oldest: so a user
 * who makes and ends leases without pause gets no more than an equal share.
 */
#include "daemon/state/lease_table.h"
#include "daemon/base/clock.h"
#include "daemon/base/events.h"
#include "daemon/state/lease_audit.h"
#include "daemon/state/lease_terms.h"
#include "daemon/state/lease_told.h"
#include "daemon/state/origin.h"
#include "daemon/state/pool.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A node has thousands of leases, not millions; consecutive numbers spread evenly. */
#define BUCKETS 4096u
#define SHORT_IDS (UINT64_C(1) << 24) /* of each life; its others begin at life << LONG_IDS_BIT */
#define LONG_IDS_BIT 40

/* Whose tombstones they are: of a user's own grants, or of what others make of its leases and
 * budgets. At least one. */
struct tomb_share {
    struct list node;
    struct user_id user;
    bool others;
    uint64_t count;    /* with the one that is being made */
    struct list tombs; /* oldest first */
};

struct tombstone {
    struct list by_id;
    struct list by_age;
    struct list in_share;
    struct tomb_share *share;
    uint8_t key[RDMAD_KEY_BYTES];
    uint64_t ended_ns;
    struct lease_view view;
};

struct leases {
    struct state *state;
    struct renewals renewals;
    uint64_t last_id; /* that was given out; 0: none */
    unsigned count;
    uint64_t tombstones;
    struct list tombs_by_age; /* oldest first */
    struct list shares;
    struct list ids[BUCKETS], tombs[BUCKETS];
};

int leases_new(struct state *st, struct leases **out) {
    struct leases *ls = calloc(1, sizeof(*ls));
    if (!ls)
        return RDMAD_E_NOMEM;
    ls->state = st;
    renewals_init(&ls->renewals, st);
    list_init(&ls->tombs_by_age);
    list_init(&ls->shares);
    for (unsigned i = 0; i < BUCKETS; i++) {
        list_init(&ls->ids[i]);
        list_init(&ls->tombs[i]);
    }
    *out = ls;
    return 0;
}

static void tomb_share_leave(struct tomb_share *m) {
    if (m->count)
        return;
    list_remove(&m->node);
    free(m);
}

static void tombstone_forget(struct leases *ls, struct tombstone *t) {
    struct tomb_share *m = t->share;
    list_remove(&t->by_id);
    list_remove(&t->by_age);
    list_remove(&t->in_share);
    ls->tombstones--;
    free(t);
    m->count--;
    tomb_share_leave(m);
}

/* The share that is about to get one more counts it already, but may have none to forget. False:
 * nobody has one. */
static bool tombstone_forget_one(struct leases *ls) {
    struct tomb_share *most = NULL;
    list_for_each (node, &ls->shares) {
        struct tomb_share *m = list_entry(node, struct tomb_share, node);
        if (!list_empty(&m->tombs) && (!most || m->count > most->count))
            most = m;
    }
    if (!most)
        return false;
    tombstone_forget(ls, list_entry(most->tombs.next, struct tombstone, in_share));
    return true;
}

/* The share that the lease's tombstone counts for, made if there is none; NULL: out of memory. */
static struct tomb_share *tomb_share_of(struct leases *ls, const struct lease *l) {
    bool others = l->parent || l->requested;
    const struct user_id user = session_user_id(l->owner);
    list_for_each (node, &ls->shares) {
        struct tomb_share *m = list_entry(node, struct tomb_share, node);
        if (user_id_same(m->user, user) && m->others == others)
            return m;
    }
    struct tomb_share *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->user = user;
    m->others = others;
    list_init(&m->tombs);
    list_append(&ls->shares, &m->node);
    return m;
}

void leases_free(struct leases *ls) {
    if (!ls)
        return;
    while (tombstone_forget_one(ls))
        ;
    renewals_fini(&ls->renewals);
    free(ls);
}

struct renewals *leases_renewals(struct leases *ls) {
    return &ls->renewals;
}

unsigned leases_count(const struct leases *ls) {
    return ls->count;
}

static struct lease *find_name(const struct leases *ls, const char *text) {
    struct name *name = names_find(ls->state->names, text);
    return name && name->kind == RDMAD_NAME_LEASE ? container_of(name, struct lease, name) : NULL;
}

static void lease_describe(const struct name *name, struct rdmad_name_entry *out) {
    const struct lease *l = container_of(name, const struct lease, name);
    out->rights = l->terms.rights;
    out->length = l->terms.length;
    out->ttl_ns = clock_left(state_now(l->state), l->deadline_ns);
}

struct lease *lease_by_id(struct leases *ls, uint64_t id) {
    list_for_each (node, &ls->ids[id % BUCKETS]) {
        struct lease *l = list_entry(node, struct lease, by_id);
        if (l->id == id)
            return l;
    }
    return NULL;
}

static struct tombstone *find_tombstone(struct leases *ls, uint64_t id) {
    list_for_each (node, &ls->tombs[id % BUCKETS]) {
        struct tombstone *t = list_entry(node, struct tombstone, by_id);
        if (t->view.id == id)
            return t;
    }
    return NULL;
}

uint64_t lease_number_after(uint32_t life, uint64_t number) {
    uint64_t n = life ? life : 1;
    RDMAD_STATIC_ASSERT(LIFE_LAST * SHORT_IDS < UINT64_C(1) << LONG_IDS_BIT, "none is both");
    if (!number)
        return (n - 1) * SHORT_IDS + 1;
    return number == n * SHORT_IDS ? n << LONG_IDS_BIT : number + 1;
}

static uint64_t next_id(struct leases *ls) {
    return ls->last_id = lease_number_after(ls->state->life.number, ls->last_id);
}

static int make_key(struct lease *l, uint64_t id, struct error *err) {
    if (origin_is_set(l->owner))
        origin_lease_key(l->owner, id, l->key);
    else if (getrandom(l->key, sizeof(l->key), 0) != (ssize_t)sizeof(l->key))
        return error_errno(err, RDMAD_E_SYSTEM, "no random bytes for a lease's secret");
    return 0;
}

static int table_add(struct leases *ls, struct lease *l, uint64_t id, struct error *err) {
    if (l->terms.name[0] && names_check_free(ls->state->names, l->terms.name, err))
        return err->code;
    int rc = make_key(l, id, err);
    if (rc)
        return rc;
    l->id = id;
    list_append(&ls->ids[l->id % BUCKETS], &l->by_id);
    ls->count++;
    if (!l->terms.name[0])
        return 0;
    l->name = (struct name){.text = l->terms.name,
                            .kind = RDMAD_NAME_LEASE,
                            .scope = lease_scope(&l->terms),
                            .describe = lease_describe};
    names_add(ls->state->names, &l->name);
    return 0;
}

int lease_table_add(struct leases *ls, struct lease *l, struct error *err) {
    return table_add(ls, l, next_id(ls), err);
}

int lease_table_add_again(struct leases *ls, struct lease *l, uint64_t id, struct error *err) {
    const struct tombstone *t = find_tombstone(ls, id);
    if (t)
        return lease_ended_error(id, t->view.reason, clock_left(t->ended_ns, state_now(ls->state)),
                                 err);
    if (lease_by_id(ls, id))
        return error_set(err, RDMAD_E_EXISTS, "lease %" PRIu64 " is alive", id);
    return table_add(ls, l, id, err);
}

static void lease_remember_end(const struct lease *l) {
    struct error why;
    lease_ended_error(l->id, l->reason, 0, &why);
    EVENT("lease", "ended", session_who(l->owner), audit_object("lease", l->id), ("%s", why.text));
}

void lease_table_retire(struct leases *ls, const struct lease *l) {
    lease_remember_end(l);
    list_remove((struct list *)&l->by_id);
    ls->count--;

    uint64_t keep = ls->state->config->lease_tombstones;
    struct tomb_share *m = keep ? tomb_share_of(ls, l) : NULL;
    struct tombstone *t = m ? calloc(1, sizeof(*t)) : NULL;
    if (t)
        m->count++;
    else if (m)
        tomb_share_leave(m);
    while (ls->tombstones >= keep && tombstone_forget_one(ls))
        ;
    if (!t)
        return; /* its holder is told that there is no such lease: true, if less helpful */
    t->share = m;
    list_append(&m->tombs, &t->in_share);
    t->ended_ns = state_now(ls->state);
    memcpy(t->key, l->key, sizeof(t->key));
    lease_view_of(l, t->ended_ns, &t->view);
    t->view.lease = NULL;
    list_append(&ls->tombs[l->id % BUCKETS], &t->by_id);
    list_append(&ls->tombs_by_age, &t->by_age);
    ls->tombstones++;
}

static int no_such_lease(const struct leases *ls, uint64_t id, struct error *err) {
    return error_set(err, RDMAD_E_NO_LEASE,
                     "there is no lease %" PRIu64 " with this key at %s; check the URI or ask "
                     "its owner for a new one",
                     id, ls->state->node_name);
}

int lease_find(struct leases *ls, const struct rdmad_uri *uri, struct lease **out,
               struct error *err) {
    if (uri->name[0]) {
        *out = find_name(ls, uri->name);
        if (!*out && names_find(ls->state->names, uri->name))
            return error_set(err, RDMAD_E_NO_LEASE,
                             "\"%s\" is a service at %s, not a lease: connect to it instead",
                             uri->name, ls->state->node_name);
        if (!*out)
            return error_set(err, RDMAD_E_NO_LEASE,
                             "no lease is published as \"%s\" at %s; it may have ended, ask its "
                             "owner to publish it again",
                             uri->name, ls->state->node_name);
        return 0;
    }

    struct lease *l = lease_by_id(ls, uri->lease);
    if (l) {
        if (!origin_same_key(l->key, uri->key, sizeof(l->key)))
            return no_such_lease(ls, uri->lease, err);
        if (l->stage != LEASE_LIVE)
            return lease_ended_error(l->id, l->reason, 0, err);
        *out = l;
        return 0;
    }
    const struct tombstone *t = find_tombstone(ls, uri->lease);
    if (!t || !origin_same_key(t->key, uri->key, sizeof(t->key)))
        return no_such_lease(ls, uri->lease, err);
    return lease_ended_error(t->view.id, t->view.reason,
                             clock_left(t->ended_ns, state_now(ls->state)), err);
}

/* ---- for show ---- */

static void lease_view_terms(const struct lease *l, uint64_t now_ns, struct lease_view *out) {
    *out = (struct lease_view){
        .id = l->id,
        .owner_session = l->owner->id,
        .owner_uid = l->owner->uid,
        .owner_tenant = l->owner->tenant,
        .pool = l->pool->handle,
        .offset = l->terms.offset,
        .length = l->terms.length,
        .rights = l->terms.rights,
        .flags = l->terms.flags,
        .parent = l->parent ? l->parent->id : 0,
        .requested = l->requested,
        .scope = l->terms.scope,
        .ttl_ns = l->stage == LEASE_LIVE ? clock_left(now_ns, l->deadline_ns) : 0,
        .attached = l->attached,
        .attached_total = l->attached_total,
        .reason = l->reason,
        .lease = l,
    };
    memcpy(out->name, l->terms.name, sizeof(out->name));
}

/* By all who are attached to it. */
static void lease_view_use(struct lease_view *v) {
    lease_audit(v->lease, &v->audit);
    lease_said(v->lease, &v->said);
}

void lease_view_of(const struct lease *l, uint64_t now_ns, struct lease_view *out) {
    lease_view_terms(l, now_ns, out);
    lease_view_use(out);
}

void leases_view(struct leases *ls, bool with_ended,
                 bool (*wanted)(void *arg, const struct lease_view *view),
                 void (*each)(void *arg, const struct lease_view *view), void *arg) {
    uint64_t now = state_now(ls->state);
    struct lease_view v;
    for (unsigned i = 0; i < BUCKETS; i++) {
        list_for_each (node, &ls->ids[i]) {
            lease_view_terms(list_entry(node, struct lease, by_id), now, &v);
            if (!wanted(arg, &v))
                continue;
            lease_view_use(&v);
            each(arg, &v);
        }
    }
    if (!with_ended)
        return;
    list_for_each (node, &ls->tombs_by_age) {
        const struct tombstone *t = list_entry(node, struct tombstone, by_age);
        v = t->view;
        v.ended_ago_ns = clock_left(t->ended_ns, now);
        if (wanted(arg, &v))
            each(arg, &v);
    }
}

bool lease_ended_view(struct leases *ls, uint64_t id, struct lease_view *out) {
    const struct tombstone *t = find_tombstone(ls, id);
    if (!t)
        return false;
    *out = t->view;
    out->ended_ago_ns = clock_left(t->ended_ns, state_now(ls->state));
    return true;
}
