/* SPDX-License-Identifier: MIT */
/*
 * budget.c - requests: judged, taken from the range, zeroed, granted, and given back.
 *
 * Between the taking and the grant lies the zeroing, during which everything can change: the
 * service closes, the requester goes. So a grant that is being made is an object of its own (struct
 * order), which keeps the budget from being freed, as that does the pool. Memory is zeroed under
 * the guard, since the machine may find it broken; then the request fails, and the session ends
 * when it touches it. What is small is zeroed on the control thread, but only where the touch waits
 * for nobody (is_at_hand).
 */
#include "daemon/state/budget.h"
#include "daemon/base/address.h"
#include "daemon/base/clock.h"
#include "daemon/base/guard.h"
#include "daemon/state/extents.h"
#include "daemon/state/late_event.h"
#include "daemon/state/lease_terms.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct error ok;

#define DEFAULT_TTL_NS (60 * NSEC_PER_SEC)
/* What a requester may have. Nobody else may get hold of what it was given. */
#define GIVEN (RDMAD_RIGHTS_ALL & ~RDMAD_RIGHT_DELEGATE)
#define AT_ONCE (64u << 10) /* so much is zeroed on the control thread: some microseconds */
#define SLICE (8u << 20)    /* of the registration thread's time: a millisecond or two */

struct requester { /* one that has leases */
    struct list node;
    uint32_t uid; /* of a session */
    bool remote;
    struct in6_addr source; /* of a peer */
    uint64_t bytes;
    unsigned leases;
};

struct budget {
    struct pool *pool; /* referenced */
    uint64_t offset, max_request, max_ttl_ns, service;
    uint64_t bytes, handed_over;
    uint32_t max_rights;
    struct scope scope;
    char scope_peer[RDMAD_NAME_MAX + 1], name[RDMAD_NAME_MAX + 1];
    struct extents *extents;
    struct list orders; /* that have leases or will have */
    struct list untold; /* that were handed over, which the client does not know yet */
    struct list requesters;
    unsigned count;  /* of orders */
    unsigned pieces; /* that were handed over */
    bool shut;       /* nobody has said yet what its owner has of it */
    bool closing;
    struct session_waiter closed;
};

struct order {
    struct list node;
    struct budget *budget;
    struct requester *requester;
    struct extent *extent;
    uint64_t bytes, ttl_ns;
    uint32_t rights, uid;
    char node_name[RDMAD_NAME_MAX + 1];
    budget_granted *done;
    void *arg;
    struct lease *lease; /* once granted, until it is over */
    uint64_t lease_id;   /* once handed over */
    struct late_event late_hand_over;
    uint64_t zeroed;
    bool vanished; /* the memory, under the zeroing */
    struct offload_job job;
};

/* The user of extents that were handed over, and of which the owner was told. */
static char owners[1];

/* ---- pieces ------------------------------------------------------------------------------ */

static int pieces_check(const struct budget *b, struct error *err) {
    const struct session *s = b->pool->session;
    if (s->uid_account->budget_pieces < BUDGET_PIECES_MAX)
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     "%u pieces of memory were handed over to services of uid %u, and %u is the "
                     "limit: its program has to give some back (rdmad_service_free)",
                     s->uid_account->budget_pieces, (unsigned)s->uid, BUDGET_PIECES_MAX);
}

static void pieces_add(struct budget *b) {
    b->pieces++;
    b->pool->session->uid_account->budget_pieces++;
}

static void pieces_drop(struct budget *b, unsigned count) {
    b->pieces -= count;
    b->pool->session->uid_account->budget_pieces -= count;
}

/* ---- the end ----------------------------------------------------------------------------- */

static void budget_check_free(struct budget *b) {
    struct session_waiter closed = b->closed;
    struct list *node;
    if (!b->closing || b->count)
        return;
    while ((node = list_pop(&b->untold))) {
        struct order *o = list_entry(node, struct order, node);
        late_event_drop(&o->late_hand_over);
        free(o);
    }
    extents_fini(b->extents);
    free(b->extents);
    pieces_drop(b, b->pieces);
    b->pool->budgets--;
    pool_unref(b->pool);
    free(b);
    if (closed.done)
        closed.done(closed.arg, &ok);
}

