/* SPDX-License-Identifier: MIT */
/*
 * service.c - the life of a service, and of who waits to be accepted.
 */
#include "daemon/state/service.h"
#include "daemon/base/address.h"
#include "daemon/base/log.h"
#include "daemon/state/budget.h"
#include "daemon/state/scope.h"
#include <inttypes.h>
#include <rdmad/wire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int service_find(struct state *st, const char *name, struct service **out, struct error *err) {
    struct name *found = names_find(st->names, name);
    if (found && found->kind == RDMAD_NAME_SERVICE) {
        *out = container_of(found, struct service, name);
        return 0;
    }
    if (found)
        return error_set(err, RDMAD_E_NO_SERVICE,
                         "\"%s\" is a published lease at %s, not a service: attach to it instead",
                         name, st->node_name);
    return error_set(err, RDMAD_E_NO_SERVICE,
                     "there is no service \"%s\" at %s; is the program that offers it running?",
                     name, st->node_name);
}

struct service *service_own(struct session *s, uint64_t number) {
    list_for_each (node, &s->services) {
        struct service *sv = list_entry(node, struct service, node);
        if (sv->number == number)
            return sv;
    }
    return NULL;
}

struct incoming *service_incoming(struct service *sv, uint64_t number) {
    list_for_each (node, &sv->incoming) {
        struct incoming *in = list_entry(node, struct incoming, node);
        if (in->number == number)
            return in;
    }
    return NULL;
}

static struct scope scope_of(const struct service_terms *t, const struct session *owner) {
    return (struct scope){
        .kind = t->scope, .uid = t->scope_uid, .peer = t->scope_peer, .tenant = owner->tenant};
}

/* ---- listen and close -------------------------------------------------------------------- */

static int check_terms(const struct session *s, const struct service_terms *t, struct error *err) {
    struct state *st = s->state;
    struct scope scope = scope_of(t, s);
    if (state_leaves(st))
        return error_set(err, RDMAD_E_SHUTDOWN, "rdmad %s and takes no more services",
                         state_leaves(st));
    if (!rdmad_name_ok(t->name))
        return error_set(err, RDMAD_E_NAME,
                         "\"%s\" cannot name a service: a name is 1 to %u of A-Z a-z 0-9 . _ -, "
                         "does not start with a dot and is not \"lease\"",
                         t->name, RDMAD_NAME_MAX);
    if (t->backlog > SERVICE_BACKLOG_MAX)
        return error_set(err, RDMAD_E_INVAL,
                         "a backlog of %" PRIu32 " was asked, at most %u connections can wait for "
                         "a service; accept them faster instead",
                         t->backlog, SERVICE_BACKLOG_MAX);
    int rc = names_check_free(st->names, t->name, err);
    return rc ? rc : scope_validate(&scope, err);
}

static void service_forget(struct service *sv) {
    quota_discharge(&sv->charge);
    free(sv);
}

/* Memory for LEASE_REQUEST, when the terms have any. */
static int make_budget(struct service *sv, struct error *err) {
    const struct service_terms *t = &sv->terms;
    struct budget_terms b = {
        .pool = t->budget_pool,
        .offset = t->budget_offset,
        .length = t->budget_length,
        .max_request = t->max_request,
        .max_ttl_ns = t->max_ttl_ns,
        .max_rights = t->max_rights,
        .scope = scope_of(t, sv->session),
        .service = sv->number,
        .name = t->name,
        .shut = t->budget_shut,
    };
    if (t->budget_length)
        return budget_new(sv->session, &b, &sv->budget, err);
    if (t->budget_pool || t->budget_offset || t->max_request || t->max_ttl_ns || t->max_rights)
        return error_set(err, RDMAD_E_INVAL,
                         "service \"%s\" has terms for requests, but a budget of no bytes",
                         t->name);
    return 0;
}

/* No number of an earlier life: a client may still have that in a request. */
static uint64_t service_next_number(struct state *st) {
    if (!st->service_numbers)
        st->service_numbers = (uint64_t)st->life.number << 40;
    return ++st->service_numbers;
}

