/* SPDX-License-Identifier: MIT */
/*
 * wire.h - messages on the client socket (RUNTIME_DIR/rdmad.sock, SOCK_SEQPACKET).
 *
 * One packet is one message: a header and the body of its type, of exactly the size below, in host
 * byte order (both ends share a kernel). A request has a client-chosen seq that its reply repeats;
 * events have seq 0. The first request must be HELLO. Its version is the highest that the client
 * speaks; if the daemon speaks it, too, both stay with it. Else the refusal (RDMAD_E_VERSION) comes
 * under the highest version that the daemon speaks, if that is lower, and the client may say HELLO
 * again under that; if the daemon speaks higher ones alone, under the client's own. HELLO,
 * refusals and SESSION_ENDED are the same in all versions. A reply has the request's type with
 * RDMAD_MSG_REPLY set; when status is not 0 its body is struct rdmad_msg_error instead of the
 * type's own. File descriptors travel only where a body says so. A message that is malformed
 * (length, version, reserved bits, descriptors) is answered with an error and changes nothing.
 * Strings are NUL-terminated and zero-filled to their field's end.
 */
#ifndef RDMAD_WIRE_H
#define RDMAD_WIRE_H

#include <rdmad/abi.h>

#define RDMAD_WIRE_MAGIC 0x314d4452u /* "RDM1" */
#define RDMAD_MSG_REPLY 0x8000u
#define RDMAD_MSG_EVENT 0x4000u
#define RDMAD_MSG_MAX 2048u /* bytes of the largest message, either way */
#define RDMAD_MSG_MAX_FDS 4u

enum rdmad_msg_type {
    RDMAD_MSG_HELLO = 1,
    RDMAD_MSG_RING_CREATE = 2,
    RDMAD_MSG_RING_DESTROY = 3,
    RDMAD_MSG_POOL_CREATE = 4,
    RDMAD_MSG_POOL_DESTROY = 5,
    RDMAD_MSG_LEASE_GRANT = 6,
    RDMAD_MSG_LEASE_ATTACH = 7,
    RDMAD_MSG_LEASE_RENEW = 8,
    RDMAD_MSG_LEASE_RELEASE = 9,
    RDMAD_MSG_LEASE_REVOKE = 10,
    RDMAD_MSG_LEASE_STAT = 11,
    RDMAD_MSG_POOL_IMPORT = 12, /* the one request that comes with a descriptor */
    RDMAD_MSG_SERVICE_LISTEN = 13,
    RDMAD_MSG_SERVICE_CLOSE = 14,
    RDMAD_MSG_CHANNEL_CONNECT = 15,
    RDMAD_MSG_CHANNEL_ACCEPT = 16,
    RDMAD_MSG_CHANNEL_REJECT = 17,
    RDMAD_MSG_CHANNEL_CLOSE = 18,
    RDMAD_MSG_LEASE_DELEGATE = 19,
    RDMAD_MSG_LEASE_REQUEST = 20,
    RDMAD_MSG_LEASE_HAND_OVER = 21,
    RDMAD_MSG_BUDGET_FREE = 22,
    RDMAD_MSG_NAMES_LIST = 23,
    RDMAD_MSG_NAMES_WATCH = 24,
    RDMAD_MSG_NAMES_UNWATCH = 25,
    RDMAD_MSG_LEASE_KEEP = 26,
    RDMAD_MSG_CHANNEL_STAT = 27,
    RDMAD_MSG_POOL_READY = 28,
    RDMAD_MSG_RING_READY = 29,
    RDMAD_MSG_RESUME_OFFER = 30,
    RDMAD_MSG_SESSION_RESUME = 31,
    RDMAD_MSG_POOL_RESUME = 32, /* comes with a descriptor, as POOL_IMPORT does */
    RDMAD_MSG_LEASE_RESUME = 33,
    RDMAD_MSG_ATTACH_RESUME = 34,
    RDMAD_MSG_CHANNEL_PROOF = 35,
    RDMAD_MSG_CHANNEL_RESUME = 36,
    RDMAD_MSG_CHANNEL_KEEPALIVE = 37,
    RDMAD_MSG_PART_RESUME = 38,
    RDMAD_MSG_SERVICE_RESUME = 39,
    RDMAD_MSG_BUDGET_RESUME = 40,
    RDMAD_MSG_LIFELINE = 41,
    RDMAD_MSG_COUNT
};

