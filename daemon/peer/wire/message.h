/* SPDX-License-Identifier: MIT */
/*
 * message.h - messages between two daemons on a control connection.
 *
 * A stream of frames: an 8-byte head {length of the whole frame, type, version, 0} and the body of
 * the type, of exactly one size; all numbers little-endian, all texts NUL-terminated and zero-
 * filled. The head, HELLO and BYE never change. HELLO says which versions its sender speaks; from
 * the acceptor's HELLO on all frames but BYE bear the one that was agreed on, the highest of both.
 *
 * Who dials is the lessee's daemon, who accepts the owner's; each message has its direction. Both
 * sides number an attach in their own table, and a message carries the number of the side that
 * receives it: it is looked up there with its generation, so a late message about something that is
 * gone finds nothing, and a made-up one finds at most what is the same peer's.
 *
 *   dialler                          acceptor
 *   HELLO ->                         <- HELLO, or BYE with the reason
 *   LINK_REQ with a hello ->         <- LINK_REP with what the fabric needs to connect
 *   ATTACH_REQ ->                    <- ATTACH_REP with a key, when the link was there
 *   KEY_REQ ->                       <- KEY_REP with the key for another link; one for each KEY_REQ
 *   LINK_GONE ->                     (its links' other ends can go)
 *                                    <- REVOKED: stop using the lease
 *   USED ->                          (what was moved by an attach so far; also now and then)
 *   STOPPED ->                       (nothing is in flight any more)
 *   RELEASE ->
 *                                    <- RENEWED
 *   TTL_REQ ->                       <- TTL_REP
 *   DELEGATE_REQ, REQUEST_REQ, KEEP_REQ ->   <- DELEGATE_REP, ATTACH_REP, KEEP_REP
 *   NAMES_REQ ->                     <- NAMES_REP, one a name
 *   WATCH_REQ, WATCH_MORE, UNWATCH -> <- NAME_EV
 *   CHAN_REQ, CHAN_AGAIN, CHAN_OPEN, CHAN_BIND ->  <- CHAN_REFUSE;  CHAN_END, CHAN_ALIVE: both. See
 * below. CERTIFICATE: both, when the sender has its next one PING, PONG, BYE: both
 *
 * Durations cross the wire, never times. A lessee counts a duration from when it asked, so it never
 * believes in more time than the owner; RENEWED therefore only makes it ask.
 *
 * A key may be good for one link only, which is therefore named by its number at the owner (via).
 * Links break and are made anew as long as the control connection lives, so a lessee may ask for
 * keys any number of times; an answer says for which link it is.
 */
#ifndef RDMAD_PEER_WIRE_MESSAGE_H
#define RDMAD_PEER_WIRE_MESSAGE_H

#include "common/versions.h"
#include "daemon/base/life.h"
#include "daemon/fabric/fabric.h"
#include <rdmad/wire.h>

#define PEER_WIRE_MAGIC 0x31504452u /* "RDP1" */
#define PEER_WIRE_VERSION 8u        /* the highest that we speak */
#define PEER_WIRE_OLDEST 7u
#define PEER_WIRE_KEEPALIVE 8u                    /* the first with CHAN_ALIVE */
extern const struct rdmad_versions peer_versions; /* these; versions.c */
#define PEER_WIRE_HEAD 8u
#define PEER_WIRE_MAX 640u /* bytes of the largest frame */
#define PEER_NODE_ID_BYTES 16u
#define PEER_LINE_BYTES 16u
#define PEER_FABRICS_MAX 2u
#define PEER_WHY_BYTES 128u
#define PEER_PIECE_BYTES 512u
#define PEER_CERTIFICATES_MAX 16384u

