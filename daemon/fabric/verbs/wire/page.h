/* SPDX-License-Identifier: MIT */
/*
 * page.h - what a target tells its initiator through memory that the initiator READs by itself, and
 * how the initiator asks for a place for weak messages.
 *
 * Weak messages are those that may be lost: datagrams by UD, unacknowledged ones by UC. Before the
 * first, the link makes its QP and requests a receiver, by a special message on the first lane; the
 * target makes the receiver (target/weak_receiver.c) and writes its place into the page; the link
 * reads that and sends (link/weak_sender.c). A receiver belongs to one connection and goes with it.
 *
 * For a datagram the device tells the sender's QP and address, but others could claim the same. So
 * a receiver of datagrams has a token, which only its own peer can have read, and each datagram
 * must show it.
 */
#ifndef RDMAD_FABRIC_VERBS_WIRE_PAGE_H
#define RDMAD_FABRIC_VERBS_WIRE_PAGE_H

#include <rdmad/abi.h>
#include <stdint.h>

/* ---- weak messages ------------------------------------------------------------------------- */

enum weak_kind { WEAK_DATAGRAM, WEAK_UNACKED, WEAK_KINDS };

#define WEAK_TOKEN 8u             /* bytes, before those of a datagram */
#define WEAK_REFUSED 1u           /* as a place's QP number: there is none, and there will not be */
#define WEAK_REQUEST_IMM 0x646f6f /* immediate data of a request */

/* A request, little-endian. */
struct weak_request {
    uint32_t kind, qp_num, psn, zero;
};

/* Where a kind's receiver is; in the page, little-endian. */
struct weak_place {
    uint32_t qp_num; /* 0: not made yet */
    uint32_t word;   /* UD: the Q_Key; UC: the number of the first packet that is expected */
    uint64_t token;
};

static inline enum weak_kind weak_kind_of(uint8_t service) {
    return service == RDMAD_CHANNEL_DATAGRAM ? WEAK_DATAGRAM : WEAK_UNACKED;
}

/* ---- the page ------------------------------------------------------------------------------ */

#define INBOX_RECEIVES 64u /* of a connection's first QP */

/* The word that answers a message that asks. A device may read some of its bytes before a change
 * and some after; then the seal does not fit. */
struct inbox_answer {
    uint64_t word, seal; /* seal: of the word and the message's number */
};
/* Little-endian. */
struct inbox_page {
    uint64_t consumed; /* messages taken, and their receives posted again */
    struct weak_place place[WEAK_KINDS];
    struct inbox_answer answer[INBOX_RECEIVES]; /* of the last, by their numbers */
};

static inline uint64_t answer_seal(uint64_t word, uint64_t number) {
    return ~(word ^ (number + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

#endif
