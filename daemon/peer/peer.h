/* SPDX-License-Identifier: MIT */
/*
 * peer.h - other rdmads: the control connections to and from them, and what is agreed over them.
 *
 * A daemon that wants a lease dials the owner's daemon (an outgoing peer); one that is dialled has
 * an incoming peer. Over the connection go fixed little structs (wire/message.h): hello, attach,
 * release, revoke, renewed, link offers, ping. Memory never moves here; the fabric's links do that.
 *
 * Where this node has an identity (state/identity.h) the connection is TLS 1.3, and each end has
 * shown the other whose it is. Where it has none, connections are plain TCP and do not leave
 * loopback, unless peer.insecure says so.
 *
 * When a connection is lost, the leases that went over it end: an incoming peer's attachments are
 * cut, an outgoing peer's handles end with RDMAD_E_PEER_LOST. When only a link is lost, it is made
 * anew and each lease gets a new key; ops wait meanwhile, until their deadline.
 */
#ifndef RDMAD_PEER_PEER_H
#define RDMAD_PEER_PEER_H

#include "daemon/state/handle.h"

struct peers;
struct channel; /* state/channel.h */

/* Listens on config.listen; fills in state->listen_host and listen_port. */
int peers_new(struct state *st, struct peers **out, struct error *err);
/* Whether it could, at config.listen or, any_port, at some port of that host; nobody hears of it.
 */
int peers_check(const struct state *st, bool any_port, struct error *err);
/* Says goodbye to every peer and closes; done when the last attachment and lane is gone. */
/* This daemon stops, and is perhaps started again: tells those who have leases here, so that they
 * can end what they have under way and leave by themselves (lessee/return.h). */
void peers_leave(struct peers *ps);
/* Whether they have. */
bool peers_have_left(const struct peers *ps);
void peers_stop(struct peers *ps, plane_done *done, void *arg);
void peers_free(struct peers *ps);

/* Another identity was loaded: peers whose certificate is not good any more end soon, and those
 * that have shown none. */
void peers_judge_anew(struct peers *ps);

/* Whether an interface has the address that it listens on, at the moment. */
bool peers_are_reachable(const struct peers *ps);

/* Whether uri names this very daemon. */
bool peers_is_self(const struct peers *ps, const struct rdmad_uri *uri);

/* Whether leases of the daemon at uri's address are away, so that it may be about to come back. */
bool peers_await(struct peers *ps, const struct rdmad_uri *uri);

/* Dials (or finds) the owner's daemon, asks for the lease, sets up the lane, makes the handle
 * usable. done after success or failure; on failure the handle is freed. */
void peer_attach(struct peers *ps, struct handle *h, const struct rdmad_uri *uri,
                 uint64_t timeout_ns, plane_done *done, void *arg);

/* Dials (or finds) the service's daemon and connects ch, which is NEW, to the service that uri
 * names. ch's opening tells the rest. */
void peer_connect(struct peers *ps, struct channel *ch, const struct rdmad_uri *uri,
                  uint64_t timeout_ns);

/* ch, which has a key and is NEW, was connected to the service that uri names before: it seeks its
 * other end there. */
void peer_channel_resume(struct channel *ch, const struct rdmad_uri *uri);

/* The same for memory of the service that uri names. terms were checked. */
struct request_terms {
    uint64_t bytes, ttl_ns; /* ttl_ns 0: as the service likes */
    uint32_t rights;
};
void peer_request(struct peers *ps, struct handle *h, const struct rdmad_uri *uri,
                  const struct request_terms *terms, uint64_t timeout_ns, plane_done *done,
                  void *arg);

/* Makes a narrower lease of the one that h is attached to at a peer. part's rights must not be 0.
 */
typedef void peer_delegated(void *arg, const struct error *result,
                            const struct rdmad_lease_grant_rep *rep);
void peer_delegate(struct handle *h, const struct lease_part *part, uint64_t timeout_ns,
                   peer_delegated *done, void *arg);

