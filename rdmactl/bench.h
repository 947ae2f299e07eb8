/* SPDX-License-Identifier: MIT */
/*
 * bench.h - what the measuring side (cmd_bench.c) and the answering side (cmd_bench_serve.c) of
 * rdmactl bench agree on, and what they share.
 *
 * A bench serve leases a page of head, then its data area. READs and streams of WRITEs only use the
 * data area and need no help from the other side. A ping-pong does: the client leases memory of its
 * own, WRITEs a struct bench_request and then the doorbell into the head; the server attaches,
 * WRITEs the request's nonce to the start of the client's memory, and from then on answers each
 * WRITE into its data area by one into the client's. Message i ends in the byte i modulo 256; both
 * sides wait for that byte, which is the last of a message to be placed.
 */
#ifndef RDMACTL_BENCH_H
#define RDMACTL_BENCH_H

#include "common/crowd.h"
#include <rdmad/rdmad.h>
#include <stdbool.h>

#define BENCH_MAGIC UINT64_C(0x31686362616d6472) /* "rdmabch1" */
#define BENCH_HEAD_BYTES 4096u                   /* before the data, on both sides */

enum bench_poll { POLL_BUSY, POLL_ADAPTIVE, POLL_EVENT };

struct bench_request {
    uint64_t nonce; /* not 0; the doorbell repeats it when all of this is placed */
    uint64_t bytes; /* of a message */
    uint32_t poll;  /* enum bench_poll */
    uint32_t reserved;
    char uri[RDMAD_URI_MAX + 1]; /* of the client's memory */
};

/* The server's head. */
struct bench_head {
    uint64_t magic;
    uint64_t data_bytes;
    uint64_t max_message; /* of a ping-pong */
    uint8_t pad0[104];
    struct bench_request request; /* the client writes this, */
    uint8_t pad1[1024 - 128 - sizeof(struct bench_request)];
    uint64_t doorbell; /* then this, */
    uint8_t pad2[120];
    uint64_t stop; /* and the nonce here when it is done */
    uint8_t pad3[120];
    char service[RDMAD_URI_MAX + 1]; /* the server writes it: where bench send connects */
    /* A second lease of the same memory, for atomics: on some fabrics they go by the device even on
     * one daemon, and everything else through their lease with them. */
    char atomics[RDMAD_URI_MAX + 1];
};
_Static_assert(sizeof(struct bench_head) <= BENCH_HEAD_BYTES, "the head is one page");

uint64_t bench_now_ns(void);
/* rdmad_options.spin_us of a way to wait. */
int64_t bench_spin_us(enum bench_poll poll);

/* Waits for memory to change, which nothing announces: spins, then gives the CPU to others, then
 * sleeps longer and longer, so that an idle server costs nothing. POLL_BUSY sleeps only where
 * others want its CPU (common/crowd.h). */
struct bench_wait {
    enum bench_poll poll;
    unsigned turns;
    uint64_t since_ns;
    bool napped;
    bool used; /* for an earlier wait, too */
    struct rdmad_crowd crowd;
};
/* w is all 0, or was used before. */
void bench_wait_start(struct bench_wait *w, enum bench_poll poll);
/* One turn of waiting; returns for how many nanoseconds it has lasted (0 in the first turns). */
uint64_t bench_wait_turn(struct bench_wait *w);

/* One side of a ping-pong. */
struct bench_side {
    rdmad_session *session;
    rdmad_ring *ring;
    rdmad_lease *to;              /* messages go to its data area */
    const volatile uint8_t *last; /* the last byte of the message that comes in */
    uint8_t *out[2];              /* messages go out of these in turn */
    uint64_t bytes, sent, completed;
    enum bench_poll poll;
    struct bench_wait wait;
    bool (*over)(void *user); /* asked while it waits: whether that is in vain; NULL: never */
    void *user;
    char why[RDMAD_TEXT_MAX + 1];
};
/* Both return 0 or RDMAD_E_* with why; RDMAD_E_CANCELED when over says so. */
int bench_send(struct bench_side *side);
/* Waits for the message that answers (or, at the server, precedes) number; RDMAD_E_TIMEOUT after
 * patience_ns. */
int bench_expect(struct bench_side *side, uint64_t number, uint64_t patience_ns);

#endif
