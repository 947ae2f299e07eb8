/* SPDX-License-Identifier: MIT */
/*
 * channel.h - services, by which sessions find each other, and the channels between them. Included
 * by rdmad.h, which is the one header that a program includes; what goes through a channel is in
 * transfer.h.
 */
#ifndef RDMAD_CHANNEL_H
#define RDMAD_CHANNEL_H

#include <rdmad/rdmad.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- services and channels ----------------------------------------------------------------- */

struct rdmad_service_terms {
    size_t size;            /* sizeof(struct rdmad_service_terms), set by its INIT */
    uint32_t backlog;       /* connections that wait for accept, up to 1024; 0: 16 */
    uint32_t scope;         /* who may connect and request: enum rdmad_scope */
    uint32_t scope_uid;     /* with RDMAD_SCOPE_UID */
    uint32_t max_rights;    /* of a requested lease: RDMAD_RIGHT_*; 0: all but DELEGATE */
    const char *scope_peer; /* with RDMAD_SCOPE_PEER */
    void *budget;           /* memory of a pool for rdmad_lease_request; NULL: none */
    size_t budget_bytes;    /* a multiple of 4096 */
    size_t max_request;     /* bytes of one request; 0: all that is left */
    uint64_t max_ttl_ms;    /* of a requested lease; 0: 60,000 */
};
#define RDMAD_SERVICE_TERMS_INIT \
    { sizeof(struct rdmad_service_terms), 0, 0, 0, 0, NULL, NULL, 0, 0, 0 }

/* A service under name on this session's daemon; terms may be NULL. RDMAD_E_EXISTS.
 * On success *out is the caller's to rdmad_service_close.
 * Errors: RDMAD_E_EXISTS: the name is taken. RDMAD_E_NAME: it is not valid. RDMAD_E_PERM: the
 * policy lets this user not publish it. RDMAD_E_RANGE: the budget lies in no pool. RDMAD_E_INVAL: a
 * term is not valid. RDMAD_E_RIGHTS: max_rights has some that a request cannot have. RDMAD_E_LIMIT:
 * as many services as there may be. RDMAD_E_SHUTDOWN: the daemon is stopping. */
RDMAD_API int rdmad_listen(rdmad_session *session, const char *name,
                           const struct rdmad_service_terms *terms, rdmad_service **out);
/* "rdmad://HOST:PORT/NAME"; lives as long as the object. */
RDMAD_API const char *rdmad_service_uri(const rdmad_service *service);
/* As rdmad_lease_set_user, of a service. */
RDMAD_API void rdmad_service_set_user(rdmad_service *service, void *user);
RDMAD_API void *rdmad_service_get_user(const rdmad_service *service);
/* Who waits is refused; channels that were accepted go on; requested leases end. Other threads may
 * be in rdmad_accept or rdmad_next_incoming: those end with RDMAD_E_CLOSED, or with a channel that
 * was just being made, and this waits for them: for as long as that may take (rdmad_accept), of an
 * accept of whoever comes for no more than 5 s or the daemon's default. NULL is allowed. The object
 * is freed. */
RDMAD_API void rdmad_service_close(rdmad_service *service);
/* Gives memory of RDMAD_EVENT_HANDED_OVER back to the budget.
 * Errors: RDMAD_E_RANGE: memory is not of its budget. RDMAD_E_HANDLE: it was not handed over, or
 * was given back before. */
RDMAD_API int rdmad_service_free(rdmad_service *service, void *memory);

/* Who connects, before it is accepted. As true as the connecting daemon. */
struct rdmad_incoming {
    size_t size;
    uint64_t id;
    uint32_t uid;
    uint32_t kind;                    /* enum rdmad_channel_kind asked for */
    char node[RDMAD_NAME_MAX + 1];    /* see flags */
    char address[RDMAD_NAME_MAX + 1]; /* IP:PORT of its daemon; "" of this one */
    uint64_t flags;                   /* RDMAD_PEER_PROVEN */
};
#define RDMAD_INCOMING_INIT \
    { sizeof(struct rdmad_incoming), 0, 0, 0, "", "", 0 }