enum peer_msg_type {
    PEER_MSG_HELLO = 1,
    PEER_MSG_BYE,
    PEER_MSG_PING,
    PEER_MSG_PONG,
    PEER_MSG_ATTACH_REQ,
    PEER_MSG_ATTACH_REP,
    PEER_MSG_RELEASE,
    PEER_MSG_REVOKED,
    PEER_MSG_STOPPED,
    PEER_MSG_RENEWED,
    PEER_MSG_TTL_REQ,
    PEER_MSG_TTL_REP,
    PEER_MSG_LINK_REQ,
    PEER_MSG_LINK_REP,
    PEER_MSG_KEY_REQ,
    PEER_MSG_KEY_REP,
    PEER_MSG_LINK_GONE,
    PEER_MSG_CHAN_REQ,
    PEER_MSG_CHAN_REFUSE,
    PEER_MSG_CHAN_BIND,
    PEER_MSG_CHAN_OPEN,
    PEER_MSG_CHAN_END,
    PEER_MSG_DELEGATE_REQ,
    PEER_MSG_DELEGATE_REP,
    PEER_MSG_REQUEST_REQ,
    PEER_MSG_NAMES_REQ,
    PEER_MSG_NAMES_REP,
    PEER_MSG_WATCH_REQ,
    PEER_MSG_UNWATCH,
    PEER_MSG_NAME_EV,
    PEER_MSG_WATCH_MORE,
    PEER_MSG_USED,
    PEER_MSG_KEEP_REQ,
    PEER_MSG_KEEP_REP,
    PEER_MSG_CERTIFICATE,
    PEER_MSG_CHAN_AGAIN,
    PEER_MSG_CHAN_ALIVE,
    PEER_MSG_COUNT
};

/* The lives of a node, and the connections of a life, are numbered: what is left of an earlier one
 * at the acceptor is expelled before it answers a later one (former.c). */
struct peer_hello {
    uint32_t magic;
    uint8_t node_id[PEER_NODE_ID_BYTES]; /* random, of this life */
    struct life life;                    /* number 0: it tells none, and replaces nothing */
    uint64_t serial; /* of the dialler's connections in this life; less than 2^48 */
    /* The highest version that its sender speaks. The lowest is that of the frame's head. The
     * acceptor sends the one that it has chosen as both. 0, of whoever has no such field: the same
     * as in the head. */
    uint16_t newest;
    /* A number of the dialler's for the address that it dialled, in this life. Of connections with
     * the same line it keeps only the latest. Only the dialler and whoever answers there know it.
     * The acceptor sends zero. */
    uint8_t line[PEER_LINE_BYTES];
    char node[RDMAD_NAME_MAX + 1];
    char fabrics[PEER_FABRICS_MAX][16]; /* that it offers, the best first, then "" */
    char why_no_more[PEER_WHY_BYTES];
    uint16_t listen_port;
};
struct peer_bye {
    int32_t code; /* RDMAD_OK: nothing is wrong */
    char text[RDMAD_TEXT_MAX + 1];
};
struct peer_ping {
    uint64_t seq;
};
/* The sender's certificate in DER, and behind it those of its chain, in pieces of PEER_PIECE_BYTES,
 * one after the other. */
