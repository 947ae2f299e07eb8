/* SPDX-License-Identifier: MIT */
/*
 * link.c - the asking end: dialling, posting, canceling, losing.
 *
 * Dialling never blocks: connect, send the hello with the offer's token, wait for the welcome. Ops
 * may be posted meanwhile; they are queued. link_up tells when the welcome has come; link_lost
 * tells, once, that it did not, or that the connection broke later.
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
#include "daemon/base/clock.h"
#include "daemon/base/guard.h"
#include "daemon/fabric/tcp/blob.h"
#include "daemon/fabric/tcp/tcp.h"
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NO_NUMBER UINT64_MAX /* in op->scratch[0]: refused in post, waits in tcp.doomed */

static struct link *link_of(struct conn *c) {
    return container_of(c, struct link, conn);
}

static struct pending *pending_at(struct link *l, uint64_t number) {
    return &l->pending[number & l->mask];
}

void op_complete(struct tcp *t, struct fabric_op *op, int status, uint8_t outcome) {
    op->status = status;
    op->outcome = outcome;
    t->progress++;
    t->env->complete(t->env->user, op);
}

/* ---- posting ----------------------------------------------------------------------------- */

/* The op was taken but never got a number; poll gives it back. */
static void doom(struct link *l, struct fabric_op *op, int status) {
    struct tcp *t = l->conn.tcp;
    op->scratch[0] = NO_NUMBER;
    op->status = status;
    op->outcome = RDMAD_FAILED_UNTOUCHED;
    list_append(&t->doomed, &op->node);
}

void doomed_complete(struct tcp *t, struct fabric_op *op) {
    const void *fault = op->fault;
    list_remove(&op->node);
    op_complete(t, op, op->status, op->outcome);
    if (fault)
        t->env->memory_fault(t->env->user, fault);
}

static bool link_full(const struct link *l, const struct fabric_op *op) {
    uint64_t length = op->length;
    const struct outq *q = &l->conn.out;
    const struct fabric_settings *s = l->conn.tcp->env->settings;
    uint64_t unsent = q->queued - q->sent;
    if (op->opcode == RDMAD_OP_SEND && length <= FRAME_MAX_SEND &&
        !outq_fits(q, FRAME_BYTES + FRAME_MAX_SEND))
        return true;
    return l->tail - l->head >= s->max_inflight || l->tail - l->head > l->mask || !outq_room(q) ||
           (unsent > 0 && unsent + length > s->send_buffer_bytes);
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
static const void *put_request(struct link *l, struct pending *p, struct frame *f,
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
    struct link *l = container_of(fl, struct link, base);
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
        doom(l, op, wrong);
        return 0;
    }
    f.op = (uint32_t)l->tail;
    if (l->tail == l->head && !l->conn.greeting) { /* silence counts from now */
        struct tcp *t = l->conn.tcp;
        l->conn.heard_ns = t->env->now_ns(t->env->user);
        timer_at(t, clock_after(l->conn.heard_ns, t->env->settings->dead_peer_ns));
    }
    struct pending *p = pending_at(l, l->tail);
    *p = (struct pending){.op = op, .length = f.length};
    p->length += f.type == FRAME_LONG ? FRAME_BYTES : 0;
    const void *fault = put_request(l, p, &f, op);
    p->type = f.type;
    p->word = frame_is_atomic(f.type) || f.flags & FRAME_ASKS;
    if (fault) {
        p->op = NULL;
        op->fault = fault;
        doom(l, op, RDMAD_E_FAULT);
    } else {
        op->scratch[0] = l->tail;
    }
    l->tail++;
    conn_wants_send(&l->conn);
    conn_heat(&l->conn);
    return 0;
}

/* ---- letting go -------------------------------------------------------------------------- */

static struct piece *piece_of(struct link *l, uint64_t number) {
    struct piece *piece;
    for (uint32_t i = l->conn.out.first; (piece = outq_next_foreign(&l->conn.out, &i));)
        if (piece->op == number)
            return piece;
    return NULL;
}

