/* SPDX-License-Identifier: MIT */
/*
 * ring.h - the shared memory of one ring.
 *
 * A ring is two memfds, one per writer, and two descriptors for wake-ups:
 *
 *   client's memfd (client writes, daemon reads)    struct rdmad_ring_client, then sqe[sq_entries]
 *   daemon's memfd (daemon writes, client reads)    struct rdmad_ring_daemon, then cqe[cq_entries]
 *   a stream socket                                 the daemon sends, the client receives
 *   an eventfd                                      the client writes, the daemon watches
 *
 * The daemon's memfd is sealed against future writable mappings before the client sees it. Indices
 * run freely over 32 bits and are masked with entries - 1; both counts are powers of two. Each side
 * keeps its own indices in private memory and only publishes them here; what it reads of the other
 * side it clamps. Sizes never travel through shared memory, only in the socket reply.
 *
 * Words are plain integers so that the header serves C and C++; they are accessed only through the
 * functions of common/ringword.h, which say why each ordering is what it is.
 *
 * Wake-ups: a side that is going to sleep stores 1 in its wait word, then looks once more at the
 * other side's index, then blocks. A side that published an index and then sees the other's wait
 * word at 1 wakes it: the daemon sends one byte on the socket, the client writes 1 to the eventfd.
 * All four accesses are seq_cst, so at least one of the two sees the other. A byte that does not
 * fit is dropped: the socket is readable anyway. The daemon watches the eventfd edge-triggered and
 * never reads it, so each write is heard; a client that writes much more often than it publishes
 * is looked at every now and then instead. The socket takes nothing: the daemon's end is shut for
 * reading, and what a client sends there, bytes or descriptors, fails with EPIPE.
 *
 * The end: when the daemon ends a session, or stops, devices may still be at the buffers of ops
 * that it has taken. It stores 1 in let_go when they are not, before it closes its end of the
 * socket. If the socket of a ring that was ready is closed and let_go is 0, the daemon is dying:
 * then the buffers are the client's when the descriptor of RDMAD_MSG_LIFELINE says so.
 *
 * Signs of life, for the keep-alive of channels: the daemon counts `ask` on, and wakes the client;
 * who looks for completions and finds none answers by storing ask + 1 in `alive`.
 */
#ifndef RDMAD_RING_H
#define RDMAD_RING_H

#include <rdmad/abi.h>

#define RDMAD_CACHE_LINE 64u
#define RDMAD_RING_ENTRIES_OFFSET 256u /* of sqe[] and cqe[] in their memfds */

/* The daemon stops, and sq_head is the last: it looks at no further sqe. UNSENT: and SENDs that it
 * has taken and not completed have not been sent. */
#define RDMAD_SQ_LEFT 1u
#define RDMAD_SQ_LEFT_UNSENT 2u

struct rdmad_ring_client {
    uint32_t sq_tail; /* sqes published */
    uint32_t pad0[15];
    uint32_t cq_head; /* cqes taken */
    uint32_t pad1[15];
    uint32_t cq_wait; /* 1: the client sleeps, or is about to */
    uint32_t alive;   /* ask + 1, as last seen; 0: a client that does not answer */
    uint32_t pad2[14];
    uint32_t pad3[16];
};
RDMAD_STATIC_ASSERT(sizeof(struct rdmad_ring_client) == RDMAD_RING_ENTRIES_OFFSET, "layout");

struct rdmad_ring_daemon {
    uint32_t sq_head; /* sqes copied: their slots are free again */
    uint32_t sq_left; /* 0, or RDMAD_SQ_LEFT_* when it stops */
    uint32_t let_go;  /* 1: nothing reads or writes buffers any more: the ring has ended */
    uint32_t pad0[13];
    uint32_t cq_tail; /* cqes published */
    uint32_t crowded; /* 1: other programs want the CPUs, to sleep is better than to spin */
    uint32_t ask;     /* whether the client is alive: counts on, and is never UINT32_MAX */
    uint32_t pad1[13];
    uint32_t sq_wait; /* 1: the daemon sleeps, or is about to */
    uint32_t pad2[15];
    uint32_t untaken; /* notifications of the session's leases that nobody has taken; of one ring */
    uint32_t pad3[15];
};
RDMAD_STATIC_ASSERT(sizeof(struct rdmad_ring_daemon) == RDMAD_RING_ENTRIES_OFFSET, "layout");

/* Bytes of each memfd, before rounding up to pages. */
#define RDMAD_RING_CLIENT_BYTES(sq_entries) \
    (RDMAD_RING_ENTRIES_OFFSET + (size_t)(sq_entries) * sizeof(struct rdmad_sqe))
#define RDMAD_RING_DAEMON_BYTES(cq_entries) \
    (RDMAD_RING_ENTRIES_OFFSET + (size_t)(cq_entries) * sizeof(struct rdmad_cqe))

#endif
