/* SPDX-License-Identifier: MIT */
/*
 * link.c - the asking end: posting, canceling, losing.
 *
 * Posting numbers the op, remembers it in the ring of pending requests and appends its frame to the
 * send queue: small payloads are copied there, so their memory is free at once; large ones are
 * referred to. A SEND with a large one is a LONG and an END.
 *
 * Canceling lets go of the op's memory at once and leaves its number in the ring, because the
 * answer will still come. By how far its frame has got:
 *   nothing of it sent       its header becomes VOID, its payload zeros: untouched
 *   a WRITE half sent        the rest is copied aside, so that the frame ends as it began: partial
 *   a WRITE sent             nobody can tell: unknown
 *   a READ sent              what comes is thrown away: partial if some has come, else untouched
 *   a LONG half sent         zeros follow, and an END that says so: untouched
 *   a SEND, CAS or FADD of which anything was sent: it will be done, or not: unknown
 *
 * Memory that vanishes: a SEND or a small WRITE whose bytes cannot be copied becomes VOID and fails
 * untouched. A large one has announced its bytes already, so zeros follow and it fails partial: the
 * client punched its own source, and may write to that range in any case. A LONG is cut, as above.
 */
#include "daemon/fabric/tcp/link.h"
#include "daemon/base/clock.h"
#include "daemon/base/guard.h"
#include "daemon/base/undumped.h"
#include "daemon/fabric/tcp/blob.h"
#include <stdlib.h>

#define NO_NUMBER UINT64_MAX /* in op->scratch[0]: refused in post, waits in tcp.refused */

/* ---- posting ----------------------------------------------------------------------------- */

/* The op was taken but never got a number; poll gives it back. */
static void refuse_op(struct tcp_link *l, struct fabric_op *op, int status) {
    struct tcp *t = l->conn.tcp;
    op->scratch[0] = NO_NUMBER;
    op->status = status;
    op->outcome = RDMAD_FAILED_UNTOUCHED;
    list_append(&t->refused, &op->node);
}

/* Too much waits to be sent, whatever the op's own length: short ops that come all the time keep
 * what waits near the bound, and a long one that had to fit in would never be taken. A READ has
 * nothing to be sent but its header, for which outq_room asks. */
static bool bytes_full(const struct tcp_link *l, const struct fabric_op *op) {
    const struct outq *q = &l->conn.out;
    return op->opcode != RDMAD_OP_READ &&
           q->queued - q->sent >= l->conn.tcp->env->settings->send_buffer_bytes;
}

static bool link_full(const struct tcp_link *l, const struct fabric_op *op) {
    const struct outq *q = &l->conn.out;
    uint64_t in_flight = l->tail - l->head;
    if (op->opcode == RDMAD_OP_SEND && op->length <= FRAME_MAX_SEND &&
        !outq_fits(q, FRAME_BYTES + FRAME_MAX_SEND))
        return true;
    return in_flight >= l->conn.tcp->env->settings->max_inflight || in_flight > l->mask ||
           !outq_room(q) || bytes_full(l, op);
}

/* How much of the payload goes into the queue at once. */
static uint32_t copied(const struct frame *f) {
    if (f->type == FRAME_READ || (f->type == FRAME_WRITE && f->length > TCP_SMALL))
        return 0;
    return f->type == FRAME_LONG ? f->slot : f->length;
}

/* Fills in a payload that is copied. Returns the address that could not be read. */
static const void *put_payload(uint8_t *to, const struct frame *f, const struct fabric_op *op) {
    uint32_t head = 0;
    if (f->type == FRAME_CAS)
        word_put(to + FRAME_WORD, op->swap);
    if (frame_is_atomic(f->type)) {
        word_put(to, f->type == FRAME_CAS ? op->compare : op->swap);
        return NULL;
    }
    if (f->type != FRAME_WRITE && op->head_size) {
        head = op->head_size;
        memcpy(to, op->head, head);
    }
    uint32_t length = copied(f);
    const void *fault = length > head ? guard_copy(to + head, op->local, length - head) : NULL;
    if (fault)
        memset(to + head, 0, length - head);
    return fault;
}

static void put_end(const struct piece *piece, uint8_t flags) {
    frame_put(piece->trailer,
              &(struct frame){.type = FRAME_END, .flags = flags, .op = (uint32_t)piece->op});
}

/* Header and payload of a request join the send queue. Returns the address that could not be
 * read. */
