/* SPDX-License-Identifier: MIT */
/*
 * handle.h - leases at their lessee: what a session's sqes name.
 *
 * A handle stands for one attach of one session, to a lease of this daemon (it then embeds the
 * owner's attachment) or to one of a peer (it then knows the peer's number for it). When the lease
 * ends the data plane is told first (plane_lease_end), then the client by an event, then the handle
 * is free.
 */
#ifndef RDMAD_STATE_HANDLE_H
#define RDMAD_STATE_HANDLE_H

#include "daemon/state/lease.h"

struct handle;

struct handle_ops { /* of a handle on a peer's lease */
    /* The session gives it back or is gone: tell the owner's daemon. */
    void (*released)(struct handle *h);
};

struct handle {
    struct session *session;
    uint64_t number; /* the session's handle, in its sqes */
    uint64_t lease_id;
    uint64_t length, deadline_ns;
    uint32_t rights;
    bool ending, remote;
    char uri[RDMAD_URI_MAX + 1];  /* without the secret, for show */
    struct attachment attachment; /* local */
    const struct handle_ops *ops; /* remote */
    void *peer_record;            /* remote: peer/'s own */
    struct quota_charge charge;
};

/* Charged, in session->handles, not yet usable. */
int handle_new(struct session *s, struct handle **out, struct error *err);
/* Attaches to a lease of this daemon. done: usable by sqes. */
int handle_attach_local(struct handle *h, struct lease *l, plane_done *done, void *arg,
                        struct error *err);
/* Makes it usable for a peer's lease. spec has lane and key. */
void handle_attach_remote(struct handle *h, const struct plane_lease_spec *spec,
                          const struct handle_ops *ops, void *peer_record, plane_done *done,
                          void *arg);
void handle_renewed(struct handle *h, uint64_t deadline_ns);
/* The lease ended: drain, tell the client, free. done (may be NULL) when drained. */
void handle_end(struct handle *h, int reason, const char *text, plane_done *done, void *arg);
/* The session gives it back; freed when done runs (may be NULL). */
void handle_release(struct handle *h, plane_done *done, void *arg);
void handle_free(struct handle *h); /* one that never became usable */
void handles_release_session(struct session *s, plane_done *done, void *arg);

#endif
