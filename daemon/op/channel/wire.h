/* SPDX-License-Identifier: MIT */
/*
 * wire.h - what the ends of a channel say to each other.
 *
 * Every message of a reliable channel carries the state of the end that sends it; channel.h says
 * what that means. Channels of the other kinds have two messages of their own.
 */
#ifndef RDMAD_OP_CHANNEL_WIRE_H
#define RDMAD_OP_CHANNEL_WIRE_H

#include "daemon/fabric/fabric.h"
#include <stdbool.h>

#define CHANNEL_HEAD 96u

enum channel_type {
    CHANNEL_STATE = 1, /* nothing but the state */
    CHANNEL_SYNC,      /* the first on a link: what came by another link is void */
    CHANNEL_DATA,      /* a message whole */
    CHANNEL_OFFER,     /* one to be READ */
    CHANNEL_KEY,       /* a new key for one that was offered */
    CHANNEL_WITHDRAW,  /* the sender wants it back */
    CHANNEL_FIN,       /* this end is gone; its last state */
    /* Of a channel without acknowledgements, which has no others: */
    CHANNEL_PIECE, /* a piece of a message, or all of it */
    CHANNEL_TOTAL, /* this end is gone; so many messages were sent */
    CHANNEL_TYPES
};

#define CHANNEL_FLAG_IMM 1u
#define CHANNEL_FLAG_LEASE 2u
#define CHANNEL_FLAG_ABRUPT 4u /* FIN, TOTAL: what was under way was canceled */
#define CHANNEL_FLAGS 7u

struct channel_state {
    uint32_t epoch, echo;  /* of this end's last SYNC; of the last that it had from the other */
    uint32_t refusals;     /* counted */
    uint64_t next, expect; /* the sender's numbers */
    uint64_t limit;
    uint64_t small, gone; /* bit n: of message next - 1 - n */
    uint64_t heard;       /* the other end's next */
};

struct channel_piece {
    uint64_t whole; /* how long its message is */
    uint64_t at;    /* where in that this one begins */
};

/* A fabric_blob's bytes, wherever they are. */
struct channel_key {
    const uint8_t *bytes;
    uint8_t size;
};

struct channel_message {
    uint8_t type; /* enum channel_type */
    uint16_t flags;
    uint32_t imm;
    uint64_t channel; /* the receiver's number */
    union {
        struct channel_state state;
        struct channel_piece piece; /* PIECE */
        uint64_t total;             /* TOTAL */
    };
    uint64_t seq, length;   /* DATA, OFFER, KEY, WITHDRAW, PIECE */
    struct channel_key key; /* OFFER, KEY */
    const uint8_t
        *payload; /* DATA, PIECE: length bytes. OFFER in one daemon: the sender's buffer */
    struct fabric_landing **landing; /* DATA whose payload is to come: says where to; else NULL */
};

static inline bool channel_has_payload(uint8_t type) {
    return type == CHANNEL_DATA || type == CHANNEL_PIECE;
}
/* Without acknowledgements: it carries no state. */
static inline bool channel_has_state(uint8_t type) {
    return type != CHANNEL_PIECE && type != CHANNEL_TOTAL;
}

/* Fills at most FABRIC_HEAD_MAX bytes, a payload comes behind them; returns how many. */
size_t channel_encode(const struct channel_message *m, uint8_t *head);
/* Checks everything that can be checked without knowing the channel. Returns NULL, or what is
 * wrong, and then *m has a channel if that much could be read, else 0. to_come: the length of a
 * DATA's payload that is not there yet, else 0. */
const char *channel_decode(struct channel_message *m, const uint8_t *bytes, size_t size,
                           uint64_t to_come);

#endif