static const void *put_request(struct tcp_link *l, struct pending *p, struct frame *f,
                               const struct fabric_op *op) {
    struct outq *q = &l->conn.out;
    uint32_t here = copied(f), there = frame_payload(f) - here;
    p->starts = q->queued;
    p->header = outq_copy(q, FRAME_BYTES + here);
    const void *fault = here ? put_payload(p->header + FRAME_BYTES, f, op) : NULL;
    if (fault)
        *f = (struct frame){.type = FRAME_VOID, .op = f->op, .length = f->length};
    frame_put(p->header, f);
    struct piece *piece = there ? outq_refer(q, op->local, there, l->tail, NULL) : NULL;
    if (piece && f->type == FRAME_LONG) {
        piece->trailer = outq_copy(q, FRAME_BYTES);
        put_end(piece, FRAME_WHOLE);
    }
    p->ends = q->queued;
    return fault;
}

/* The request's frame, but for its number. Returns 0, or why there can be none. */
static int request_of(const struct fabric_op *op, struct frame *f) {
    *f = (struct frame){.offset = op->offset, .length = (uint32_t)op->length};
    switch (op->opcode) {
    case RDMAD_OP_READ:
    case RDMAD_OP_WRITE:
        f->type = op->opcode == RDMAD_OP_READ ? FRAME_READ : FRAME_WRITE;
        if (op->length > FRAME_MAX_PAYLOAD)
            return RDMAD_E_LENGTH;
        break;
    case RDMAD_OP_CAS:
    case RDMAD_OP_FADD:
        f->type = op->opcode == RDMAD_OP_CAS ? FRAME_CAS : FRAME_FADD;
        f->length = f->type == FRAME_CAS ? 2 * FRAME_WORD : FRAME_WORD;
        break;
    case RDMAD_OP_SEND:
        f->type = FRAME_SEND;
        f->offset = 0;
        if (op->service != RDMAD_CHANNEL_RELIABLE)
            return RDMAD_E_UNSUPPORTED;
        if (op->length > FRAME_MAX_LONG || op->head_size > op->length)
            return RDMAD_E_LENGTH;
        if (op->asks && op->length > FRAME_MAX_SEND)
            return RDMAD_E_LENGTH;
        if (op->asks) {
            f->flags = FRAME_ASKS;
        } else if (op->length - op->head_size > TCP_LONG) {
            f->type = FRAME_LONG;
            f->slot = op->head_size;
        }
        return 0;
    default:
        return RDMAD_E_UNSUPPORTED;
    }
    return key_read(op->key, &f->slot, &f->key) ? 0 : RDMAD_E_PROTOCOL;
}

int tcp_post(struct fabric_link *fl, struct fabric_op *op) {
    struct tcp_link *l = container_of(fl, struct tcp_link, base);
    if (l->conn.closed)
        return RDMAD_E_PEER_LOST;
    if (link_full(l, op))
        return RDMAD_E_AGAIN;
    op->link = fl;
    op->fault = NULL;
    list_init(&op->node);
    struct frame f;
    int wrong = request_of(op, &f);
    if (wrong) {
        refuse_op(l, op, wrong);
        return 0;
    }
    f.op = (uint32_t)l->tail;
    if (l->tail == l->head && !l->conn.greeting) { /* silence counts from now */
        struct tcp *t = l->conn.tcp;
        l->conn.heard_ns = t->env->now_ns(t->env->user);
        tcp_timer_at(t, clock_after(l->conn.heard_ns, t->env->settings->dead_peer_ns));
    }
    struct pending *p = link_pending(l, l->tail);
    *p = (struct pending){.op = op, .length = f.length};
    p->length += f.type == FRAME_LONG ? FRAME_BYTES : 0;
    const void *fault = put_request(l, p, &f, op);
    p->type = f.type;
    p->word = frame_is_atomic(f.type) || f.flags & FRAME_ASKS;
    if (fault) {
        p->op = NULL;
        op->fault = fault;
        refuse_op(l, op, RDMAD_E_FAULT);
    } else {
        op->scratch[0] = l->tail;
    }
    l->tail++;
    conn_wants_send(&l->conn);
    conn_heat(&l->conn);
    return 0;
}

/* ---- letting go -------------------------------------------------------------------------- */

static struct piece *piece_of(struct tcp_link *l, uint64_t number) {
    struct piece *piece;
    for (uint32_t i = l->conn.out.first; (piece = outq_next_foreign(&l->conn.out, &i));)
        if (piece->op == number)
            return piece;
    return NULL;
}

static uint8_t link_outcome(struct tcp_link *l, uint64_t number) {
    const struct pending *p = link_pending(l, number);
    uint64_t sent = l->conn.out.sent;
    if (sent <= p->starts || (p->type == FRAME_LONG && piece_of(l, number)))
        return RDMAD_FAILED_UNTOUCHED;
    if (p->type == FRAME_READ)
        return number == l->head && l->touched ? RDMAD_FAILED_PARTIAL : RDMAD_FAILED_UNTOUCHED;
    if (p->type != FRAME_WRITE) /* done as a whole, for which all of it has to be sent */
        return sent < p->ends && l->conn.closed ? RDMAD_FAILED_UNTOUCHED : RDMAD_UNKNOWN;
    return sent < p->ends ? RDMAD_FAILED_PARTIAL : RDMAD_UNKNOWN;
}