struct peer_certificate {
    uint32_t total, at; /* bytes of all, and before this piece */
    uint16_t size;      /* of this piece */
    uint8_t data[PEER_PIECE_BYTES];
};
struct peer_attach_req {
    uint64_t lessee_ref;
    uint64_t lease; /* 0: by name */
    uint8_t key[RDMAD_KEY_BYTES];
    char name[RDMAD_NAME_MAX + 1];
    uint32_t uid; /* of the lessee, for the owner's log; proves nothing */
    uint64_t via; /* the link for which a key is wanted; 0: none is up yet */
};
struct peer_attach_rep {
    uint64_t lessee_ref;
    uint64_t owner_ref;
    int32_t status;  /* when not RDMAD_OK, text says why and the rest is 0 */
    uint32_t rights; /* fewer than granted where the fabric has fewer; text then says which */
    uint64_t lease;
    uint64_t length;
    uint64_t ttl_ns;
    struct fabric_blob key; /* empty: none was asked for */
    char text[RDMAD_TEXT_MAX + 1];
};
struct peer_key_req {
    uint64_t owner_ref;
    uint64_t via;
};
struct peer_key_rep {
    uint64_t lessee_ref;
    uint64_t via;
    int32_t status;
    struct fabric_blob key;
    char text[RDMAD_TEXT_MAX + 1];
};
enum peer_returned {
    PEER_NOT_RETURNED = 0, /* the lessee never had it, or has lost it */
    PEER_RETURNED = 1,     /* gave it back */
    PEER_HANDED_OVER = 2   /* hands the memory over to the owner (of a lease it had requested) */
};
struct peer_release {
    uint64_t owner_ref;
    uint32_t returned; /* enum peer_returned */
};
struct peer_revoked {
    uint64_t lessee_ref;
    int32_t reason; /* RDMAD_E_LEASE_* */
    char text[RDMAD_TEXT_MAX + 1];
};
struct peer_stopped {
    uint64_t owner_ref;
};
struct peer_ttl { /* RENEWED, TTL_REQ (ttl_ns 0), TTL_REP */
    uint64_t ref;
    uint64_t ttl_ns;
};
#define PEER_ANY_WORKER UINT32_MAX
#define PEER_WORKERS 64u /* a daemon has at most so many: the setting workers */
struct peer_link_req {
    uint64_t ref;
    uint32_t worker;          /* where the link is to end, for channels; PEER_ANY_WORKER */
    struct fabric_blob hello; /* may be empty: the fabric has nothing to say */
};
struct peer_link_gone {
    uint64_t via;
};
struct peer_link_rep {
    uint64_t ref;
    int32_t status;
    struct fabric_blob offer;
    char text[RDMAD_TEXT_MAX + 1];
};

/*
 * Channels. Who connects (A) asks over its connection to the service's daemon (B); B, once the
 * client accepted, dials A back (or uses its connection to A that is there) and binds the channel
 * with the token, which shows that both connections are of the same two daemons; A then says that
 * its end can receive. Each makes a lane to the other for its own messages.
 *
 *   A -> B  CHAN_REQ      on A's connection
 *   B -> A  CHAN_REFUSE   on the same, if it comes to nothing (also when A's address cannot be
 *                         dialled)
 *   B -> A  CHAN_BIND     on B's connection to A
 *   A -> B  CHAN_OPEN     on A's connection: from now on B may send
 *   either  CHAN_END      on either connection, both ways: the end is gone
 *   either  CHAN_ALIVE    likewise: for how long has your program been silent? and the answer
 *
 * A channel that was open, and whose way is gone, gets another in the same way, but for the first
 * step: CHAN_AGAIN, whose token is the channel's key. REFUSE and END then are about this way; the
 * channel itself is gone if the status is CLOSED or CANCELED.
 */
struct peer_chan_req {
    uint64_t ref;                      /* A's number of its end */
    uint8_t token[PEER_NODE_ID_BYTES]; /* and the channel's key, once it is open */
    uint32_t kind;                     /* what A's daemon can make of it */
    uint32_t asked;                    /* by the client */
    uint32_t uid; /* of the client, for the acceptor to see; as true as its daemon */
    uint32_t worker;
    uint16_t port;                 /* where A's daemon listens */
    char host[RDMAD_NAME_MAX + 1]; /* the address to dial; "": the one this connection comes from */
    char service[RDMAD_NAME_MAX + 1];
};
struct peer_chan_refuse {
    uint64_t ref; /* A's */
    int32_t status;
    char text[RDMAD_TEXT_MAX + 1];
};
struct peer_chan_bind {
    uint64_t ref; /* A's */
    uint8_t token[PEER_NODE_ID_BYTES];
    uint64_t number; /* B's number of its end */
    uint32_t kind;   /* what it came to be */
    uint32_t uid;    /* of the client that accepted */
    uint32_t worker;
};
struct peer_chan_open {
    uint64_t ref; /* B's */
};
struct peer_chan_end {
    uint64_t ref;  /* the receiver's number of its end */
    uint32_t mine; /* 1: ref is the sender's number: it gives up before it was told another */
    int32_t reason;
    char text[RDMAD_TEXT_MAX + 1];
};