/* The node's name is no mere claim: a certificate proves it, of a CA that this node trusts, or it
 * is this node. Without it the name is whatever somebody at that address calls itself. */
#define RDMAD_PEER_PROVEN 1u
/* The first that waits. timeout_ms as in rdmad_next_event.
 * Errors: RDMAD_E_TIMEOUT: nobody came. RDMAD_E_CLOSED: the service was closed meanwhile.
 * RDMAD_E_INVAL: out is without its INIT. */
RDMAD_API int rdmad_next_incoming(rdmad_service *service, int timeout_ms,
                                  struct rdmad_incoming *out);
/* Accepts who, or with NULL the first that comes within timeout_ms (as in rdmad_next_event) and
 * with whom it comes to a channel: who has given up, or whose daemon fails, is not reached, or
 * takes too long, is passed over. Making the channel may last for what is left of timeout_ms, for a
 * second if that is more; with 0 and -1, and with NULL if more than 5 s are left, for the daemon's
 * default (lease.attach_timeout_ms). Once timeout_ms, or a second, is over nobody else is tried.
 * RDMAD_E_HANDLE: who does not wait (any more): gone, or accepted or rejected before.
 * On success *out is the caller's to rdmad_channel_close.
 * Errors: RDMAD_E_TIMEOUT: nobody came with whom it came to a channel; of who: it took too long.
 * RDMAD_E_CLOSED: the service was closed meanwhile. RDMAD_E_LIMIT: as many channels as there may
 * be. RDMAD_E_UNREACHABLE, RDMAD_E_PEER_LOST: of who, the other end's daemon. */
RDMAD_API int rdmad_accept(rdmad_service *service, const struct rdmad_incoming *who, int timeout_ms,
                           rdmad_channel **out);
/* rdmad_connect there fails with RDMAD_E_REFUSED and this text (may be NULL).
 * Errors: RDMAD_E_HANDLE: who does not wait any more. RDMAD_E_INVAL: text is too long. */
RDMAD_API int rdmad_reject(rdmad_service *service, const struct rdmad_incoming *who,
                           const char *text);

/* Connects to "rdmad://HOST:PORT/SERVICE". kind: enum rdmad_channel_kind; rdmad_channel_get_info
 * tells what it came to be. timeout_ms 0: the daemon's default.
 * On success *out is the caller's to rdmad_channel_close.
 * Errors: RDMAD_E_URI: that is no URI of a service. RDMAD_E_NO_SERVICE: there is none of that
 * name. RDMAD_E_SCOPE: it is not for this user or daemon. RDMAD_E_REFUSED: it was rejected, and
 * why. RDMAD_E_TIMEOUT: nobody accepted, or that daemon did not answer, in time. RDMAD_E_LIMIT: as
 * many channels as there may be, or the service's backlog is full. RDMAD_E_PERM: the policy.
 * RDMAD_E_UNREACHABLE, RDMAD_E_PEER_LOST: the service's daemon. RDMAD_E_BUSY: it does not read just
 * now. RDMAD_E_FABRIC: the two daemons have no fabric in common. RDMAD_E_INVAL: kind is not valid.
 */
RDMAD_API int rdmad_connect(rdmad_session *session, const char *uri, unsigned kind, int timeout_ms,
                            rdmad_channel **out);

/* As rdmad_lease_set_user, of a channel. */
RDMAD_API void rdmad_channel_set_user(rdmad_channel *channel, void *user);
RDMAD_API void *rdmad_channel_get_user(const rdmad_channel *channel);

struct rdmad_channel_info {
    size_t size;
    uint32_t kind;        /* enum rdmad_channel_kind: what it is, not what was asked for */
    uint32_t peer_uid;    /* of the other end's client */
    uint64_t max_message; /* bytes; a longer one is refused with RDMAD_E_RANGE */
    const char *peer_node, *peer_address;
    const char *fabric; /* "local", "tcp", "verbs" */
    int32_t closed;     /* 0, or RDMAD_E_* how it ended */
    uint32_t flags;     /* RDMAD_PEER_PROVEN: of peer_node */
};
#define RDMAD_CHANNEL_INFO_INIT \
    { sizeof(struct rdmad_channel_info), 0, 0, 0, NULL, NULL, NULL, 0, 0 }
