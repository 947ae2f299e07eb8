/* SPDX-License-Identifier: MIT */
/*
 * wire.h - messages between two daemons on a control connection.
 *
 * A stream of frames: an 8-byte head {length of the whole frame, type, version, 0} and the body of
 * the type, of exactly one size; all numbers little-endian, all texts NUL-terminated and zero-
 * filled. The head and BYE never change, so that daemons of different versions can at least tell
 * each other so.
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
 *   STOPPED ->                       (nothing is in flight any more)
 *   RELEASE ->
 *                                    <- RENEWED
 *   TTL_REQ ->                       <- TTL_REP
 *   PING, PONG, BYE: both
 *
 * Durations cross the wire, never times. A lessee counts a duration from when it asked, so it never
 * believes in more time than the owner; RENEWED therefore only makes it ask.
 *
 * A key may be good for one link only, which is therefore named by its number at the owner (via).
 * Links break and are made anew as long as the control connection lives, so a lessee may ask for
 * keys any number of times; an answer says for which link it is.
 */
#ifndef RDMAD_PEER_WIRE_H
#define RDMAD_PEER_WIRE_H

#include "daemon/fabric/fabric.h"
#include <rdmad/abi.h>

#define PEER_WIRE_MAGIC 0x31504452u /* "RDP1" */
#define PEER_WIRE_VERSION 2u
#define PEER_WIRE_HEAD 8u
#define PEER_WIRE_MAX 512u /* bytes of the largest frame */
#define PEER_NODE_ID_BYTES 16u

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
    PEER_MSG_COUNT
};

struct peer_hello {
    uint32_t magic;
    uint8_t node_id[PEER_NODE_ID_BYTES];
    char node[RDMAD_NAME_MAX + 1];
    char fabric[16];
    uint16_t listen_port;
};
struct peer_bye {
    int32_t code; /* RDMAD_OK: nothing is wrong */
    char text[RDMAD_TEXT_MAX + 1];
};
struct peer_ping {
    uint64_t seq;
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
    int32_t status; /* when not RDMAD_OK, text says why and the rest is 0 */
    uint32_t rights;
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
struct peer_release {
    uint64_t owner_ref;
    uint32_t returned; /* 1: the lessee gave it back; 0: it never had it, or has lost it */
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
struct peer_link_req {
    uint64_t ref;
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

struct peer_msg {
    uint16_t type;
    union {
        struct peer_hello hello;
        struct peer_bye bye;
        struct peer_ping ping; /* and PONG */
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
    };
};

/* Writes m as a frame; returns its length. */
size_t peer_wire_encode(const struct peer_msg *m, uint8_t frame[PEER_WIRE_MAX]);

/* How long the frame is that begins with head. Returns RDMAD_OK, RDMAD_E_VERSION or
 * RDMAD_E_PROTOCOL and a sentence. */
int peer_wire_length(const uint8_t head[PEER_WIRE_HEAD], bool from_dialler, size_t *length,
                     struct error *err);

/* Reads one whole frame of that length. RDMAD_OK, or RDMAD_E_PROTOCOL and a sentence. */
int peer_wire_decode(const uint8_t *frame, size_t length, struct peer_msg *out, struct error *err);

const char *peer_wire_name(uint16_t type);

#endif