struct peer_chan_alive {
    uint64_t ref;       /* the receiver's number of its end */
    uint32_t answer;    /* 0: it is a question */
    uint64_t silent_ns; /* of an answer: the program at the sender's end, as far as is known */
};

struct peer_delegate_req {
    uint64_t ref; /* the asker's, for the answer */
    uint64_t owner_ref;
    uint64_t offset, length, ttl_ns;
    uint32_t rights, max_attaches;
};
struct peer_delegate_rep {
    uint64_t ref;
    int32_t status;
    uint64_t lease, ttl_ns;
    uint8_t key[RDMAD_KEY_BYTES];
    char text[RDMAD_TEXT_MAX + 1];
};
/* Memory of a service's budget; the answer is ATTACH_REP, and from then on it is an attach. */
struct peer_request_req {
    uint64_t lessee_ref;
    uint64_t bytes, ttl_ns;
    uint32_t rights;
    uint32_t uid;
    uint64_t via;
    char service[RDMAD_NAME_MAX + 1];
};

struct peer_names_req {
    uint64_t ref;
    char prefix[RDMAD_NAME_MAX + 1];
    char after[RDMAD_NAME_MAX + 1];
};
/* One a name, at most RDMAD_NAMES_PER_REPLY, and a last one without. */
struct peer_names_rep {
    uint64_t ref;
    uint32_t last; /* 0: entry is one; 1: that was all there is; 2: there are more */
    struct rdmad_name_entry entry;
};
struct peer_watch_req {
    uint64_t ref;
    char prefix[RDMAD_NAME_MAX + 1];
};
struct peer_unwatch {
    uint64_t ref;
};
struct peer_used { /* lessee -> owner: all of this attach so far */
    uint64_t owner_ref, bytes_read, bytes_written, ops;
};

struct peer_watch_more { /* so many more NAME_EVs may come; at first WATCH_WINDOW */
    uint64_t ref;
    uint32_t count;
};

/* One a name: a WATCH_REQ is answered with those that are there, then with one that has no name.
 * gone is an enum name_news; without a name 1 is the end of the watch (there are too many), and 2
 * says that all begins anew. */
struct peer_name_ev {
    uint64_t ref;
    uint32_t gone;
    struct rdmad_name_entry entry;
};

/* Asks that the lease's time begin anew, as if its owner renewed it. */
struct peer_keep_req {
    uint64_t owner_ref;
};
struct peer_keep_rep {
    uint64_t lessee_ref;
    int32_t status; /* RDMAD_OK: ask for the ttl */
    char text[RDMAD_TEXT_MAX + 1];
};

struct peer_msg {
    uint16_t type;
    union {
        struct peer_hello hello;
        struct peer_bye bye;
        struct peer_ping ping; /* and PONG */
        struct peer_certificate certificate;
        struct peer_attach_req attach_req;
        struct peer_attach_rep attach_rep;
        struct peer_release release;
        struct peer_revoked revoked;
        struct peer_stopped stopped;
        struct peer_ttl ttl;
        struct peer_link_req link_req;
        struct peer_link_rep link_rep;
        struct peer_link_gone link_gone;
        struct peer_key_req key_req;
        struct peer_key_rep key_rep;
        struct peer_chan_req chan_req;
        struct peer_chan_refuse chan_refuse;
        struct peer_chan_bind chan_bind;
        struct peer_chan_open chan_open;
        struct peer_chan_end chan_end;
        struct peer_chan_alive chan_alive;
        struct peer_delegate_req delegate_req;
        struct peer_delegate_rep delegate_rep;
        struct peer_request_req request_req;
        struct peer_names_req names_req;
        struct peer_names_rep names_rep;
        struct peer_watch_req watch_req;
        struct peer_unwatch unwatch;
        struct peer_watch_more watch_more;
        struct peer_used used;
        struct peer_name_ev name_ev;
        struct peer_keep_req keep_req;
        struct peer_keep_rep keep_rep;
    };
};

#endif