enum rdmad_event_type {
    RDMAD_EV_LEASE_ENDED = RDMAD_MSG_EVENT | 1,   /* struct rdmad_ev_lease_ended */
    RDMAD_EV_LEASE_RENEWED = RDMAD_MSG_EVENT | 2, /* to lessees; struct rdmad_ev_lease_renewed */
    RDMAD_EV_SESSION_ENDED =
        RDMAD_MSG_EVENT | 3, /* struct rdmad_msg_error; the socket closes next */
    RDMAD_EV_CHANNEL_INCOMING = RDMAD_MSG_EVENT | 4, /* struct rdmad_ev_channel_incoming */
    RDMAD_EV_CHANNEL_CLOSED = RDMAD_MSG_EVENT | 5,   /* struct rdmad_ev_channel_closed */
    RDMAD_EV_HANDED_OVER = RDMAD_MSG_EVENT | 6,      /* struct rdmad_ev_handed_over */
    RDMAD_EV_NAME = RDMAD_MSG_EVENT | 7,             /* struct rdmad_ev_name */
    RDMAD_EV_INCOMING_GONE = RDMAD_MSG_EVENT | 8,  /* struct rdmad_channel_reject_req: taken back */
    RDMAD_EV_SESSION_PAUSED = RDMAD_MSG_EVENT | 9, /* struct rdmad_ev_session_paused */
    RDMAD_EV_CHANNEL_SILENT = RDMAD_MSG_EVENT | 10, /* struct rdmad_ev_channel_silent */
    RDMAD_EV_LEASE_PART = RDMAD_MSG_EVENT | 11,     /* struct rdmad_part */
    RDMAD_EV_CHANNEL_WAY = RDMAD_MSG_EVENT | 12,    /* struct rdmad_ev_channel_way */
};

struct rdmad_msg_header {
    uint32_t magic;
    uint16_t version; /* as agreed on by HELLO */
    uint16_t type;
    uint32_t length; /* of the whole message, header included */
    uint32_t seq;
    int32_t status; /* replies: enum rdmad_error; requests and events: 0 */
    uint32_t reserved;
};
RDMAD_STATIC_ASSERT(sizeof(struct rdmad_msg_header) == 24, "header");

struct rdmad_msg_error {
    char text[RDMAD_TEXT_MAX + 1]; /* what object, which limit, used and asked, what to do */
};

struct rdmad_hello_req {
    char name[RDMAD_NAME_MAX + 1]; /* shown in session show; may be empty */
    uint64_t reserved;
};
struct rdmad_hello_rep {
    uint64_t session;
    uint64_t max_pool_bytes;     /* what one pool of this session may have at most */
    uint64_t default_timeout_ns; /* of an op whose timeout_ns is 0 */
    uint64_t spin_ns;            /* how long a client should spin before it sleeps, at most */
    char node[RDMAD_NAME_MAX + 1];
    char fabric[16]; /* the fabric links use: "tcp", "verbs" */
};

struct rdmad_ring_create_req {
    uint32_t sq_entries; /* rounded up to a power of two by the daemon */
    uint32_t cq_entries; /* 0: twice sq_entries */
    uint64_t reserved;
};
/* With four descriptors: client's memfd, daemon's memfd, client's end of the socketpair, eventfd.
 * Both memfds are empty. The client maps both and populates them (MADV_POPULATE_WRITE its own,
 * MADV_POPULATE_READ the daemon's), so that their pages are charged to it; it seals its own with
 * F_SEAL_FUTURE_WRITE and F_SEAL_SEAL, as the daemon's is already, and sends RING_READY. Before
 * that is answered nobody reads the ring, and its sq_tail stands where the first sqe will be. */