static uint8_t outcome_of(struct link *l, uint64_t number) {
    const struct pending *p = pending_at(l, number);
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
static const uint8_t *put_aside(struct link *l, const struct piece *piece) {
    if (!l->staged)
        l->staged = malloc(FRAME_MAX_PAYLOAD);
    if (!l->staged || guard_copy(l->staged, piece->base, piece->length))
        return l->conn.tcp->zeros;
    return l->staged;
}

/* Afterwards the connection goes on without the op's memory. */
static void let_go(struct link *l, uint64_t number) {
    struct pending *p = pending_at(l, number);
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
    struct link *l = container_of(op->link, struct link, base);
    uint64_t number = op->scratch[0];
    if (number == NO_NUMBER) {
        doomed_complete(l->conn.tcp, op);
        return;
    }
    uint8_t outcome = outcome_of(l, number);
    let_go(l, number);
    op_complete(l->conn.tcp, op, status, outcome);
}

/* The client's memory under a large WRITE is gone. */
static void link_tx_fault(struct conn *c, struct piece *piece) {
    struct link *l = link_of(c);
    struct tcp *t = c->tcp;
    const void *address = piece->base;
    struct pending *p = pending_at(l, piece->op);
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
static void complete_all(struct link *l, int status) {
    struct tcp *t = l->conn.tcp;
    list_for_each_safe (pos, &t->doomed) {
        struct fabric_op *op = list_entry(pos, struct fabric_op, node);
        if (op->link != &l->base)
            continue;
        list_remove(pos);
        list_append(&l->doomed, pos);
    }
    struct list *node;
    while ((node = list_first(&l->doomed)))
        doomed_complete(t, list_entry(node, struct fabric_op, node));
    while (l->head != l->tail) {
        struct pending *p = pending_at(l, l->head);
        struct fabric_op *op = p->op;
        uint8_t outcome = outcome_of(l, l->head);
        if (status == RDMAD_E_PEER_LOST && p->type == FRAME_READ && l->conn.out.sent > p->starts)
            outcome = RDMAD_FAILED_PARTIAL; /* fabric.h: of a lost READ nothing is promised */
        p->op = NULL;
        l->head++;
        if (op)
            op_complete(t, op, status, outcome);
    }
}

static void link_lost(struct conn *c, const struct error *why) {
    struct link *l = link_of(c);
    struct tcp *t = c->tcp;
    conn_shut(c);
    complete_all(l, RDMAD_E_PEER_LOST);
    if (!l->ended)
        t->env->link_lost(t->env->user, l->cookie, why);
}

void tcp_link_close(struct fabric_link *fl) {
    struct link *l = container_of(fl, struct link, base);
    l->ended = true;
    conn_shut(&l->conn);
    complete_all(l, RDMAD_E_CANCELED);
    source_bury(l->conn.tcp, &l->conn.source);
}

static void link_destroy(struct source *s) {
    struct link *l = container_of(s, struct link, conn.source);
    conn_fini(&l->conn);
    free(l->pending);
    free(l->staged);
    free(l);
}

/* When the target is given up unless it is heard of before; CLOCK_NEVER: it owes nothing. */
static uint64_t due_ns(const struct link *l) {
    const struct conn *c = &l->conn;
    if (c->dialling || c->greeting)
        return l->deadline_ns;
    if (l->head == l->tail)
        return CLOCK_NEVER;
    return clock_after(c->heard_ns, c->tcp->env->settings->dead_peer_ns);
}

void link_timer(struct link *l) {
    struct conn *c = &l->conn;
    struct tcp *t = c->tcp;
    char why[80];
    /* It may be we who were away: what has come meanwhile was not silence. */
    if (t->now_ns >= due_ns(l) && !c->dialling)
        conn_serve(c);
    if (c->closed)
        return;
    if (c->more) { /* nor is what there was no time for */
        timer_at(t, t->now_ns + NSEC_PER_MSEC);
        return;
    }
    if (t->now_ns < due_ns(l)) {
        timer_at(t, due_ns(l));
    } else if (c->dialling || c->greeting) {
        conn_lose(c, RDMAD_E_UNREACHABLE,
                  c->dialling ? "no connection in time" : "no welcome in time");
    } else {
        snprintf(why, sizeof why, "silent for %lu ms with %lu ops outstanding",
                 (unsigned long)((t->now_ns - c->heard_ns) / NSEC_PER_MSEC),
                 (unsigned long)(l->tail - l->head));
        conn_lose(c, RDMAD_E_PEER_LOST, why);
    }
}

/* ---- dialling ---------------------------------------------------------------------------- */

static void link_connected(struct conn *c) {
    struct link *l = link_of(c);
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size))
        error = errno;
    if (error) {
        conn_lose(c, RDMAD_E_UNREACHABLE, strerror(error));
        return;
    }
    uint8_t hello[HELLO_BYTES];
    hello_put(hello, l->token);
    ssize_t n = send(c->fd, hello, sizeof hello, MSG_DONTWAIT | MSG_NOSIGNAL);
    explicit_bzero(hello, sizeof hello);
    explicit_bzero(l->token, sizeof l->token);
    if (n != (ssize_t)sizeof hello) { /* an empty socket takes so little at once, or is broken */
        conn_lose(c, RDMAD_E_UNREACHABLE, n < 0 ? strerror(errno) : "it took no greeting");
        return;
    }
    c->dialling = false;
    if (conn_watch(c))
        conn_lose(c, RDMAD_E_SYSTEM, "epoll refuses it");
    else
        conn_heat(c);
}

