/* SPDX-License-Identifier: MIT */
/*
 * blob.h - what two verbs fabrics tell each other: endpoints of a connection, and keys of windows.
 *
 * Bytes of fixed layout, little-endian, with a version first; everything read is hostile until
 * checked: readers return false for what no honest peer of this version writes. Pure functions.
 */
#ifndef RDMAD_FABRIC_VERBS_BLOB_H
#define RDMAD_FABRIC_VERBS_BLOB_H

#include "daemon/fabric/fabric.h"

#define VERBS_BLOB_VERSION 3u
#define VERBS_LANES_MAX 8u
#define VERBS_TOKEN_BYTES 16u

/* One end of a connection: its port, and one QP a lane. */
struct endpoint {
    uint8_t gid[16];
    uint16_t lid;
    uint8_t link_layer;
    uint8_t mtu;            /* enum ibv_mtu */
    uint8_t rd_atomic;      /* READs that it initiates at once */
    uint8_t dest_rd_atomic; /* and that it answers at once */
    uint8_t lanes;
    uint64_t max_message; /* bytes its port takes in one */
    uint32_t qp_num[VERBS_LANES_MAX], psn[VERBS_LANES_MAX];
};

/* Where a target takes messages (target/inbox.c), and what else it can. */
struct inbox_place {
    uint64_t address; /* of its counter, as the device counts */
    uint32_t rkey;    /* the key to read it with */
    uint32_t size;    /* bytes of the longest message */
    uint16_t count;   /* messages that may be under way to it before the counter moves */
    uint8_t features; /* TARGET_* */
};
#define TARGET_ATOMICS 1u  /* its device does CAS and FADD, */
#define TARGET_DATAGRAM 2u /* has UD queue pairs, */
#define TARGET_UNACKED 4u  /* and UC */

/* hello: the dialler's end, or that the dialler comes by rdma_cm. */
struct verbs_hello {
    bool cm;
    struct endpoint end; /* unless cm */
};
/* offer: the target's. */
struct verbs_offer {
    bool cm;
    uint64_t number;     /* of the connection, at the target */
    struct endpoint end; /* unless cm, */
    struct inbox_place inbox;
    uint8_t address[16]; /* cm: where it listens (IPv4 mapped) */
    uint16_t port;
    uint8_t token[VERBS_TOKEN_BYTES]; /* cm: what to show there */
};
/* key: where a window is. */
struct verbs_key {
    uint64_t address; /* of the window's first byte, as the device counts */
    uint8_t count;    /* 1: good on every lane; else one rkey a lane */
    uint32_t rkey[VERBS_LANES_MAX];
};

void blob_write_hello(const struct verbs_hello *h, struct fabric_blob *out);
bool blob_read_hello(const struct fabric_blob *b, struct verbs_hello *out);
void blob_write_offer(const struct verbs_offer *o, struct fabric_blob *out);
bool blob_read_offer(const struct fabric_blob *b, struct verbs_offer *out);
/* Whether what an inbox says of itself is plausible; also called for one that came by rdma_cm. */
bool inbox_place_ok(const struct inbox_place *p);
void blob_write_key(const struct verbs_key *k, struct fabric_blob *out);
bool blob_read_key(const struct fabric_blob *b, struct verbs_key *out);

#endif