struct rdmad_ring_create_rep {
    uint64_t ring;
    uint32_t sq_entries;
    uint32_t cq_entries;
};
/* Refused with what is missing, after which it may be sent again. */
struct rdmad_ring_ready_req {
    uint64_t ring;
};
struct rdmad_ring_destroy_req {
    uint64_t ring;
};

struct rdmad_pool_create_req {
    uint64_t bytes; /* rounded up to pages of the kind asked for */
    uint32_t flags; /* RDMAD_POOL_* */
    uint32_t reserved;
};
/* With one descriptor: a memfd, sealed in size and empty. The client maps and populates it, seals
 * it with F_SEAL_FUTURE_WRITE and F_SEAL_SEAL, and sends POOL_READY. Before that is answered the
 * pool can be destroyed, and used for nothing. */
struct rdmad_pool_create_rep {
    uint64_t pool;
    uint64_t bytes;
};
/* Refused with what is missing, after which it may be sent again. */
struct rdmad_pool_ready_req {
    uint64_t pool;
};
struct rdmad_pool_destroy_req {
    uint64_t pool;
};

struct rdmad_lease_grant_req {
    uint64_t pool;
    uint64_t offset;
    uint64_t length;
    uint64_t ttl_ns;
    uint32_t rights;
    uint32_t scope;                      /* enum rdmad_scope */
    uint32_t scope_uid;                  /* RDMAD_SCOPE_UID only, else 0 */
    uint32_t max_attaches;               /* 0: any number; 1: a lease for one lessee */
    uint32_t flags;                      /* RDMAD_LEASE_* */
    uint32_t ends_after;                 /* releases after which it ends; 0: none do */
    char scope_peer[RDMAD_NAME_MAX + 1]; /* RDMAD_SCOPE_PEER only: an IP address, or a name */
    char name[RDMAD_NAME_MAX + 1];       /* published name, or empty */
};
struct rdmad_lease_grant_rep {
    uint64_t lease; /* the owner's number of it; never used twice in a daemon's life */
    uint64_t ttl_ns;
    char uri[RDMAD_URI_MAX + 1];
};

struct rdmad_lease_attach_req {
    uint64_t timeout_ns; /* 0: the daemon's default */
    uint64_t reserved;
    char uri[RDMAD_URI_MAX + 1];
};
struct rdmad_lease_attach_rep {
    uint64_t handle; /* what sqes name */
    uint64_t lease;  /* the owner's number */
    uint64_t length;
    uint64_t ttl_ns; /* left, counted from when the request was sent */
    uint32_t rights;
    uint32_t route;  /* enum rdmad_route */
    char fabric[16]; /* "local", "tcp", "verbs" */
};
enum rdmad_route { RDMAD_ROUTE_LOCAL = 0, RDMAD_ROUTE_LINK = 1 };

/* Owner: the lease ends ttl_ns from now instead. */
struct rdmad_lease_renew_req {
    uint64_t lease;
    uint64_t ttl_ns;
};
/* Lessee: gives its attachment back; a sole lessee's release ends a max_attaches == 1 lease. */
struct rdmad_lease_release_req {
    uint64_t handle;
};
/* Owner: replied to when nobody can touch the memory any more. */
struct rdmad_lease_revoke_req {
    uint64_t lease;
};
struct rdmad_lease_stat_req {
    uint64_t lease;
};
struct rdmad_lease_stat_rep {
    uint64_t lease;
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t ops;
    uint64_t idle_ns;        /* since its last use; UINT64_MAX when never used */
    uint64_t ttl_ns;         /* left; 0 when ended */
    uint32_t attached;       /* now */
    uint32_t attached_total; /* ever */
    int32_t ended;           /* 0, or RDMAD_E_LEASE_* why it ended */
    uint32_t reserved;
    uint64_t said_bytes_read, said_bytes_written, said_ops; /* by the lessees' daemons */
};

