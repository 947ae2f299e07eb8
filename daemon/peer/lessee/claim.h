/* SPDX-License-Identifier: MIT */
/*
 * claim.h - an attach of ours at a peer, from the first byte to the last answer. Of attach.c, and
 * of key.c what concerns its key; lane.c links it into its lists.
 */
#ifndef RDMAD_PEER_CLAIM_H
#define RDMAD_PEER_CLAIM_H

#include "daemon/peer/internal.h"

enum claim_stage {
    CLAIM_WAITING,   /* for the peer's hello */
    CLAIM_ASKED,     /* for its answer */
    CLAIM_LINKING,   /* granted; for the lane, and for a key that is good on it */
    CLAIM_LIVE,      /* the handle is the data plane's, or draining */
    CLAIM_HANDING,   /* handed over; for the owner to say that it has the memory */
    CLAIM_ABANDONED, /* given up while ASKED: what is granted late is given back at once */
};

struct claim {
    struct peer *peer;
    uint64_t ref; /* in peer->claims */
    enum claim_stage stage;
    struct handle *handle; /* NULL once HANDING or ABANDONED */
    uid_t uid;             /* of its session */
    struct rdmad_uri uri;
    bool requested; /* uri names a service, and this is what is wanted of it */
    struct request_terms request;
    struct timer timeout;
    uint64_t timeout_ns;
    struct session_waiter done;
    uint64_t asked_ns; /* when the duration in hand was asked for */
    uint64_t owner_ref;
    struct plane_lease_spec spec;
    struct lane *lane;
    struct lane_user lane_user;
    uint64_t via;           /* for which link the key was asked last */
    unsigned keys_asked;    /* KEY_REQs that are not answered; only the last answer counts */
    struct timer key_again; /* asks once more */
    uint64_t key_pause_ns;
    char trouble[RDMAD_TEXT_MAX + 1]; /* why there was no key the last time; "" */
    bool revoked;                     /* the owner waits for STOPPED */
    struct error revoked_why;
    struct session_waiter handing;
    struct session_call call;  /* HANDING */
    uint64_t said_ns;          /* until when its use was told to the owner */
    bool ttl_asked, ttl_again; /* a TTL_REQ is out; another renewal came meanwhile */
};

/* ---- attach.c ---- */
/* The attach comes to nothing: frees or abandons it, and tells who waits. */
void claim_fail(struct claim *c, const struct error *why);
/* Fails it when its session closes: that has no data plane to which anything could be added. */
bool claim_is_closing(struct claim *c);
/* No link can be had, now and later: who still waits for one fails. */
void claim_lane_refused(struct claim *c);
/* LINKING, with lane and key: hands it to the data plane. */
void claim_usable(struct claim *c);

/* ---- key.c ---- */
void claim_lane_news(struct lane_user *u, enum lane_news news); /* may free the claim */

#endif