int service_listen(struct session *s, const struct service_terms *terms, struct service **out,
                   struct error *err) {
    struct state *st = s->state;
    int rc = check_terms(s, terms, err);
    if (rc)
        return rc;
    struct service *sv = calloc(1, sizeof(*sv));
    if (!sv)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a service");
    sv->session = s;
    sv->terms = *terms;
    if (!terms->backlog)
        sv->terms.backlog = SERVICE_BACKLOG;
    sv->since_ns = state_now(st);
    sv->number = service_next_number(st);
    list_init(&sv->incoming);
    list_init(&sv->origins);
    rc = quota_charge(&st->quota, &s->account, s->uid_account, QUOTA_SERVICES, 1, &sv->charge, err);
    if (!rc)
        rc = make_budget(sv, err);
    if (rc) {
        service_forget(sv);
        return rc;
    }
    list_append(&s->services, &sv->node);
    sv->name = (struct name){
        .text = sv->terms.name, .kind = RDMAD_NAME_SERVICE, .scope = scope_of(&sv->terms, s)};
    names_add(st->names, &sv->name);
    LOG_LIMITED_OF(log_of_user(session_user_id(s)), DEBUG,
                   ("session %" PRIu64 " offers service %s", s->id, terms->name),
                   FIELD_U64("SESSION", s->id));
    *out = sv;
    return 0;
}

void service_close(struct service *sv) {
    struct list *node;
    struct error why;

    list_remove(&sv->node);
    names_remove(&sv->name);
    error_set(&why, RDMAD_E_NO_SERVICE, "service \"%s\" was closed before it accepted",
              sv->terms.name);
    while ((node = list_first(&sv->incoming)))
        incoming_refuse(list_entry(node, struct incoming, node), &why);
    if (sv->budget)
        budget_close(sv->budget, NULL, NULL);
    service_forget(sv);
}

void services_close_session(struct session *s) {
    struct list *node;
    while ((node = list_first(&s->services)))
        service_close(list_entry(node, struct service, node));
}

void service_uri(const struct service *sv, char uri[RDMAD_URI_MAX + 1]) {
    const struct state *st = sv->session->state;
    struct rdmad_uri u = {.port = st->listen_port};
    snprintf(u.host, sizeof(u.host), "%s", st->listen_host);
    memcpy(u.name, sv->terms.name, sizeof(u.name));
    if (rdmad_uri_print(&u, uri, RDMAD_URI_MAX + 1) < 0)
        uri[0] = '\0'; /* cannot be: host and name are bounded to fit */
}

/* ---- who waits --------------------------------------------------------------------------- */

static void incoming_send(struct late_event *e) {
    const struct incoming *in = container_of(e, struct incoming, late);
    struct rdmad_ev_channel_incoming ev = {.service = in->service->number,
                                           .incoming = in->number,
                                           .kind = in->kind,
                                           .uid = in->uid,
                                           .flags = in->proven ? RDMAD_CHANNEL_PEER_PROVEN : 0};
    memcpy(ev.node, in->node_name, sizeof(ev.node));
    snprintf(ev.address, sizeof(ev.address), "%.*s", (int)sizeof(ev.address) - 1, in->address);
    session_send(in->service->session, RDMAD_EV_CHANNEL_INCOMING, 0, &ev, sizeof(ev), NULL, 0);
}

/* Where a peer connects from, however many peers come from there, or a uid here. */
struct origin {
    struct list node;
    bool remote;
    struct in6_addr source;
    uid_t uid;
    unsigned count; /* of its connections that wait */
};

/* NULL: nothing of it waits. */
static struct origin *origin_of(const struct service *sv, const struct lessee *who,
                                const struct incoming *in) {
    struct in6_addr source = address_source(in->peer ? who->address : "");
    list_for_each (node, &sv->origins) {
        struct origin *o = list_entry(node, struct origin, node);
        if (o->remote != (in->peer != 0))
            continue;
        if (o->remote ? !memcmp(&o->source, &source, sizeof(source)) : o->uid == in->uid)
            return o;
    }
    return NULL;
}

static struct origin *origin_new(struct service *sv, const struct lessee *who,
                                 const struct incoming *in) {
    struct origin *o = calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    o->remote = in->peer != 0;
    o->source = address_source(o->remote ? who->address : "");
    o->uid = in->uid;
    list_append(&sv->origins, &o->node);
    return o;
}