/* Lists the names of the daemon at host, RDMAD_NAMES_PER_REPLY at most. */
struct names_query {
    char host[RDMAD_HOST_MAX + 1];
    uint16_t port;
    uint64_t timeout_ns;
    char prefix[RDMAD_NAME_MAX + 1], after[RDMAD_NAME_MAX + 1];
};
typedef void peer_listed(void *arg, const struct error *result,
                         const struct rdmad_names_list_rep *rep);
void peer_list(struct session *s, const struct names_query *query, peer_listed *done, void *arg);
/* Tells w of that daemon's names; watch_begin has made w without a table of names. done: the watch
 * has begun, or why not. w stays the caller's, who ends it with peer_unwatch. When the peer is lost
 * w is over (RDMAD_E_PEER_LOST). */
struct peer_ask;
struct peer_ask *peer_watch(struct session *s, const struct names_query *query, struct watch *w,
                            plane_done *done, void *arg);
void peer_unwatch(struct peer_ask *a);
void peer_watch_more(struct peer_ask *a, unsigned count); /* as many more may come */

/* Dials and says hello: rdmactl peer add. */
void peer_add(struct peers *ps, const char *host, uint16_t port, plane_done *done, void *arg);

/* The policy has changed: what the peers that are connected get of the workers changes with it, and
 * those that may not be connected any more end. */
void peers_apply_policy(struct peers *ps);

/* Where plane_events.lane_lost goes. */
void peers_lane_lost(struct peers *ps, void *lane_cookie, const struct error *why);
/* For plane_events.peer_throttled. */
void peers_throttled(struct peers *ps, uint64_t peer, enum plane_rate by);

/* What the connections of a peer's name have here together; "": those without a proven one. */
struct peer_use {
    uint64_t connections, attaches, notifications, channels, registered_bytes;
};
void peers_use(const struct peers *ps, const char *name, struct peer_use *out);

struct peer_view {
    uint64_t id;
    const char *direction;   /* "out": we dialled, "in": it did */
    const char *state;       /* "connecting", "up" */
    const char *address;     /* IP:PORT of the other end */
    const char *node;        /* as it calls itself; secured: as its certificate does */
    const char *fingerprint; /* of its certificate; NULL: it has shown none, and talks in clear */
    int64_t not_after;       /* of that; seconds since 1970 */
    const char *fabric;      /* "": not agreed on yet */
    const char *fabric_why;  /* why it is not the best of this daemon's; "": it is */
    unsigned protocol;       /* in which version of it they talk; 0: not agreed on yet */
    uint64_t channels;       /* that need it */
    uint64_t attachments;    /* in: its attachments here; out: our handles there */
    uint64_t since_ns;
};
struct link_view {
    uint64_t peer;
    const char *node; /* the peer's, likewise */
    unsigned worker;
    const char *fabric, *state; /* "opening", "up", "idle", "rebuilding", "closing" */
    const char *encryption;     /* "none", "openssl"; "": it is not up */
    uint64_t session;           /* whose alone it is; 0: everybody's */
    uint64_t handles, channels;
    uint64_t quiesce_ns;     /* bound within which an op's memory is let go */
    uint64_t rebuilds;       /* how often it was made anew */
    const char *last_error;  /* why it last broke or could not be opened; "" */
    uint64_t last_error_ns;  /* when that was */
    const char *address;     /* IP:PORT of the peer's control connection */
    struct plane_lane *lane; /* NULL: it is let go of, and its last word is told */
};
void peers_view(struct peers *ps, void (*each)(void *arg, const struct peer_view *v), void *arg);
void links_view(struct peers *ps, void (*each)(void *arg, const struct link_view *v), void *arg);
unsigned peers_count(const struct peers *ps);
/* How many are up over another fabric than the best of this daemon's. */
unsigned peers_fallen_back(const struct peers *ps);

#endif
