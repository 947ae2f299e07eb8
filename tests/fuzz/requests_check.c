/* SPDX-License-Identifier: MIT */
/*
 * requests_check.c - what must be so, whatever programs ask: who may name what, and what there is
 * of it in the tables.
 */
#include "common/uri.h"
#include "daemon/peer/peer.h"
#include "daemon/state/origin.h"
#include "tests/fuzz/requests_rig.h"

#define OWNERS 4096u
#define WATCHES_MOST 16u                 /* of a session */
#define PATIENCE_NS (100 * NSEC_PER_SEC) /* of a request, that is tried to the end */

/* ---- of each type ---------------------------------------------------------------------------- */

struct form {
    size_t request, reply;
    unsigned fds;
    bool about; /* it begins with the number of what it is about: */
    enum thing first;
};
#define BODY(name) .request = sizeof(struct rdmad_##name##_req)
#define REPLY(name) .reply = sizeof(struct rdmad_##name##_rep)
#define BOTH(name) BODY(name), REPLY(name)
#define ABOUT(thing) .about = true, .first = THING_##thing

static const struct form forms[RDMAD_MSG_COUNT] = {
    [RDMAD_MSG_HELLO] = {BOTH(hello)},
    [RDMAD_MSG_RING_CREATE] = {BOTH(ring_create), .fds = 4},
    [RDMAD_MSG_RING_DESTROY] = {BODY(ring_destroy), ABOUT(RING)},
    [RDMAD_MSG_POOL_CREATE] = {BOTH(pool_create), .fds = 1},
    [RDMAD_MSG_POOL_DESTROY] = {BODY(pool_destroy), ABOUT(POOL)},
    [RDMAD_MSG_LEASE_GRANT] = {BOTH(lease_grant), ABOUT(POOL)},
    [RDMAD_MSG_LEASE_ATTACH] = {BOTH(lease_attach)},
    [RDMAD_MSG_LEASE_RENEW] = {BODY(lease_renew)},
    [RDMAD_MSG_LEASE_RELEASE] = {BODY(lease_release), ABOUT(HANDLE)},
    [RDMAD_MSG_LEASE_REVOKE] = {BODY(lease_revoke)},
    [RDMAD_MSG_LEASE_STAT] = {BOTH(lease_stat)},
    [RDMAD_MSG_POOL_IMPORT] = {BODY(pool_import), REPLY(pool_create)},
    [RDMAD_MSG_SERVICE_LISTEN] = {BOTH(service_listen)},
    [RDMAD_MSG_SERVICE_CLOSE] = {BODY(service_close), ABOUT(SERVICE)},
    [RDMAD_MSG_CHANNEL_CONNECT] = {BODY(channel_connect), REPLY(channel)},
    [RDMAD_MSG_CHANNEL_ACCEPT] = {BODY(channel_accept), REPLY(channel), ABOUT(SERVICE)},
    [RDMAD_MSG_CHANNEL_REJECT] = {BODY(channel_reject), ABOUT(SERVICE)},
    [RDMAD_MSG_CHANNEL_CLOSE] = {BODY(channel_close), ABOUT(CHANNEL)},
    [RDMAD_MSG_LEASE_DELEGATE] = {BODY(lease_delegate), REPLY(lease_grant), ABOUT(HANDLE)},
    [RDMAD_MSG_LEASE_REQUEST] = {BODY(lease_request), REPLY(lease_attach)},
    [RDMAD_MSG_LEASE_HAND_OVER] = {BODY(lease_hand_over), ABOUT(HANDLE)},
    [RDMAD_MSG_BUDGET_FREE] = {BODY(budget_free), ABOUT(SERVICE)},
    [RDMAD_MSG_NAMES_LIST] = {BOTH(names_list)},
    [RDMAD_MSG_NAMES_WATCH] = {BOTH(names_watch)},
    [RDMAD_MSG_NAMES_UNWATCH] = {BODY(names_unwatch), ABOUT(WATCH)},
    [RDMAD_MSG_LEASE_KEEP] = {BODY(lease_keep), ABOUT(HANDLE)},
    [RDMAD_MSG_CHANNEL_STAT] = {BOTH(channel_stat), ABOUT(CHANNEL)},
    [RDMAD_MSG_POOL_READY] = {BODY(pool_ready), ABOUT(POOL)},
    [RDMAD_MSG_RING_READY] = {BODY(ring_ready), ABOUT(RING)},
    [RDMAD_MSG_RESUME_OFFER] = {BOTH(resume_offer)},
    [RDMAD_MSG_SESSION_RESUME] = {BODY(session_resume)},
    [RDMAD_MSG_POOL_RESUME] = {BODY(pool_resume), REPLY(pool_create)},
    [RDMAD_MSG_LEASE_RESUME] = {BODY(lease_resume), REPLY(lease_grant)},
    [RDMAD_MSG_ATTACH_RESUME] = {BODY(attach_resume), REPLY(lease_attach)},
    [RDMAD_MSG_CHANNEL_PROOF] = {BOTH(channel_proof), ABOUT(CHANNEL)},
    [RDMAD_MSG_CHANNEL_RESUME] = {BODY(channel_resume), REPLY(channel)},
    [RDMAD_MSG_CHANNEL_KEEPALIVE] = {BODY(channel_keepalive), ABOUT(CHANNEL)},
    [RDMAD_MSG_PART_RESUME] = {BODY(part_resume)},
    [RDMAD_MSG_SERVICE_RESUME] = {BODY(service_resume), REPLY(service_listen)},
    [RDMAD_MSG_BUDGET_RESUME] = {BODY(budget_resume), ABOUT(SERVICE)},
    [RDMAD_MSG_LIFELINE] = {BODY(lifeline), .fds = 1},
};