static void requester_leave(struct order *o) {
    struct requester *r = o->requester;
    r->bytes -= o->extent->length;
    if (--r->leases)
        return;
    list_remove(&r->node);
    free(r);
}

/* It is over, and its extent is free again. */
static void order_free(struct order *o) {
    struct budget *b = o->budget;
    list_remove(&o->node);
    requester_leave(o);
    extents_give(b->extents, o->extent);
    b->count--;
    free(o);
    budget_check_free(b);
}

void budget_close(struct budget *b, plane_done *done, void *arg) {
    struct list todo = LIST_INIT(todo);
    struct list *node;

    b->closed = (struct session_waiter){done, arg};
    b->closing = true;
    b->count++; /* keeps it until we are through */
    list_splice(&todo, &b->orders);
    while ((node = list_pop(&todo))) {
        struct order *o = list_entry(node, struct order, node);
        list_append(&b->orders, node);
        if (o->lease)
            lease_end(o->lease, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    }
    b->count--;
    budget_check_free(b);
}

/* ---- a service's budget ------------------------------------------------------------------ */

static int budget_check(const struct pool *p, const struct budget_terms *t, struct error *err) {
    if (t->offset % EXTENT_GRANULE || t->length % EXTENT_GRANULE || !t->length)
        return error_set(err, RDMAD_E_INVAL,
                         "a budget begins at a multiple of %u bytes of its pool and is as long as "
                         "one, not %" PRIu64 " bytes at %" PRIu64,
                         EXTENT_GRANULE, t->length, t->offset);
    if (!pool_covers(p, t->offset, t->length))
        return error_set(err, RDMAD_E_RANGE,
                         "a budget of %" PRIu64 " bytes at %" PRIu64 " lies outside pool %" PRIu64
                         " of %zu bytes",
                         t->length, t->offset, p->handle, p->bytes);
    if (t->max_request > t->length)
        return error_set(err, RDMAD_E_INVAL,
                         "max_request is %" PRIu64 " bytes, the whole budget only %" PRIu64,
                         t->max_request, t->length);
    if (t->max_rights & ~GIVEN)
        return error_set(err, RDMAD_E_RIGHTS,
                         "max_rights is 0x%" PRIx32 ", but a requester can have no more than read "
                         "(1), write (2) and atomic (4)",
                         t->max_rights);
    return 0;
}

int budget_new(struct session *s, const struct budget_terms *t, struct budget **out,
               struct error *err) {
    struct pool *pool = pool_find(s, t->pool, err);
    int rc;

    if (!pool)
        return RDMAD_E_HANDLE;
    if ((rc = budget_check(pool, t, err)))
        return rc;
    struct budget *b = calloc(1, sizeof(*b));
    struct extents *extents = malloc(sizeof(*extents));
    if (!b || !extents || extents_init(extents, t->length)) {
        free(b);
        free(extents);
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a budget");
    }
    b->extents = extents;
    b->pool = pool;
    b->offset = t->offset;
    b->bytes = t->length;
    b->max_request = t->max_request;
    b->max_ttl_ns = t->max_ttl_ns ? t->max_ttl_ns : DEFAULT_TTL_NS;
    b->max_rights = t->max_rights ? t->max_rights : GIVEN;
    b->service = t->service;
    b->shut = t->shut;
    b->scope = t->scope;
    strncpy(b->scope_peer, t->scope.peer ? t->scope.peer : "", sizeof(b->scope_peer) - 1);
    b->scope.peer = b->scope_peer;
    strncpy(b->name, t->name, sizeof(b->name) - 1);
    list_init(&b->orders);
    list_init(&b->untold);
    list_init(&b->requesters);
    pool_ref(pool);
    pool->budgets++;
    *out = b;
    return 0;
}

void budget_view(const struct budget *b, struct budget_view *out) {
    *out = (struct budget_view){.bytes = b->bytes,
                                .free = b->extents->free,
                                .longest = extents_longest(b->extents),
                                .handed_over = b->handed_over,
                                .leases = b->count};
    out->leased = out->bytes - out->free - out->handed_over;
}

/* ---- the request ------------------------------------------------------------------------- */

static int check_ask(const struct budget *b, const struct budget_ask *ask, struct error *err) {
    uint64_t most = b->max_request ? b->max_request : b->bytes;
    if (b->closing)
        return error_set(err, RDMAD_E_NO_SERVICE, "service \"%s\" is closing", b->name);
    if (b->shut)
        return error_set(err, RDMAD_E_BUSY, "service \"%s\" is just being brought back; ask again",
                         b->name);
    if (!ask->bytes)
        return error_set(err, RDMAD_E_INVAL, "a request is for at least one byte");
    if (ask->bytes > most)
        return error_set(err, RDMAD_E_BUDGET,
                         "%" PRIu64 " bytes were asked of service \"%s\", which gives %" PRIu64
                         " at most to one request",
                         ask->bytes, b->name, most);
    if (ask->rights & RDMAD_RIGHT_DELEGATE)
        return error_set(err, RDMAD_E_DELEGATE,
                         "requested memory is for one lessee and cannot be handed on by another "
                         "lease: ask for read (1), write (2) or atomic (4)");
    if (ask->rights & ~b->max_rights)
        return error_set(err, RDMAD_E_RIGHTS,
                         "rights 0x%" PRIx32 " were asked, service \"%s\" gives 0x%" PRIx32
                         " at most (read 1, write 2, atomic 4); ask for less in terms.rights",
                         ask->rights, b->name, b->max_rights);
    if (ask->ttl_ns > b->max_ttl_ns)
        return error_set(err, RDMAD_E_LIMIT,
                         "a ttl of %" PRIu64 " ms was asked, service \"%s\" gives %" PRIu64
                         " ms at most",
                         ask->ttl_ns / NSEC_PER_MSEC, b->name, b->max_ttl_ns / NSEC_PER_MSEC);
    return scope_check(&b->scope, b->name, &ask->who, err);
}

/* The record of this requester, made if there is none; NULL: out of memory. */
static struct requester *requester_of(struct budget *b, const struct lessee *who) {
    bool remote = !who->session;
    struct in6_addr source = address_source(remote ? who->address : "");
    uint32_t uid = remote ? 0 : who->session->uid;

    list_for_each (node, &b->requesters) {
        struct requester *r = list_entry(node, struct requester, node);
        if (r->uid == uid && r->remote == remote && !memcmp(&r->source, &source, sizeof(source)))
            return r;
    }
    struct requester *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->uid = uid;
    r->remote = remote;
    r->source = source;
    list_append(&b->requesters, &r->node);
    return r;
}

static int budget_check_share(const struct budget *b, const struct requester *r, uint64_t bytes,
                              struct error *err) {
    uint64_t share = (b->extents->free + r->bytes) / 2;
    if (share < b->max_request)
        share = b->max_request;
    if (r->leases >= BUDGET_LEASES_MAX)
        return error_set(err, RDMAD_E_LIMIT,
                         "%u leases of service \"%s\" are yours, which is all that one requester "
                         "may have; release some",
                         r->leases, b->name);
    if (b->max_request && bytes > share - (r->bytes < share ? r->bytes : share))
        return error_set(err, RDMAD_E_BUDGET,
                         "%" PRIu64 " bytes were asked of service \"%s\"; you have %" PRIu64
                         " and may have %" PRIu64 " while %" PRIu64
                         " are free for everybody: release some",
                         bytes, b->name, r->bytes, share, b->extents->free);
    return 0;
}

static int no_room(const struct budget *b, uint64_t bytes, struct error *err) {
    return error_set(err, RDMAD_E_BUDGET,
                     "%" PRIu64 " bytes were asked of service \"%s\", which has %" PRIu64
                     " left of %" PRIu64 ", %" PRIu64 " at a piece; ask for less, or later",
                     bytes, b->name, b->extents->free, b->bytes, extents_longest(b->extents));
}

static uint64_t rounded(uint64_t bytes) { /* at most the budget, so there is no overflow */
    return (bytes + EXTENT_GRANULE - 1) & ~(uint64_t)(EXTENT_GRANULE - 1);
}

static int order_take(struct budget *b, const struct budget_ask *ask, struct order *o,
                      struct error *err) {
    bool full = false;
    int rc = check_ask(b, ask, err);
    if (!rc)
        rc = pieces_check(b, err);
    if (rc)
        return rc;
    struct requester *r = requester_of(b, &ask->who);
    if (!r)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a request");
    rc = budget_check_share(b, r, rounded(ask->bytes), err);
    if (!rc && !(o->extent = extents_take(b->extents, ask->bytes, o, &full)))
        rc = full ? no_room(b, ask->bytes, err)
                  : error_set(err, RDMAD_E_NOMEM, "out of memory for a request");
    if (rc) {
        if (!r->leases) {
            list_remove(&r->node);
            free(r);
        }
        return rc;
    }
    o->requester = r;
    r->leases++;
    r->bytes += o->extent->length;
    return 0;
}

/* ---- the lease --------------------------------------------------------------------------- */

/* Its client may give the memory back from now on. */
static void order_send_hand_over(struct late_event *e) {
    struct order *o = container_of(e, struct order, late_hand_over);
    struct budget *b = o->budget;
    struct rdmad_ev_handed_over ev = {
        .service = b->service,
        .lease = o->lease_id,
        .pool = b->pool->handle,
        .offset = b->offset + o->extent->offset,
        .length = o->bytes,
        .uid = o->uid,
    };
    memcpy(ev.node, o->node_name, sizeof(ev.node));
    o->extent->user = owners;
    session_send(b->pool->session, RDMAD_EV_HANDED_OVER, 0, &ev, sizeof(ev), NULL, 0);
    list_remove(&o->node);
    free(o);
}

/* However many come while the client does not read, its session does not end for it. */
static void budget_take_back(struct order *o, const struct lease *l) {
    struct budget *b = o->budget;
    list_remove(&o->node);
    requester_leave(o);
    o->lease = NULL;
    o->lease_id = l->id;
    b->handed_over += o->extent->length;
    pieces_add(b);
    b->count--;
    list_append(&b->untold, &o->node);
    session_tell(b->pool->session, &o->late_hand_over);
}

static void lease_over(void *arg, const struct lease *l) {
    struct order *o = arg;
    if (l->handed_over && !o->budget->closing)
        budget_take_back(o, l);
    else
        order_free(o);
}

/* The data plane hears nothing of it: its owner takes no notifications of it. */
static void budget_make_lease(struct pool *pool, const struct lease_terms *terms,
                              struct lease **out, struct error *err) {
    if (lease_check_terms(pool, terms, err) == 0 && lease_make(pool, terms, NULL, out, err) == 0)
        (*out)->requested = true;
}

/* The memory is zero, or cannot be. */
static void order_grant(struct order *o) {
    struct budget *b = o->budget;
    struct lease_terms terms = {
        .offset = b->offset + o->extent->offset,
        .length = o->bytes,
        .ttl_ns = o->ttl_ns,
        .rights = o->rights,
        .max_attaches = 1,
        .scope = b->scope.kind,
        .scope_uid = b->scope.uid,
    };
    struct error err = {0};
    struct lease *l = NULL;

    memcpy(terms.scope_peer, b->scope_peer, sizeof(terms.scope_peer));
    if (b->closing)
        error_set(&err, RDMAD_E_NO_SERVICE, "service \"%s\" is closing", b->name);
    else if (o->vanished)
        error_set(&err, RDMAD_E_FAULT, "the memory of service \"%s\" has vanished", b->name);
    else
        budget_make_lease(b->pool, &terms, &l, &err);
    if (!l) {
        o->done(o->arg, NULL, &err);
        order_free(o);
        return;
    }
    l->ended = lease_over;
    l->ended_arg = o;
    o->lease = l;
    o->done(o->arg, l, &err);
}

/* ---- zeroing ----------------------------------------------------------------------------- */

static void zero_some(struct order *o, uint64_t bytes) {
    static const char zeros[AT_ONCE];
    char *base = (char *)o->budget->pool->base + o->budget->offset + o->extent->offset;
    while (bytes && !o->vanished) {
        size_t n = bytes < sizeof(zeros) ? (size_t)bytes : sizeof(zeros);
        o->vanished = guard_copy(base + o->zeroed, zeros, n) != NULL;
        o->zeroed += n;
        bytes -= n;
    }
}

static void zero_run(struct offload_job *job) {
    struct order *o = container_of(job, struct order, job);
    uint64_t left = o->extent->length - o->zeroed;
    zero_some(o, left < SLICE ? left : SLICE);
}

static void zero_done(struct offload_job *job) {
    struct order *o = container_of(job, struct order, job);
    if (o->zeroed < o->extent->length && !o->vanished && !o->budget->closing)
        offload_post(o->budget->pool->session->state->offload, job);
    else
        order_grant(o);
}

/* A page that is not locked may be on the disk, or wait for its owner's cgroup to find room; and
 * where the owner can punch holes, a touch waits until one is punched. */
static bool is_at_hand(const struct pool *p) {
    return p->shared.locked && !p->shared.loose;
}

void budget_request(struct budget *b, const struct budget_ask *ask, budget_granted *done,
                    void *arg) {
    struct state *st = b->pool->session->state;
    struct order *o = calloc(1, sizeof(*o));
    struct error err;

    if (!o)
        error_set(&err, RDMAD_E_NOMEM, "out of memory for a request");
    if (!o || order_take(b, ask, o, &err)) {
        free(o);
        done(arg, NULL, &err);
        return;
    }
    o->budget = b;
    o->bytes = ask->bytes;
    o->ttl_ns = ask->ttl_ns ? ask->ttl_ns : b->max_ttl_ns;
    o->rights = ask->rights;
    o->uid = ask->uid;
    strncpy(o->node_name, ask->node, sizeof(o->node_name) - 1);
    o->done = done;
    o->arg = arg;
    o->job = (struct offload_job){.owner = user_id_number(session_user_id(b->pool->session)),
                                  .reply_to = st->mailbox,
                                  .run = zero_run,
                                  .done = zero_done};
    list_append(&b->orders, &o->node);
    late_event_init(&o->late_hand_over, order_send_hand_over);
    b->count++;
    if (o->extent->length > AT_ONCE || !is_at_hand(b->pool)) {
        offload_post(st->offload, &o->job);
        return;
    }
    zero_some(o, o->extent->length);
    order_grant(o);
}

/* ---- what was handed over ---------------------------------------------------------------- */

int budget_free(struct budget *b, uint64_t offset, struct error *err) {
    struct extent *e = offset < b->offset ? NULL : extents_find(b->extents, offset - b->offset);
    if (!e || e->user != owners)
        return error_set(err, RDMAD_E_HANDLE,
                         "no memory that begins at offset %" PRIu64
                         " was handed over to service \"%s\", or it was given back already",
                         offset, b->name);
    b->handed_over -= e->length;
    pieces_drop(b, 1);
    extents_give(b->extents, e);
    return 0;
}

int budget_keep(struct budget *b, uint64_t offset, uint64_t length, struct error *err) {
    bool no_room = true;
    struct extent *e = NULL;
    if (pieces_check(b, err))
        return err->code;
    if (b->shut && offset >= b->offset)
        e = extents_take_at(b->extents, offset - b->offset, length, owners, &no_room);
    if (e) {
        b->handed_over += e->length;
        pieces_add(b);
        return 0;
    }
    if (!no_room)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a budget");
    return error_set(err, RDMAD_E_RANGE,
                     "%" PRIu64 " bytes at offset %" PRIu64
                     " cannot have been handed over to service \"%s\": they are not all of its "
                     "budget and free",
                     length, offset, b->name);
}

void budget_open(struct budget *b) {
    b->shut = false;
}
