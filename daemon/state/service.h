/* SPDX-License-Identifier: MIT */
/*
 * service.h - names at which sessions of this daemon take connections and requests for memory.
 *
 * The happy path: service_listen makes the name known; whoever connects (a session here, or a peer)
 * is offered to it and waits; the service's session hears of it and accepts, which hands an end of
 * its own to whoever offered, or rejects. Names of services and of published leases are one name
 * space.
 *
 * Connections that wait are refused when the service closes, and may be withdrawn at any time.
 * Their number is bounded by the backlog, and they are charged to the service's session. When one
 * address fills the backlog, its newest connection gives way to another address's. A client that
 * does not read hears of those that wait when it reads again.
 */
#ifndef RDMAD_STATE_SERVICE_H
#define RDMAD_STATE_SERVICE_H

#include "daemon/state/late_event.h"
#include "daemon/state/names.h"
#include "daemon/state/session.h"

#define SERVICE_BACKLOG 16u /* when the client asks for none */
#define SERVICE_BACKLOG_MAX 1024u

struct budget; /* state/budget.h */
struct channel;
struct incoming;
struct origin; /* an address or user that has connections waiting, and how many */

struct service_terms {
    uint32_t backlog, scope, scope_uid;
    uint64_t budget_pool, budget_offset, budget_length; /* length 0: no requests */
    uint64_t max_request, max_ttl_ns;
    uint32_t max_rights;
    bool budget_shut; /* until budget_open */
    char scope_peer[RDMAD_NAME_MAX + 1];
    char name[RDMAD_NAME_MAX + 1];
};

struct service {
    struct session *session;
    struct list node; /* in session->services */
    struct name name;
    uint64_t number; /* never used twice */
    struct service_terms terms;
    struct list incoming;
    struct list origins;
    uint32_t waiting;
    uint64_t offered, accepted; /* so far */
    uint64_t since_ns;
    struct budget *budget; /* NULL: none */
    struct quota_charge charge;
};

struct incoming_ops {
    /* It is accepted and does not belong to the service any more. end is the acceptor's and NEW;
     * within timeout_ns it becomes ready or fails. */
    void (*accept)(struct incoming *in, struct channel *end, uint64_t timeout_ns);
    /* It will not be accepted, and does not belong to the service any more. */
    void (*refuse)(struct incoming *in, const struct error *why);
};

struct incoming {            /* embedded in the record of who connects */
    struct service *service; /* NULL: it does not wait */
    struct origin *origin;   /* while it waits */
    struct list node;
    uint64_t number; /* never used twice */
    uint32_t kind;   /* asked for */
    uid_t uid;
    uint64_t peer; /* 0: of this daemon */
    char node_name[RDMAD_NAME_MAX + 1];
    bool proven;                      /* node_name: by its certificate, or it is this daemon's */
    char address[RDMAD_NAME_MAX + 1]; /* "": of this daemon */
    struct late_event late;           /* while it waits the client has not heard of it */
    const struct incoming_ops *ops;
    struct quota_charge charge;
};

int service_listen(struct session *s, const struct service_terms *terms, struct service **out,
                   struct error *err);
void service_close(struct service *sv);
void services_close_session(struct session *s);
/* Prints the URI for those who shall connect. */
void service_uri(const struct service *sv, char uri[RDMAD_URI_MAX + 1]);

/* For those who connect. If the name is no service's, the error says what else it is. */
int service_find(struct state *st, const char *name, struct service **out, struct error *err);
/* The session's own. */
struct service *service_own(struct session *s, uint64_t number);
struct incoming *service_incoming(struct service *sv, uint64_t number);

/* Checks the scope and the backlog; then in waits. The caller has filled in its kind, uid, peer,
 * names and ops. */
int service_offer(struct service *sv, const struct lessee *who, struct incoming *in,
                  struct error *err);
/* Whoever connects gives up. */
void incoming_withdraw(struct incoming *in);
/* The answers of the service's session. The channel that accepts it is charged as it was itself, so
 * it gives its place up before that channel is made: otherwise a backlog as long as the limit could
 * not be accepted. */
void incoming_give_place(struct incoming *in);
void incoming_accept(struct incoming *in, struct channel *end, uint64_t timeout_ns);
void incoming_refuse(struct incoming *in, const struct error *why);

#endif