/* With one descriptor: a memfd of small pages, sealed against shrinking and growing, and by nothing
 * else. What follows is as after POOL_CREATE. */
struct rdmad_pool_import_req {
    uint64_t bytes; /* must be the memfd's size */
    uint64_t reserved;
};
/* The reply is struct rdmad_pool_create_rep, without a descriptor. */

/* ---- services and channels --- */

struct rdmad_service_listen_req {
    uint32_t backlog; /* connections that wait to be accepted, at most; 0: 16 */
    uint32_t scope;   /* who may connect and request: enum rdmad_scope */
    uint32_t scope_uid;
    uint32_t max_rights; /* of a requested lease; 0: all but DELEGATE */
    /* From which LEASE_REQUEST is served: a range of a pool; length 0: requests are refused. */
    uint64_t budget_pool, budget_offset, budget_length;
    uint64_t max_request; /* bytes of one request; 0: all of the budget */
    uint64_t max_ttl_ns;  /* of a requested lease; 0: 60 s */
    char scope_peer[RDMAD_NAME_MAX + 1];
    char name[RDMAD_NAME_MAX + 1];
};
struct rdmad_service_listen_rep {
    uint64_t service;
    char uri[RDMAD_URI_MAX + 1]; /* rdmad://HOST:PORT/NAME */
};
struct rdmad_service_close_req {
    uint64_t service;
};
struct rdmad_channel_connect_req {
    uint64_t timeout_ns; /* 0: the daemon's default */
    uint32_t kind;       /* enum rdmad_channel_kind */
    uint32_t reserved;
    char uri[RDMAD_URI_MAX + 1]; /* of the service */
};
#define RDMAD_CHANNEL_PEER_PROVEN 1u /* the node's name: by its certificate, or it is this node */
struct rdmad_channel_rep {           /* of CONNECT and ACCEPT */
    uint64_t channel;
    uint64_t max_message;
    uint32_t kind; /* what it came to be */
    uint32_t route;
    uint32_t peer_uid; /* as the other end's daemon says */
    uint32_t flags;    /* RDMAD_CHANNEL_PEER_PROVEN */
    char fabric[16];
    char peer_node[RDMAD_NAME_MAX + 1];
    char peer_address[RDMAD_NAME_MAX + 1]; /* IP:PORT of its daemon; "" on this one */
};
struct rdmad_channel_accept_req {
    uint64_t service;
    uint64_t incoming;
    uint64_t timeout_ns;
};
struct rdmad_channel_reject_req {
    uint64_t service;
    uint64_t incoming;
    char text[RDMAD_TEXT_MAX + 1]; /* for the one who connects */
};
/* Replied to when no op of the channel is under way. */
struct rdmad_channel_close_req {
    uint64_t channel;
    uint32_t abrupt; /* 0: what was submitted is delivered first; 1: it is canceled */
    uint32_t reserved;
};
struct rdmad_channel_stat_req {
    uint64_t channel;
};
struct rdmad_channel_stat_rep {
    uint64_t channel;
    uint64_t messages_sent, bytes_sent, messages_received, bytes_received;
    uint64_t lost; /* of the other end's */
};
struct rdmad_ev_channel_incoming {
    uint64_t service;
    uint64_t incoming;
    uint32_t kind;
    uint32_t uid;
    char node[RDMAD_NAME_MAX + 1];
    char address[RDMAD_NAME_MAX - 3]; /* "" from this daemon */
    uint32_t flags; /* RDMAD_CHANNEL_PEER_PROVEN; for an older library the end of address */
};
RDMAD_STATIC_ASSERT(sizeof(struct rdmad_ev_channel_incoming) == 152, "an older library knows it");
struct rdmad_ev_channel_closed {
    uint64_t channel;
    int32_t reason; /* RDMAD_E_CLOSED: gracefully; RDMAD_E_PEER_LOST, RDMAD_E_CANCELED (abrupt) */
    uint32_t reserved;
    char text[RDMAD_TEXT_MAX + 1];
};
/* From now on the program at the other end is asked for signs of life (ring.h); instead of what was
 * asked for before. */
