/* SPDX-License-Identifier: MIT */
/*
 * wire.h - messages on the client socket (RUNTIME_DIR/rdmad.sock, SOCK_SEQPACKET).
 *
 * One packet is one message: a header and the body of its type, of exactly the size below, in host
 * byte order (both ends share a kernel). A request has a client-chosen seq that its reply repeats;
 * events have seq 0. The first request must be HELLO. A reply has the request's type with
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
    RDMAD_MSG_COUNT
};

enum rdmad_event_type {
    RDMAD_EV_LEASE_ENDED = RDMAD_MSG_EVENT | 1,   /* struct rdmad_ev_lease_ended */
    RDMAD_EV_LEASE_RENEWED = RDMAD_MSG_EVENT | 2, /* to lessees; struct rdmad_ev_lease_renewed */
    RDMAD_EV_SESSION_ENDED =
        RDMAD_MSG_EVENT | 3, /* struct rdmad_msg_error; the socket closes next */
};

struct rdmad_msg_header {
    uint32_t magic;
    uint16_t version; /* RDMAD_ABI_VERSION */
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
/* With three descriptors: client's memfd, daemon's memfd, client's end of the socketpair. */
struct rdmad_ring_create_rep {
    uint64_t ring;
    uint32_t sq_entries;
    uint32_t cq_entries;
};
struct rdmad_ring_destroy_req {
    uint64_t ring;
};

struct rdmad_pool_create_req {
    uint64_t bytes; /* rounded up to pages of the kind asked for */
    uint32_t flags; /* RDMAD_POOL_* */
    uint32_t reserved;
};
/* With one descriptor: the sealed memfd. */
struct rdmad_pool_create_rep {
    uint64_t pool;
    uint64_t bytes;
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
    char scope_peer[RDMAD_NAME_MAX + 1]; /* RDMAD_SCOPE_PEER only: an IP address */
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
