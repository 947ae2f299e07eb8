/* SPDX-License-Identifier: MIT */
/*
 * outq.c - the send queue: a byte ring for what is copied, an array of pieces for the order.
 */
#include "daemon/fabric/tcp/outq.h"
#include "daemon/base/guard.h"
#include "daemon/base/undumped.h"
#include <errno.h>
#include <rdmad/abi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define OUTQ_IOVECS 64u

static struct piece *piece_at(struct outq *q, uint32_t index) {
    return &q->pieces[index % OUTQ_PIECES];
}

int outq_init(struct outq *q) {
    *q = (struct outq){.ring = undumped_new(OUTQ_RING_BYTES),
                       .pieces = malloc(OUTQ_PIECES * sizeof(struct piece))};
    if (q->ring && q->pieces)
        return 0;
    outq_fini(q);
    return RDMAD_E_NOMEM;
}

void outq_fini(struct outq *q) {
    undumped_free(q->ring, OUTQ_RING_BYTES);
    free(q->pieces);
    q->ring = NULL;
    q->pieces = NULL;
}

static void release(struct outq *q, struct piece *p) {
    if (p->foreign && q->released)
        q->released(p);
    p->foreign = false;
}

void outq_drop(struct outq *q) {
    while (!outq_empty(q))
        release(q, piece_at(q, q->first++));
    q->ring_head = q->ring_tail = 0;
}

uint8_t *outq_copy(struct outq *q, uint32_t n) {
    uint32_t at = (uint32_t)(q->ring_tail % OUTQ_RING_BYTES);
    if (at + n > OUTQ_RING_BYTES) { /* a header is never split: skip to the start */
        q->ring_tail += OUTQ_RING_BYTES - at;
        at = 0;
    }
    uint8_t *to = q->ring + at;
    q->ring_tail += n;
    q->queued += n;
    struct piece *last = outq_empty(q) ? NULL : piece_at(q, q->end - 1);
    if (last && last->copied && last->base + last->length == to) {
        last->length += n;
        last->ring_end = q->ring_tail;
    } else {
        *piece_at(q, q->end++) =
            (struct piece){.base = to, .length = n, .copied = true, .ring_end = q->ring_tail};
    }
    return to;
}

struct piece *outq_refer(struct outq *q, const void *base, uint32_t n, uint64_t op, void *owner) {
    struct piece *p = piece_at(q, q->end++);
    *p = (struct piece){.base = base, .length = n, .foreign = true, .op = op, .owner = owner};
    q->queued += n;
    return p;
}

void outq_repoint(struct outq *q, struct piece *p, const uint8_t *base) {
    release(q, p);
    p->base = base;
}

struct piece *outq_next_foreign(struct outq *q, uint32_t *index) {
    while (*index != q->end) {
        struct piece *p = piece_at(q, (*index)++);
        if (p->foreign)
            return p;
    }
    return NULL;
}

static void outq_advance(struct outq *q, size_t n) {
    q->sent += n;
    while (n > 0) {
        struct piece *p = piece_at(q, q->first);
        if (n < p->length) {
            p->base += n;
            p->length -= (uint32_t)n;
            return;
        }
        n -= p->length;
        if (p->copied)
            q->ring_head = p->ring_end;
        release(q, p);
        q->first++;
    }
    /* Start again at the front: those cache lines are warm. */
    if (outq_empty(q))
        q->ring_head = q->ring_tail = 0;
}

ssize_t outq_send(struct outq *q, int fd, unsigned max_pieces, size_t *asked) {
    struct iovec iov[OUTQ_IOVECS];
    unsigned n = 0;
    *asked = 0;
    if (max_pieces > OUTQ_IOVECS)
        max_pieces = OUTQ_IOVECS;
    for (uint32_t i = q->first; i != q->end && n < max_pieces; i++, n++) {
        const struct piece *p = piece_at(q, i);
        iov[n] = (struct iovec){.iov_base = (void *)(uintptr_t)p->base, .iov_len = p->length};
        *asked += p->length;
    }
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = n};
    ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0)
        outq_advance(q, (size_t)sent);
    return sent;
}

ssize_t outq_take(struct outq *q, uint8_t *to, size_t room) {
    size_t n = 0;
    for (uint32_t i = q->first; i != q->end && n < room; i++) {
        const struct piece *p = piece_at(q, i);
        size_t part = p->length < room - n ? p->length : room - n;
        if (!p->foreign)
            memcpy(to + n, p->base, part);
        else if (guard_copy(to + n, p->base, part))
            break;
        n += part;
    }
    if (n == 0 && !outq_empty(q)) {
        errno = EFAULT;
        return -1;
    }
    outq_advance(q, n);
    return (ssize_t)n;
}