#define RDMAD_CHANNEL_KEEPALIVE_MIN_NS UINT64_C(500000000)
#define RDMAD_CHANNEL_KEEPALIVE_MAX_NS UINT64_C(3600000000000)
struct rdmad_channel_keepalive_req {
    uint64_t channel;
    uint64_t silent_ns; /* 0: no more */
    uint32_t ends;      /* 1: the channel ends with RDMAD_E_TIMEOUT; 0: CHANNEL_SILENT is sent */
    uint32_t reserved;
};
/* The program at the other end has been silent for so long, or (silent 0) is so no more. */
struct rdmad_ev_channel_silent {
    uint64_t channel;
    uint64_t silent_ns;
    uint32_t silent;
    uint32_t reserved;
};

/* ---- leases of leases, and by request --- */

struct rdmad_lease_delegate_req {
    uint64_t handle; /* of a lease with RDMAD_RIGHT_DELEGATE */
    uint64_t offset; /* into it */
    uint64_t length;
    uint64_t ttl_ns; /* at most what is left of it */
    uint64_t timeout_ns;
    uint32_t rights; /* at most its own */
    uint32_t max_attaches;
};
/* The reply is struct rdmad_lease_grant_rep. The new lease ends with the one it is of. */

struct rdmad_lease_request_req {
    uint64_t bytes;
    uint64_t ttl_ns;
    uint64_t timeout_ns;
    uint32_t rights;
    uint32_t reserved;
    char uri[RDMAD_URI_MAX + 1]; /* of the service */
};
/* The reply is struct rdmad_lease_attach_rep. */

struct rdmad_lease_hand_over_req {
    uint64_t handle; /* of a requested lease */
};
/* Replied to when nothing of the lessee can reach the memory and the owner was told. */
struct rdmad_budget_free_req {
    uint64_t service;
    uint64_t offset; /* into the pool: where a buffer that was handed over begins */
};
struct rdmad_ev_handed_over {
    uint64_t service;
    uint64_t lease;
    uint64_t pool, offset, length;
    uint32_t uid;
    uint32_t reserved;
    char node[RDMAD_NAME_MAX + 1]; /* of the requester */
};
struct rdmad_lease_keep_req {
    uint64_t handle; /* of a lease granted with RDMAD_LEASE_RENEWABLE */
    uint32_t on;
    uint32_t reserved;
};

/* The reply has no body, and a descriptor: the reading end of a pipe in which nothing is ever
 * written. It hangs up (POLLHUP) when this daemon is gone, and after all by which it moved bytes:
 * devices do not touch the memory of its clients any more. */
struct rdmad_lifeline_req {
    uint64_t reserved;
};

/* ---- a session that outlives its daemon --- */

#define RDMAD_RESUME_SECRET_BYTES 32u

/* Which session it was first, and the proof of that. It is good at any later life of the daemon. */
struct rdmad_resume_proof {
    uint64_t life, session; /* when and as which RESUME_OFFER was answered */
    uint8_t secret[RDMAD_RESUME_SECRET_BYTES];
};

/* From now on the session can be resumed after the daemon has ended. Its pools of small pages are
 * sealed with F_SEAL_SEAL alone instead of F_SEAL_FUTURE_WRITE and F_SEAL_SEAL, so that a later
 * daemon can map them; whoever takes a page away loses the session. To be sent before any object is
 * made. Refused where the kernel cannot catch a missing page (userfaultfd). */