static unsigned most_of_one(const struct service *sv) {
    unsigned most = 0;
    list_for_each (node, &sv->origins) {
        unsigned count = list_entry(node, struct origin, node)->count;
        most = count > most ? count : most;
    }
    return most;
}

/* The newest of whoever has so many. */
static struct incoming *newest_of(const struct service *sv, unsigned most) {
    struct incoming *found = NULL;
    list_for_each (node, &sv->incoming) {
        struct incoming *in = list_entry(node, struct incoming, node);
        if (in->origin->count == most)
            found = in;
    }
    return found;
}

static int service_make_room(struct service *sv, const struct lessee *who,
                             const struct incoming *newcomer, struct error *err) {
    struct error why;
    if (sv->waiting < sv->terms.backlog)
        return 0;
    const struct origin *own = origin_of(sv, who, newcomer);
    unsigned most = most_of_one(sv);
    struct incoming *last = (own ? own->count : 0) + 1 < most ? newest_of(sv, most) : NULL;
    if (!last)
        return error_set(err, RDMAD_E_LIMIT,
                         "%" PRIu32 " connections wait for service \"%s\" already, which is its "
                         "backlog; try again later",
                         sv->waiting, sv->terms.name);
    error_set(&why, RDMAD_E_LIMIT,
              "%u of the %" PRIu32 " connections that can wait for service \"%s\" were yours; this "
              "one made room for another's",
              most, sv->terms.backlog, sv->terms.name);
    incoming_refuse(last, &why);
    return 0;
}

int service_offer(struct service *sv, const struct lessee *who, struct incoming *in,
                  struct error *err) {
    struct session *s = sv->session;
    struct scope scope = scope_of(&sv->terms, s);
    char what[RDMAD_NAME_MAX + 16];
    int rc;

    snprintf(what, sizeof(what), "service \"%s\"", sv->terms.name);
    if (s->closing || state_leaves(s->state))
        return error_set(err, RDMAD_E_NO_SERVICE, "%s is closing", what);
    if ((rc = scope_check(&scope, what, who, err)) || (rc = service_make_room(sv, who, in, err)) ||
        (rc = quota_charge(&s->state->quota, &s->account, s->uid_account, QUOTA_CHANNELS, 1,
                           &in->charge, err)))
        return rc;
    struct origin *origin = origin_of(sv, who, in);
    if (!origin && !(origin = origin_new(sv, who, in))) {
        quota_discharge(&in->charge);
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a connection to %s", what);
    }
    origin->count++;
    in->origin = origin;
    in->service = sv;
    in->number = service_next_number(s->state);
    late_event_init(&in->late, incoming_send);
    list_append(&sv->incoming, &in->node);
    sv->waiting++;
    sv->offered++;
    session_tell(s, &in->late);
    return 0;
}

static void incoming_take_out(struct incoming *in) {
    struct origin *o = in->origin;
    in->origin = NULL;
    if (--o->count == 0) {
        list_remove(&o->node);
        free(o);
    }
    in->service->waiting--;
    in->service = NULL;
    late_event_drop(&in->late);
    list_remove(&in->node);
    quota_discharge(&in->charge);
}

void incoming_withdraw(struct incoming *in) {
    if (!in->service)
        return;
    struct session *s = in->service->session;
    struct rdmad_channel_reject_req ev = {.service = in->service->number, .incoming = in->number};
    /* A client that does not read finds out when it accepts: the connection is gone. */
    if (!late_event_waits(&in->late) && !s->closing && !session_lags(s))
        session_send(s, RDMAD_EV_INCOMING_GONE, 0, &ev, sizeof(ev), NULL, 0);
    incoming_take_out(in);
}

/* When no end can be made after all it goes on waiting, bounded by the backlog alone. */
void incoming_give_place(struct incoming *in) {
    quota_discharge(&in->charge);
}

void incoming_accept(struct incoming *in, struct channel *end, uint64_t timeout_ns) {
    in->service->accepted++;
    incoming_take_out(in);
    in->ops->accept(in, end, timeout_ns);
}

/* The text may be the service's program's, and will be on somebody else's terminal or in a log. */
void incoming_refuse(struct incoming *in, const struct error *why) {
    struct error clean = *why;
    for (char *c = clean.text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    incoming_take_out(in);
    in->ops->refuse(in, &clean);
}