/* The rest of a half sent payload is copied aside. There is one such at most, so one buffer does.
 * Without it zeros follow, which the outcome allows for too. */
static const uint8_t *put_aside(struct tcp_link *l, const struct piece *piece) {
    if (!l->staged)
        l->staged = undumped_new(FRAME_MAX_PAYLOAD);
    if (!l->staged || guard_copy(l->staged, piece->base, piece->length))
        return l->conn.tcp->zeros;
    return l->staged;
}

/* Afterwards the connection goes on without the op's memory. */
static void link_let_go(struct tcp_link *l, uint64_t number) {
    struct pending *p = link_pending(l, number);
    bool untouched = l->conn.out.sent <= p->starts;
    bool cut = untouched || p->type == FRAME_LONG;
    struct piece *piece = piece_of(l, number);
    if (piece && p->type == FRAME_LONG)
        put_end(piece, 0);
    if (piece)
        outq_repoint(&l->conn.out, piece, cut ? l->conn.tcp->zeros : put_aside(l, piece));
    if (untouched) {
        struct frame f = {.type = FRAME_VOID, .op = (uint32_t)number};
        f.length = p->type == FRAME_READ ? 0 : p->length;
        frame_put(p->header, &f);
        p->type = FRAME_VOID;
        p->word = false;
    }
    if (number == l->head && l->answering)
        l->conn.rx.dest = NULL;
    p->op = NULL;
}

void tcp_cancel(struct fabric_op *op, int status) {
    struct tcp_link *l = container_of(op->link, struct tcp_link, base);
    uint64_t number = op->scratch[0];
    if (number == NO_NUMBER) {
        op_complete_refused(l->conn.tcp, op);
        return;
    }
    uint8_t outcome = link_outcome(l, number);
    link_let_go(l, number);
    op_complete(l->conn.tcp, op, status, outcome);
}

/* The client's memory under a large WRITE is gone. */
void link_tx_fault(struct tcp_conn *c, struct piece *piece) {
    struct tcp_link *l = link_of_conn(c);
    struct tcp *t = c->tcp;
    const void *address = piece->base;
    struct pending *p = link_pending(l, piece->op);
    struct fabric_op *op = p->op;
    bool cut = p->type == FRAME_LONG;
    if (cut)
        put_end(piece, 0);
    outq_repoint(&c->out, piece, t->zeros);
    p->op = NULL;
    op->fault = address;
    op_complete(t, op, RDMAD_E_FAULT, cut ? RDMAD_FAILED_UNTOUCHED : RDMAD_FAILED_PARTIAL);
    t->env->memory_fault(t->env->user, address);
}

/* ---- ending ------------------------------------------------------------------------------ */

/* Gives back every op. The socket is closed and nothing is queued: no memory is in use. Callbacks
 * may come back here; every op is taken out before it is completed. */
static void complete_all(struct tcp_link *l, int status) {
    struct tcp *t = l->conn.tcp;
    list_for_each_safe (pos, &t->refused) {
        struct fabric_op *op = list_entry(pos, struct fabric_op, node);
        if (op->link != &l->base)
            continue;
        list_remove(pos);
        list_append(&l->refused, pos);
    }
    struct list *node;
    while ((node = list_first(&l->refused)))
        op_complete_refused(t, list_entry(node, struct fabric_op, node));
    while (l->head != l->tail) {
        struct pending *p = link_pending(l, l->head);
        struct fabric_op *op = p->op;
        uint8_t outcome = link_outcome(l, l->head);
        if (status == RDMAD_E_PEER_LOST && p->type == FRAME_READ && l->conn.out.sent > p->starts)
            outcome = RDMAD_FAILED_PARTIAL; /* fabric.h: of a lost READ nothing is promised */
        p->op = NULL;
        l->head++;
        if (op)
            op_complete(t, op, status, outcome);
    }
}

void link_lost(struct tcp_conn *c, const struct error *why) {
    struct tcp_link *l = link_of_conn(c);
    struct tcp *t = c->tcp;
    conn_shut(c);
    complete_all(l, RDMAD_E_PEER_LOST);
    if (!l->ended)
        t->env->link_lost(t->env->user, l->cookie, why);
}

void tcp_link_close(struct fabric_link *fl) {
    struct tcp_link *l = container_of(fl, struct tcp_link, base);
    l->ended = true;
    conn_shut(&l->conn);
    complete_all(l, RDMAD_E_CANCELED);
    source_end(l->conn.tcp, &l->conn.source);
}