struct rdmad_resume_offer_req {
    uint64_t reserved;
};
struct rdmad_resume_offer_rep {
    struct rdmad_resume_proof proof;
};
/* Instead of RESUME_OFFER: this is the session of that proof again. RDMAD_E_BUSY: the one before is
 * still being ended; to be asked again later. */
struct rdmad_session_resume_req {
    struct rdmad_resume_proof proof;
};
/* A pool with its number and contents. The memfd is sealed as the pool was. What follows is as
 * after POOL_IMPORT. */
struct rdmad_pool_resume_req {
    uint64_t pool; /* the number it had and gets */
    uint64_t bytes;
};
/* A lease that the session granted, with its number and secret: it has the same URI again. The
 * reply is struct rdmad_lease_grant_rep. */
struct rdmad_lease_resume_req {
    uint64_t lease;
    uint64_t left_ns; /* until its deadline; at most grant.ttl_ns */
    uint8_t key[RDMAD_KEY_BYTES];
    struct rdmad_lease_grant_req grant; /* as it was granted */
};
/* As LEASE_ATTACH, with the number that the handle had and gets. The reply is struct
 * rdmad_lease_attach_rep. RDMAD_E_BUSY: the lease's owner, or its daemon, is not there, and may be
 * about to come back; ask again. A daemon says so for peer.return_ms after its start at most.
 * Whatever it says, no other handle gets that number's place. With RDMAD_ATTACH_RESERVE_NS for
 * timeout_ns that is all that is done, and the answer is RDMAD_E_TIMEOUT; an older daemon tries,
 * and waits for nobody. */
#define RDMAD_ATTACH_RESERVE_NS 1u
struct rdmad_attach_resume_req {
    uint64_t handle;
    struct rdmad_lease_attach_req attach;
};

/* A lease that others made of one that the session granted (LEASE_DELEGATE), or of another such:
 * what a later life of the daemon has to be shown so that it is there again. An event tells it to
 * sessions that can be resumed, when it is made and when its terms change. parent 0: it has ended.
 * lease 0: all that was told before is void; what there is follows. */
struct rdmad_part {
    uint64_t lease, parent;        /* numbers: its own, and that of the lease of which it is one */
    uint64_t pool, offset, length; /* offset: into the pool */
    uint64_t deadline_ns;          /* the daemon's to read, like the proof */
    uint32_t rights, max_attaches;
    uint8_t proof[RDMAD_RESUME_SECRET_BYTES]; /* of all that is above */
};
/* It has its number and its URI again. Nothing of its terms can be another; it ends with the lease
 * of which it is one, and by the time that it had. */
struct rdmad_part_resume_req {
    struct rdmad_part part; /* as it was told */
    uint64_t parent; /* the number that this has now: another one, if it is published by name */
};

/* A service as it was, with its budget. That gives nothing before it was said what of it is the
 * program's own: with more set, BUDGET_RESUME goes on with that. What was requested of it has ended
 * with the daemon. The reply is struct rdmad_service_listen_rep. */
#define RDMAD_KEPT_PER_REQUEST 64u
struct rdmad_kept_range {
    uint64_t offset, length;
};
struct rdmad_kept { /* ranges of the budget's pool that were handed over and not given back */
    uint32_t count;
    uint32_t more; /* 1: there are others */
    struct rdmad_kept_range range[RDMAD_KEPT_PER_REQUEST];
};
struct rdmad_service_resume_req {
    struct rdmad_service_listen_req listen;
    struct rdmad_kept kept;
};
struct rdmad_budget_resume_req {
    uint64_t service;
    struct rdmad_kept kept;
};

#define RDMAD_CHANNEL_KEY_BYTES 16u
/* What the two programs of a channel know of it and nobody else: either shows it to bring its end
 * to a later life of the daemon. RDMAD_E_UNSUPPORTED: it cannot be brought back (its kind has no
 * acknowledgements, or the session ends with its daemon). */