static void link_welcomed(struct conn *c) {
    struct link *l = link_of(c);
    struct tcp *t = c->tcp;
    if (l->head != l->tail) {
        conn_wants_send(c);
        timer_at(t, clock_after(c->heard_ns, t->env->settings->dead_peer_ns));
    }
    t->env->link_up(t->env->user, l->cookie);
}

const struct role link_role = {
    .check = frame_check_answer,
    .frame = answer_frame,
    .begin = answer_begin,
    .rx_fault = answer_rx_fault,
    .end = answer_end,
    .tx_fault = link_tx_fault,
    .connected = link_connected,
    .welcomed = link_welcomed,
    .lost = link_lost,
};

/* A nonblocking socket on its way to host:port. */
static int dial(const struct fabric_settings *s, const char *host, uint16_t port,
                struct sockaddr_storage *address, int *out, struct error *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *at;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    int rc = getaddrinfo(host, service, &hints, &at);
    if (rc)
        return error_set(err, RDMAD_E_INVAL, "address \"%s\" of a data connection: %s", host,
                         gai_strerror(rc));
    *address = (struct sockaddr_storage){0};
    memcpy(address, at->ai_addr, at->ai_addrlen);
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    rc = fd < 0 ? RDMAD_E_SYSTEM : socket_prepare(fd, s);
    if (rc)
        error_errno(err, rc, "cannot make a data connection to %s port %u", host, port);
    else if (connect(fd, at->ai_addr, at->ai_addrlen) && errno != EINPROGRESS)
        rc = error_errno(err, RDMAD_E_UNREACHABLE, "data connection to %s port %u", host, port);
    freeaddrinfo(at);
    if (rc && fd >= 0)
        close(fd);
    *out = fd;
    return rc;
}

static struct pending *pending_ring(uint32_t max_inflight, uint32_t *mask) {
    uint32_t entries = 1;
    while (entries < max_inflight && entries < 1u << 20)
        entries *= 2;
    *mask = entries - 1;
    return calloc(entries, sizeof(struct pending));
}

int tcp_link_new(struct fabric *f, void *cookie, struct fabric_link **out,
                 struct fabric_blob *hello, struct error *err) {
    struct tcp *t = container_of(f, struct tcp, base);
    struct link *l = calloc(1, sizeof *l);
    if (l)
        l->pending = pending_ring(t->env->settings->max_inflight, &l->mask);
    if (!l || !l->pending) {
        free(l);
        return error_set(err, RDMAD_E_NOMEM, "no memory for a data connection");
    }
    l->base = (struct fabric_link){
        .fabric = f, .max_message = FRAME_MAX_PAYLOAD, .max_send = FRAME_MAX_LONG, .ordered = true};
    l->cookie = cookie;
    l->conn.tcp = t;
    l->conn.share = &l->share;
    l->conn.fd = -1;
    l->conn.closed = true;
    l->conn.source.destroy = link_destroy;
    list_init(&l->conn.source.grave);
    list_init(&l->doomed);
    hello->size = 0;
    *out = &l->base;
    return 0;
}

int tcp_link_open(struct fabric_link *fl, const char *host, const struct fabric_blob *offer,
                  struct error *err) {
    struct link *l = container_of(fl, struct link, base);
    struct tcp *t = l->conn.tcp;
    const struct fabric_settings *s = t->env->settings;
    uint16_t port;
    if (!offer_read(offer, &port, l->token, &fl->number))
        return error_set(err, RDMAD_E_PROTOCOL,
                         "the offer of a data connection by %s is not of this daemon's version of "
                         "the tcp fabric: run the same version of rdmad on both",
                         host);
    struct sockaddr_storage address;
    int fd = -1;
    int rc = dial(s, host, port, &address, &fd, err);
    if (rc)
        return rc;
    rc = conn_init(&l->conn, t, &link_role, fd, EPOLLOUT, &address);
    if (rc) {
        close(fd);
        l->conn.fd = -1;
        return error_set(err, rc, "no memory or descriptors for a data connection to %s", host);
    }
    l->conn.closed = false;
    l->conn.dialling = l->conn.greeting = true;
    l->deadline_ns = clock_after(t->env->now_ns(t->env->user), s->connect_timeout_ns);
    timer_at(t, l->deadline_ns);
    list_append(&t->links, &l->conn.node);
    return 0;
}