static const struct form *form_of(uint16_t type) {
    return &forms[type < RDMAD_MSG_COUNT ? type : 0];
}

size_t check_body_size(uint16_t type) {
    return form_of(type)->request;
}

size_t check_reply_size(uint16_t type) {
    return form_of(type)->reply;
}

unsigned check_reply_fds(uint16_t type) {
    return form_of(type)->fds;
}

/* ---- whose lease it is ----------------------------------------------------------------------- */

/* Which session has granted a lease; numbers are used once. */
static struct { uint64_t lease, session; } owners[OWNERS];
static unsigned nowners;

static uint64_t owner_of(uint64_t lease) {
    for (unsigned i = nowners; i-- > 0;)
        if (owners[i].lease == lease)
            return owners[i].session;
    return 0;
}

static void note_owner(const struct lease *l) {
    uint64_t owner = owner_of(l->id);
    if (owner == l->owner->id)
        return;
    owners[nowners].lease = l->id;
    owners[nowners].session = l->owner->id;
    nowners = (nowners + 1) % OWNERS;
}

void check_forget(void) {
    nowners = 0;
}

/* ---- requests and their answers -------------------------------------------------------------- */

void check_asked(struct asked *a) {
    if (a->type == RDMAD_MSG_LEASE_RENEW || a->type == RDMAD_MSG_LEASE_REVOKE ||
        a->type == RDMAD_MSG_LEASE_STAT)
        a->lease_owner = owner_of(a->body.first);
}