struct rdmad_channel_proof_req {
    uint64_t channel;
};
struct rdmad_channel_proof_rep {
    uint8_t key[RDMAD_CHANNEL_KEY_BYTES];
};
/* A channel waits for its other end (away 1), or has it again (0). */
struct rdmad_ev_channel_way {
    uint64_t channel;
    uint32_t away;
    uint32_t reserved;
};
/* An end with its number. It is there at once, and what is submitted to it waits for the other end;
 * if that does not come, it closes with RDMAD_E_PEER_LOST. The time for that is one, over all lives
 * in which it waits. The reply is struct rdmad_channel_rep.
 */
struct rdmad_channel_resume_req {
    uint64_t channel; /* the number it had and gets */
    uint8_t key[RDMAD_CHANNEL_KEY_BYTES];
    uint32_t accepted;  /* 0: it was connected from here, and is again; 1: it is waited for */
    uint32_t peer_uid;  /* as the end was told, and as the other end has to be again */
    uint32_t flags;     /* RDMAD_CHANNEL_PEER_PROVEN, likewise */
    uint32_t waited_ms; /* at earlier lives, for the other end, since it was there last */
    char peer_node[RDMAD_NAME_MAX + 1];
    char uri[RDMAD_URI_MAX + 1]; /* connected: of the service, as in CONNECT. Accepted: the
                                    service's name alone */
};

/* ---- names --- */

enum rdmad_name_kind { RDMAD_NAME_LEASE = 0, RDMAD_NAME_SERVICE = 1 };
struct rdmad_name_entry {
    char name[RDMAD_NAME_MAX + 1];
    uint32_t kind;
    uint32_t rights; /* of leases */
    uint64_t length;
    uint64_t ttl_ns;
};
#define RDMAD_NAMES_PER_REPLY 16u
struct rdmad_names_list_req {
    uint64_t timeout_ns;
    char where[RDMAD_URI_MAX + 1];   /* rdmad://HOST:PORT/ of a daemon; "": this one */
    char prefix[RDMAD_NAME_MAX + 1]; /* may be empty */
    char after[RDMAD_NAME_MAX + 1];  /* in order of bytes; "": from the first */
};
struct rdmad_names_list_rep {
    uint32_t count;
    uint32_t more; /* 1: ask again, after the last of these */
    struct rdmad_name_entry entry[RDMAD_NAMES_PER_REPLY];
};
struct rdmad_names_watch_req { /* the names that are there come as events first */
    uint64_t timeout_ns;
    char where[RDMAD_URI_MAX + 1];
    char prefix[RDMAD_NAME_MAX + 1];
};
struct rdmad_names_watch_rep {
    uint64_t watch;
};
struct rdmad_names_unwatch_req {
    uint64_t watch;
};
struct rdmad_ev_name {
    uint64_t watch;
    int32_t reason; /* gone: RDMAD_E_PEER_LOST when the watch has ended with its daemon, else 0 */
    uint32_t gone;  /* 0: it is there; 1: gone; 2: all anew, without an entry */
    struct rdmad_name_entry entry;
};

struct rdmad_ev_session_paused {
    uint32_t paused; /* 1: its rings are not read; 0: they are read again */
    uint32_t uid;    /* whose doing it was */
    uint64_t reserved;
    char text[RDMAD_TEXT_MAX + 1];
};
struct rdmad_ev_lease_ended {
    uint64_t lease;  /* the owner's number */
    uint64_t handle; /* to a lessee: its handle, which still tells why until released; owner: 0 */
    int32_t reason;  /* RDMAD_E_LEASE_* or RDMAD_E_PEER_LOST */
    uint32_t reserved;
    char text[RDMAD_TEXT_MAX + 1];
};
struct rdmad_ev_lease_renewed {
    uint64_t lease;
    uint64_t handle;
    uint64_t ttl_ns;
};

#endif
