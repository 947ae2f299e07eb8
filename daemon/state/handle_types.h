/* SPDX-License-Identifier: MIT */
/*
 * handle_types.h - what a handle is made of; handle.h says how it lives.
 */
#ifndef RDMAD_STATE_HANDLE_TYPES_H
#define RDMAD_STATE_HANDLE_TYPES_H

#include "daemon/state/late_event.h"
#include "daemon/state/lease.h"

struct handle;

struct handle_ops { /* of a handle on a peer's lease */
    /* The session closes while the handle is NEW: give up, call handle_free. */
    void (*cancel)(struct handle *h);
    /* Nothing of the session can reach the lease any more, and h forgets its record. returned: the
     * session gave the lease back. If h->returned is HANDLE_HANDED_OVER the memory goes to the
     * service's owner, and the record takes over h->releasing to answer it when the owner has. */
    void (*let_go)(struct handle *h, bool returned);
    /* Ask the owner for renewal; the answer is handle_kept. */
    void (*keep)(struct handle *h);
};

enum handle_stage {
    HANDLE_NEW,
    HANDLE_ADDING,
    HANDLE_USABLE,
    HANDLE_ENDING,
    HANDLE_FAILING,
    HANDLE_UNTOLD,
    HANDLE_TOLD,
};

/* Whether the client still wants it. */
enum handle_return { HANDLE_NOT_RETURNED, HANDLE_RELEASED, HANDLE_HANDED_OVER };

struct handle {
    struct session *session; /* held */
    uint64_t number;         /* the session's handle, in its sqes */
    uint64_t lease_id;
    uint64_t length, deadline_ns;
    uint32_t rights;
    enum handle_stage stage;
    enum handle_return returned; /* HANDED_OVER: its memory goes to the service's owner */
    bool remote;                 /* the lease is a peer's */
    const char *fabric; /* what it goes over, or "local"; from when the data plane has it */
    bool requested;     /* its memory is of a service's budget */
    bool keep;          /* its owner is asked for renewal in time */
    unsigned pending;   /* answers of the data plane under way */
    int reason;         /* once ENDING */
    struct late_event late_renewal; /* of the last one */
    struct late_event late_end;     /* UNTOLD */
    struct list ended_node;         /* TOLD: in session->handles_ended */
    struct timer expiry;            /* remote: the owner's daemon may be unable to tell us */
    struct attachment attachment;   /* local: lease is NULL unless it is in the lease's list */
    const struct handle_ops *ops;   /* remote */
    void *peer_record;              /* remote: peer/'s own */
    struct session_waiter attaching, releasing, keeping;
    struct timer keep_again;
    struct quota_charge charge;
    char uri[RDMAD_URI_MAX + 1];   /* without the secret, for show */
    char text[RDMAD_TEXT_MAX + 1]; /* once ENDING: for the client */
};

#endif
