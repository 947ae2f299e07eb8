/* SPDX-License-Identifier: MIT */
/*
 * outq.h - what a connection has yet to send, in order.
 *
 * Bytes are of two kinds. Headers and small payloads are copied into a ring of our own, where
 * neighbours join, so that a whole batch of small ops is one piece of one sendmsg. Large payloads
 * are pieces that point into client memory. They cost us nothing, can vanish (a send then faults),
 * and can be pointed elsewhere at any time. That is how a revoke or a cancel lets go of memory
 * while its frame is half sent: the length of the stream never changes, only where the rest of it
 * comes from.
 *
 * Bounded: no room means that the caller stops taking work until something was sent.
 */
#ifndef RDMAD_FABRIC_TCP_OUTQ_H
#define RDMAD_FABRIC_TCP_OUTQ_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define OUTQ_RING_BYTES (256u << 10)
#define OUTQ_PIECES 512u
#define OUTQ_COPY_MAX 4096u /* of one outq_copy, unless outq_fits said that more is possible */

struct piece {
    const uint8_t *base;
    uint32_t length;
    bool copied;       /* lies in the ring */
    bool foreign;      /* client memory */
    uint64_t ring_end; /* copied: the ring is free up to here once this is sent */
    uint64_t op;       /* foreign: the op it belongs to */
    void *owner;       /* foreign: whose memory it is, for whoever queued it */
    uint8_t *trailer;  /* foreign: the copied header that follows and tells how it went */
};

struct outq {
    uint8_t *ring;
    struct piece *pieces;
    uint64_t ring_head, ring_tail;    /* positions, counted from the last time it was empty */
    uint32_t first, end;              /* of pieces, modulo OUTQ_PIECES */
    uint64_t queued, sent;            /* positions in the stream of bytes */
    void (*released)(struct piece *); /* a foreign piece is sent or dropped; may be NULL */
};

int outq_init(struct outq *q); /* 0 or RDMAD_E_NOMEM */
void outq_fini(struct outq *q);
void outq_drop(struct outq *q); /* forgets everything that is queued */

static inline bool outq_empty(const struct outq *q) {
    return q->first == q->end;
}

/* Whether two of the largest copies and two foreign pieces surely fit. */
static inline bool outq_room(const struct outq *q) {
    return OUTQ_RING_BYTES - (q->ring_tail - q->ring_head) >= UINT64_C(3) * OUTQ_COPY_MAX &&
           OUTQ_PIECES - (q->end - q->first) >= 8;
}

/* Whether there is that much room and one copy of n bytes besides. */
static inline bool outq_fits(const struct outq *q, uint32_t n) {
    return outq_room(q) && OUTQ_RING_BYTES - (q->ring_tail - q->ring_head) >=
                               UINT64_C(3) * OUTQ_COPY_MAX + UINT64_C(2) * n;
}

/* Room for n copied bytes at the end of the stream, for the caller to fill. */
uint8_t *outq_copy(struct outq *q, uint32_t n);

/* Appends n foreign bytes. The returned piece stays where it is until released. */
struct piece *outq_refer(struct outq *q, const void *base, uint32_t n, uint64_t op, void *owner);

/* The rest of a foreign piece comes from memory of ours from now on. */
void outq_repoint(struct outq *q, struct piece *p, const uint8_t *base);

/* Walks the unsent foreign pieces: index starts at q->first. NULL at the end. */
struct piece *outq_next_foreign(struct outq *q, uint32_t *index);

/* One sendmsg of at most max_pieces. *asked: how many bytes were offered to it. Returns what
 * sendmsg returned, with errno. What went out is gone from the queue. */
ssize_t outq_send(struct outq *q, int fd, unsigned max_pieces, size_t *asked);

/* Moves at most room bytes of the queue to `to`, in place of a send. Returns how many; -1 and
 * EFAULT: none, because the first piece is client memory that is gone. */
ssize_t outq_take(struct outq *q, uint8_t *to, size_t room);

#endif