/* Fills out; of a channel that the other end has closed, too. Its strings live as long as the
 * object. */
RDMAD_API void rdmad_channel_get_info(const rdmad_channel *channel, struct rdmad_channel_info *out);

struct rdmad_channel_audit {
    size_t size;
    uint64_t messages_sent, bytes_sent; /* done */
    uint64_t messages_received, bytes_received;
    uint64_t lost; /* of the other end's messages, on a channel that may lose some */
};
#define RDMAD_CHANNEL_AUDIT_INIT \
    { sizeof(struct rdmad_channel_audit), 0, 0, 0, 0, 0 }
/* Asks the daemon what went through this end; until it is closed here.
 * Errors: RDMAD_E_HANDLE: the daemon has it no more, as after a resume. One that the other end has
 * closed is no error. */
RDMAD_API int rdmad_channel_get_audit(rdmad_channel *channel, struct rdmad_channel_audit *out);

/*
 * To learn that the program at the other end is stopped or hangs though its daemon lives. (That a
 * daemon, a machine or the way to it has gone is told without asking: RDMAD_EVENT_CHANNEL_CLOSED.)
 * From now on that program is silent if it has shown no sign of life for ms milliseconds, and that
 * is known a quarter of the time, or a second, later. ms: 500 to 3,600,000, or 0 for no keep-alive,
 * as a channel begins. A program shows that it lives, on any of its session's rings, by submitting,
 * by taking completions, and by looking or waiting for them: rdmad_ring_peek, _wait, _arm and
 * _dispatch, and the calls that block on transfers and messages. So one that waits is not silent,
 * and one that computes for longer than ms, or waits for nothing but events, is. Threads that wait
 * at a ring are woken for it, some times in ms. Programs with an older librdmad or daemon are never
 * silent. What was asked for before counts no more.
 * Errors: RDMAD_E_INVAL: flags has something else than RDMAD_KEEPALIVE_ENDS. RDMAD_E_RANGE: ms is
 * neither 0 nor from 500 to 3,600,000. RDMAD_E_LIMIT: a user's channels ask 2000 times a second at
 * most, each four times in ms or once a second, whichever is more. RDMAD_E_HANDLE: the daemon
 * has it no more, as after a resume; one that the other end has closed is no error. RDMAD_E_TYPE:
 * the daemon is an older one and has no keep-alive. */
#define RDMAD_KEEPALIVE_ENDS \
    1u /* the channel ends with RDMAD_E_TIMEOUT; else RDMAD_EVENT_CHANNEL_SILENT */
RDMAD_API int rdmad_channel_keepalive(rdmad_channel *channel, uint64_t ms, unsigned flags);

/* Delivers what was submitted before (on any ring of the session), tells the other end, ends posted
 * receives (RDMAD_E_CLOSED, also those that other threads wait for in rdmad_recv, or just begin
 * to), and frees the object whatever it returns. An rdmad_send of another thread that has only
 * begun ends with RDMAD_E_HANDLE. A send that still waits behind a fence is not delivered, it ends
 * with RDMAD_E_CLOSED. The other end's receives posted for nothing end with RDMAD_E_CLOSED. While
 * the session is away this waits for the next daemon. Sends that were submitted meanwhile come
 * after the close then, and so do earlier ones that a daemon which stops has not taken, or not
 * sent, any more: they are not delivered and end with RDMAD_E_HANDLE, unless somebody has looked
 * for completions of their ring since. Who has to know takes the completions of his sends first.
 * NULL is allowed.
 * Errors: RDMAD_E_TIMEOUT: what was submitted could not be delivered in time; or the daemon did not
 * even take it in its default time, as of a session that is paused: such sends end with
 * RDMAD_E_HANDLE. RDMAD_E_PEER_LOST: the other end's daemon. */
RDMAD_API int rdmad_channel_close(rdmad_channel *channel);
/* At once: whatever is under way, here and at the other end, ends with RDMAD_E_CANCELED.
 * Frees the object. NULL is allowed. */
RDMAD_API void rdmad_channel_abort(rdmad_channel *channel);

#ifdef __cplusplus
}
#endif

#endif
