/* SPDX-License-Identifier: MIT */
/*
 * claim.h - an attach of ours at a peer, from the first byte to the last answer.
 *
 *   WAITING --> ASKED --> LINKING --> LIVE --> HANDING --> free
 *                | |         |         | ^
 *                | |         +---------+-|-> REVOKED --> free
 *                | |                   | +---------+
 *                | |                   v           |
 *                | |                  AWAY <--> ASKED_AGAIN
 *                | +--> REFUSED --> free           |
 *                +----> ABANDONED --> free <-------+
 *
 * Up to LINKING the handle is NEW, and claim_fail ends both: a claim whose answer is still to come
 * is ABANDONED until then, any other is freed at once. When LIVE or REVOKED, the data plane has the
 * handle, or it is draining, and it lets go of the claim at its end; a claim that is REVOKED while
 * LINKING fails at once. When the peer is lost, claims whose handle the data plane has stay until
 * that lets go; the others are freed. Those that are LIVE may be AWAY first, until the peer is back
 * (return.h).
 */
#ifndef RDMAD_PEER_LESSEE_CLAIM_H
#define RDMAD_PEER_LESSEE_CLAIM_H

#include "daemon/peer/control/record.h"
#include "daemon/peer/lane/lane.h"
#include "daemon/peer/peer.h"

enum claim_stage {
    CLAIM_WAITING,     /* for the peer's hello */
    CLAIM_ASKED,       /* for its answer */
    CLAIM_LINKING,     /* granted; for the lane, and for a key that is good on it */
    CLAIM_LIVE,        /* the handle is the data plane's, or draining */
    CLAIM_REVOKED,     /* the same, and the owner waits for STOPPED */
    CLAIM_AWAY,        /* the same, but the peer was lost, or does not have the lease again yet */
    CLAIM_ASKED_AGAIN, /* the same; it is back, and was asked for the lease */
    CLAIM_HANDING,     /* handed over; for the owner to say that it has the memory */
    CLAIM_REFUSED,     /* the answer was no: nothing is to be undone at the owner */
    CLAIM_ABANDONED,   /* given up while ASKED: what is granted late is given back at once */
};

/* How long the lease lasts: one question at a time. */
enum claim_ttl {
    CLAIM_TTL_KNOWN,
    CLAIM_TTL_ASKED,    /* a TTL_REQ is out */
    CLAIM_TTL_ASK_AGAIN /* the same, and another renewal came meanwhile */
};

struct claim {
    struct peer *peer;
    uint64_t ref; /* in the peer's table */
    enum claim_stage stage;
    struct handle *handle;      /* NULL once HANDING or ABANDONED */
    struct user_id user;        /* whose its session is */
    struct quota_charge charge; /* ABANDONED: the handle's, until the owner has answered */
    struct rdmad_uri uri;
    bool requested; /* uri names a service, which is asked for the request below */
    struct request_terms request;
    struct timer timeout; /* of the attach; or how long it may be AWAY */
    uint64_t timeout_ns;
    struct session_waiter done;
    uint64_t asked_ns; /* when the time that we count with was asked for */
    enum claim_ttl ttl;
    uint64_t owner_ref;
    struct plane_lease_spec spec;
    struct lane *lane;
    struct lane_user lane_user;
    uint64_t via;           /* for which link a key was asked for last */
    unsigned keys_asked;    /* KEY_REQs that are not answered; only the last answer counts */
    struct timer key_again; /* asks once more */
    uint64_t key_pause_ns;
    char trouble[RDMAD_TEXT_MAX + 1]; /* why there was no key the last time; "" */
    struct error revoked_why;         /* once REVOKED */
    struct session_waiter handing;
    struct session_call call; /* HANDING */
    uint64_t said_ns;         /* the use of it up to this time was told to the owner */
};

/* The handle is the data plane's, or draining, and the owner's daemon knows of it. */
static inline bool claim_is_known(const struct claim *c) {
    return c->stage == CLAIM_LIVE || c->stage == CLAIM_REVOKED;
}

/* It waits for the owner's daemon to come back, or to give the lease again. */
static inline bool claim_is_away(const struct claim *c) {
    return c->stage == CLAIM_AWAY || c->stage == CLAIM_ASKED_AGAIN;
}

/* The handle is the data plane's, or draining. */
static inline bool claim_is_attached(const struct claim *c) {
    return claim_is_known(c) || claim_is_away(c);
}

struct state *claim_state_of(const struct claim *c);
/* Makes a claim for h, which is NEW, in p's table. */
struct claim *claim_new(struct peer *p, struct handle *h, const struct rdmad_uri *uri,
                        uint64_t timeout_ns, struct error *err);
void claim_free(struct claim *c);
void claim_enter(struct claim *c, enum claim_stage stage); /* as drawn above */
struct claim *claim_find(struct peer *p, uint64_t ref);
/* The session of the claim of that number; NULL: there is none. */
struct session *claim_session(struct peer *p, uint64_t ref);

/* From now on the handle tells the claim of its end. */
void claim_give_handle(struct claim *c);
/* The attach has failed: frees the claim or abandons it, and answers whoever waits. */
void claim_fail(struct claim *c, const struct error *why);
/* If its session is closing, fails the claim, because the session has no data plane any more, and
 * returns true. */
bool claim_is_closing(struct claim *c);
/* LINKING, with lane and key: hands it to the data plane. */
void claim_usable(struct claim *c);
/* HANDING: the owner has answered, or never will. Frees it. */
void claim_handed(struct claim *c, const struct error *result);
void claim_send_attach(struct claim *c); /* the question for a lease that has a URI */
void claim_send_release(struct claim *c, uint32_t returned); /* enum peer_returned */
/* Tells the owner's daemon how we used its leases since it was last told, because it cannot see
 * what its device does for us. */
void claims_say_use(struct peer *p);

#endif