/* What is a text must be one to its field's end. */
#define TEXT(TYPE, message, field)                                       \
    {                                                                    \
        RDMAD_MSG_##TYPE, offsetof(struct rdmad_##message##_req, field), \
            sizeof(((struct rdmad_##message##_req *)0)->field)           \
    }
static const struct {
    uint16_t type;
    size_t at, size;
} texts[] = {
    TEXT(HELLO, hello, name),
    TEXT(LEASE_GRANT, lease_grant, scope_peer),
    TEXT(LEASE_GRANT, lease_grant, name),
    TEXT(LEASE_RESUME, lease_resume, grant.scope_peer),
    TEXT(LEASE_RESUME, lease_resume, grant.name),
    TEXT(LEASE_ATTACH, lease_attach, uri),
    TEXT(ATTACH_RESUME, attach_resume, attach.uri),
    TEXT(LEASE_REQUEST, lease_request, uri),
    TEXT(SERVICE_LISTEN, service_listen, scope_peer),
    TEXT(SERVICE_LISTEN, service_listen, name),
    TEXT(SERVICE_RESUME, service_resume, listen.scope_peer),
    TEXT(SERVICE_RESUME, service_resume, listen.name),
    TEXT(CHANNEL_CONNECT, channel_connect, uri),
    TEXT(CHANNEL_REJECT, channel_reject, text),
    TEXT(CHANNEL_RESUME, channel_resume, peer_node),
    TEXT(CHANNEL_RESUME, channel_resume, uri),
    TEXT(NAMES_LIST, names_list, where),
    TEXT(NAMES_LIST, names_list, prefix),
    TEXT(NAMES_LIST, names_list, after),
    TEXT(NAMES_WATCH, names_watch, where),
    TEXT(NAMES_WATCH, names_watch, prefix),
};

static void check_texts(const struct asked *a) {
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *text = (const char *)a->body.bytes + texts[i].at;
        if (texts[i].type != a->type)
            continue;
        size_t n = strnlen(text, texts[i].size);
        must(n < texts[i].size);
        while (n < texts[i].size)
            must(!text[n++]);
    }
}

static void check_pool(const struct program *p, uint64_t pool) {
    must(was_told(THING_POOL, p->session->id, pool));
}

static void check_listen(const struct program *p, const struct rdmad_service_listen_req *req) {
    if (req->budget_length)
        check_pool(p, req->budget_pool);
}

static void check_ring(const struct rdmad_ring_create_req *req,
                       const struct rdmad_ring_create_rep *rep) {
    must(req->sq_entries && req->sq_entries <= rep->sq_entries);
    must(rep->sq_entries <= RDMAD_RING_MAX_ENTRIES && rep->sq_entries <= rep->cq_entries);
    must(req->cq_entries <= rep->cq_entries && rep->cq_entries <= 2 * RDMAD_RING_MAX_ENTRIES);
}

/* By number only who was told the secret; not if it is answered by another daemon. */
static void check_attach(const struct rdmad_lease_attach_req *req) {
    struct rdmad_uri uri;
    must(!req->reserved && !rdmad_uri_parse(req->uri, &uri));
    if (uri.lease && peers_is_self(NULL, &uri) && fake_atomics_are_cpus)
        must(was_told_bytes(THING_LEASE_KEY, uri.lease, uri.key, sizeof(uri.key)));
}

/* What is brought back has the number that it had, which is none that it cannot have had. */
static void check_resumed(const struct program *p, const struct asked *a, uint64_t number,
                          enum quota_resource what, uint32_t more) {
    const struct quota_limits *l = quota_limits_of(&st.quota, p->session->uid_account);
    must(p->session->origin.resumed && number && number == a->body.first);
    must(what == QUOTA_LEASES || (uint32_t)number < l->session[what] + more);
}

static void check_lease_resume(const struct program *p, const struct rdmad_lease_resume_req *req) {
    check_pool(p, req->grant.pool);
    must(was_told_bytes(THING_LEASE_KEY, req->lease, req->key, sizeof(req->key)));
}

static void check_resume(const struct program *p, const struct asked *a, const void *body) {
    uint64_t number = 0;
    if (check_reply_size(a->type) >= sizeof(number))
        memcpy(&number, body, sizeof(number));
    switch (a->type) {
    case RDMAD_MSG_SESSION_RESUME:
        must(was_told_bytes(THING_PROOF, p->uid, a->body.bytes, a->size));
        break;
    case RDMAD_MSG_PART_RESUME:
        must(p->session->origin.resumed &&
             was_told_bytes(THING_PART, a->body.first, a->body.bytes, sizeof(struct rdmad_part)));
        break;
    case RDMAD_MSG_LEASE_RESUME:
        check_lease_resume(p, (const void *)a->body.bytes);
        check_resumed(p, a, number, QUOTA_LEASES, 0);
        break;
    case RDMAD_MSG_ATTACH_RESUME:
        check_attach(
            &((const struct rdmad_attach_resume_req *)(const void *)a->body.bytes)->attach);
        check_resumed(p, a, number, QUOTA_ATTACHES, HANDLES_ENDED_MAX);
        break;
    case RDMAD_MSG_POOL_RESUME:
        check_resumed(p, a, number, QUOTA_POOLS, 0);
        break;
    case RDMAD_MSG_CHANNEL_RESUME:
        check_resumed(p, a, number, QUOTA_CHANNELS, 0);
        break;
    case RDMAD_MSG_SERVICE_RESUME:
        must(p->session->origin.resumed);
        check_listen(p, (const void *)a->body.bytes);
        break;
    default:
        break;
    }
}

void check_answer(const struct program *p, const struct asked *a, int status, const void *body) {
    const struct form *form = form_of(a->type);
    if (status) {
        must(((const struct rdmad_msg_error *)body)->text[0]);
        return;
    }
    must(form->request && a->size == form->request && a->seq);
    check_texts(a);
    must(!form->about || was_told(form->first, p->session->id, a->body.first));
    switch (a->type) {
    case RDMAD_MSG_LEASE_RENEW:
    case RDMAD_MSG_LEASE_REVOKE:
    case RDMAD_MSG_LEASE_STAT:
        must(a->lease_owner == p->session->id);
        break;
    case RDMAD_MSG_RING_CREATE:
        check_ring((const void *)a->body.bytes, body);
        break;
    case RDMAD_MSG_LEASE_ATTACH:
        check_attach((const void *)a->body.bytes);
        break;
    case RDMAD_MSG_SERVICE_LISTEN:
        check_listen(p, (const void *)a->body.bytes);
        break;
    case RDMAD_MSG_CHANNEL_ACCEPT:
    case RDMAD_MSG_CHANNEL_REJECT:
        must(was_told(
            THING_INCOMING, p->session->id,
            ((const struct rdmad_channel_accept_req *)(const void *)a->body.bytes)->incoming));
        break;
    default:
        check_resume(p, a, body);
    }
}

/* ---- nobody waits for ever ------------------------------------------------------------------- */

static uint64_t timeout_of(const struct asked *a) {
    size_t at = a->type == RDMAD_MSG_CHANNEL_ACCEPT || a->type == RDMAD_MSG_LEASE_REQUEST ? 16 : 0;
    uint64_t timeout;
    if (a->type != RDMAD_MSG_CHANNEL_CONNECT && a->type != RDMAD_MSG_CHANNEL_ACCEPT &&
        a->type != RDMAD_MSG_LEASE_ATTACH && a->type != RDMAD_MSG_LEASE_REQUEST)
        return 0;
    memcpy(&timeout, a->body.bytes + at, sizeof(timeout));
    return timeout;
}

/* With the next daemon: so this one, which stops, need not answer. */
static bool may_go_on(const struct program *p) {
    return st.stopping && origin_is_set(p->session);
}

void check_nobody_waits(void) {
    for (unsigned i = 0; i < 32; i++) {
        world_settle();
        world_pass(PATIENCE_NS / 32);
    }
    world_settle();
    for (unsigned i = 0; i < PROGRAMS; i++)
        for (unsigned k = 0; k < programs[i].nwaiting && !may_go_on(&programs[i]); k++)
            must(timeout_of(programs[i].waiting[k]) > PATIENCE_NS / 2);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void check_account(const struct quota_account *a, const uint64_t limit[QUOTA_COUNT]) {
    for (unsigned r = 0; r < QUOTA_COUNT; r++)
        must(a->used[r] <= limit[r]);
}

static void check_accounts(void) {
    uint64_t sum[QUOTA_COUNT] = {0};
    check_account(&st.quota.total, st.quota.limits.total);
    list_for_each (node, &st.quota.uids) {
        const struct quota_account *a = list_entry(node, struct quota_account, node);
        check_account(a, quota_limits_of(&st.quota, a)->uid);
        for (unsigned r = 0; r < QUOTA_COUNT; r++)
            sum[r] += a->used[r];
    }
    for (unsigned r = 0; r < QUOTA_COUNT; r++)
        must(st.quota.total.used[r] == sum[r]);
}

static void check_lease(const struct lease *l) {
    const struct lease_terms *t = &l->terms;
    unsigned attached = 0;
    if (l->stage == LEASE_ENDED)
        return;
    must(l->pool->session == l->owner);
    must(pool_covers(l->pool, t->offset, t->length)); /* of no bytes it may be */
    list_for_each (node, &l->attachments)
        attached++;
    must(attached == l->attached);
    must(!t->max_attaches || l->attached <= t->max_attaches);
    must(!t->ends_after || l->releases <= t->ends_after);
    must(!(t->rights & ~RDMAD_RIGHTS_ALL));
    const struct lease *parent = l->parent;
    must(!parent || (parent->owner == l->owner && !(t->rights & ~parent->terms.rights) &&
                     t->offset >= parent->terms.offset &&
                     t->offset + t->length <= parent->terms.offset + parent->terms.length &&
                     l->deadline_ns <= parent->deadline_ns));
    note_owner(l);
}

/* An owner may have two budgets of the same memory. */
static bool has_one_budget(const struct session *s) {
    for (unsigned i = 0; i < PROGRAMS; i++)
        if (programs[i].session == s)
            return programs[i].services == 1;
    return false;
}

/* Leases of a budget lie beside each other. */
static void check_apart(const struct lease *l) {
    if (!l->requested || l->stage == LEASE_ENDED || !has_one_budget(l->owner))
        return;
    must(l->attached <= 1);
    list_for_each (node, &l->owner->leases) {
        const struct lease *other = list_entry(node, struct lease, owner_node);
        bool apart = other->terms.offset >= l->terms.offset + l->terms.length ||
                     l->terms.offset >= other->terms.offset + other->terms.length;
        must(other == l || !other->requested || other->stage == LEASE_ENDED ||
             other->pool != l->pool || apart);
    }
}

static void check_leases(const struct session *s) {
    list_for_each (node, &s->leases) {
        const struct lease *l = list_entry(node, struct lease, owner_node);
        must(l->owner == s);
        check_lease(l);
        check_apart(l);
    }
}

static void check_handles(const struct session *s) {
    uint32_t cursor = 0;
    uint64_t number;
    for (const struct handle *h; (h = slots_next(&s->handles, &cursor, &number));) {
        const struct lease *l = h->attachment.lease;
        must(h->session == s && h->number == number);
        if (!l)
            continue;
        must(l->terms.scope != RDMAD_SCOPE_UID || l->terms.scope_uid == s->uid);
        must(l->terms.scope != RDMAD_SCOPE_PEER);
        must(!l->terms.name[0] || l->terms.tenant == s->tenant);
        must(!(h->rights & ~l->terms.rights) && h->length == l->terms.length);
    }
}

/* What the data plane was told of a lease of this daemon lies in memory of its owner's. */
static void check_plane(void) {
    for (int i = 0; i < (int)fake_count(FAKE_LEASE_ADD); i++) {
        const struct fake_call *c = fake_call(FAKE_LEASE_ADD, i);
        if (!c->pending || c->spec.lane)
            continue;
        const struct lease *l = lease_by_id(st.leases, c->spec.lease_id);
        must(!l || l->stage == LEASE_ENDED ||
             ((char *)c->spec.base == (char *)l->pool->base + l->terms.offset &&
              c->spec.length == l->terms.length && !(c->spec.rights & ~l->terms.rights)));
    }
}

void check_tables(void) {
    check_accounts();
    list_for_each (node, &st.sessions) {
        const struct session *s = list_entry(node, struct session, node);
        check_account(&s->account, quota_limits_of(&st.quota, s->uid_account)->session);
        must(s->rings.used <= s->account.used[QUOTA_RINGS]);
        must(s->pools.used <= s->account.used[QUOTA_POOLS]);
        must(s->handles.used <= s->account.used[QUOTA_ATTACHES] + HANDLES_ENDED_MAX);
        must(s->channels.used <= s->account.used[QUOTA_CHANNELS]);
        must(s->nwatches <= WATCHES_MOST);
        check_leases(s);
        check_handles(s);
    }
    check_plane();
}
