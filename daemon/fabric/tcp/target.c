/* SPDX-License-Identifier: MIT */
/*
 * target.c - the serving end of a connection that a peer dialled.
 *
 * Every request gets exactly one answer, in the order of the requests. Writes that went well are
 * only counted; one ACK for all of them leaves with the next flush, or before any other answer. A
 * small read is copied into the send queue and is over; a large one queues a piece that points into
 * the window, and behind it a STATUS whose bytes can still be changed while the piece is unsent:
 * that is how a read which a revoke turned to zeros is reported as failed.
 *
 * A SEND is handed on from where it was received, and is over, with its user's word if it asks.
 * Many small ones cost more than their bytes tell, so each counts a minimum of its connection's
 * budget of a turn. Of a LONG the head is handed on first, and says where the payload goes; whether
 * that was a message its END tells, which is the next frame in any case. It is answered like a
 * SEND, whatever became of its landing.
 *
 * A request that is refused has its payload thrown away and its status sent; the connection lives.
 * A request that no engine of ours would send ends the connection.
 */
#include "daemon/fabric/tcp/target.h"
#include "daemon/base/guard.h"
#include "daemon/base/log.h"
#include <stdlib.h>
#include <sys/epoll.h>

static struct tcp_target *target_of(struct tcp_conn *c) {
    return container_of(c, struct tcp_target, conn);
}

static void memory_fault(struct tcp *t, const void *address) {
    t->env->memory_fault(t->env->user, address);
}

/* ---- answers ----------------------------------------------------------------------------- */

static void target_put(struct tcp_conn *c, const struct frame *f) {
    frame_put(outq_copy(&c->out, FRAME_BYTES), f);
    conn_wants_send(c);
}

static void put_acks(struct tcp_target *t) {
    if (t->acked == 0)
        return;
    target_put(&t->conn, &(struct frame){.type = FRAME_ACK, .op = t->ack_from, .length = t->acked});
    t->acked = 0;
}

/* Answers an op that has no data to send, or that failed before any was sent. */
static void target_answer(struct tcp_target *t, uint32_t op, int status, bool touched) {
    if (status == RDMAD_OK) {
        if (t->acked++ == 0)
            t->ack_from = op;
        conn_wants_send(&t->conn);
        return;
    }
    put_acks(t);
    target_put(&t->conn, &(struct frame){.type = FRAME_STATUS,
                                         .flags = touched ? FRAME_TOUCHED : 0,
                                         .op = op,
                                         .status = (int16_t)status});
}

static void answer_word(struct tcp_target *t, uint32_t op, uint64_t word) {
    put_acks(t);
    uint8_t *to = outq_copy(&t->conn.out, FRAME_BYTES + FRAME_WORD);
    frame_put(to, &(struct frame){
                      .type = FRAME_DATA, .flags = FRAME_FINAL, .op = op, .length = FRAME_WORD});
    word_put(to + FRAME_BYTES, word);
    conn_wants_send(&t->conn);
}

/* ---- serving ----------------------------------------------------------------------------- */

static void serve_small_read(struct tcp_target *t, const struct frame *f, struct tcp_window *w) {
    struct outq *q = &t->conn.out;
    struct frame data = {
        .type = FRAME_DATA, .flags = FRAME_FINAL, .op = f->op, .length = f->length};
    put_acks(t);
    uint8_t *to = outq_copy(q, FRAME_BYTES + f->length);
    uint8_t *from = (uint8_t *)w->spec.base + f->offset;
    const void *fault = f->length ? guard_copy(to + FRAME_BYTES, from, f->length) : NULL;
    if (fault) {
        memset(to + FRAME_BYTES, 0, f->length);
        data.flags = 0;
    }
    frame_put(to, &data);
    conn_wants_send(&t->conn);
    if (fault) {
        target_answer(t, f->op, RDMAD_E_FAULT, false);
        memory_fault(t->conn.tcp, fault);
    }
}

static void serve_large_read(struct tcp_target *t, const struct frame *f, struct tcp_window *w) {
    struct outq *q = &t->conn.out;
    put_acks(t);
    target_put(&t->conn, &(struct frame){.type = FRAME_DATA, .op = f->op, .length = f->length});
    struct piece *p = outq_refer(q, (uint8_t *)w->spec.base + f->offset, f->length, f->op, w);
    w->queued++;
    p->trailer = outq_copy(q, FRAME_BYTES);
    frame_put(p->trailer, &(struct frame){.type = FRAME_STATUS, .op = f->op, .status = RDMAD_OK});
}

/* The window that the frame may use, which has counted it. NULL: it may not, and that was answered.
 */
static struct tcp_window *window_for(struct tcp_target *t, const struct frame *f) {
    int status;
    struct tcp_window *w = window_check(t->conn.tcp, t->peer, t->number, f, &status);
    if (w)
        window_count(t->conn.tcp, w, f);
    else
        target_answer(t, f->op, status, false);
    return w;
}

static void serve_read(struct tcp_target *t, const struct frame *f) {
    struct tcp_window *w = window_for(t, f);
    if (!w)
        return;
    if (f->length <= TCP_SMALL)
        serve_small_read(t, f, w);
    else
        serve_large_read(t, f, w);
}

static void serve_small_write(struct tcp_target *t, const struct frame *f, const uint8_t *payload) {
    struct tcp_window *w = window_for(t, f);
    if (!w)
        return;
    uint8_t *to = (uint8_t *)w->spec.base + f->offset;
    const void *fault = f->length ? guard_copy(to, payload, f->length) : NULL;
    target_answer(t, f->op, fault ? RDMAD_E_FAULT : RDMAD_OK, true);
    if (fault)
        memory_fault(t->conn.tcp, fault);
}

static void serve_atomic(struct tcp_target *t, const struct frame *f, const uint8_t *payload) {
    struct tcp_window *w = window_for(t, f);
    if (!w)
        return;
    uint64_t *word = (void *)((uint8_t *)w->spec.base + f->offset);
    uint64_t was = 0;
    const void *fault = f->type == FRAME_FADD ? guard_add(word, word_get(payload), &was)
                                              : guard_cas(word, word_get(payload),
                                                          word_get(payload + FRAME_WORD), &was);
    if (fault) {
        target_answer(t, f->op, RDMAD_E_FAULT, false);
        memory_fault(t->conn.tcp, fault);
        return;
    }
    answer_word(t, f->op, was);
}

static void serve_send(struct tcp_target *t, const struct frame *f, const uint8_t *payload) {
    const struct fabric_env *env = t->conn.tcp->env;
    if (f->length < TCP_SEND_COST)
        t->conn.cost += TCP_SEND_COST - f->length;
    uint64_t word = 0;
    if (env->received)
        word = env->received(env->user, t->peer, t->number, payload, f->length);
    if (t->conn.closed) /* by what it led to */
        return;
    if (env->received && f->flags & FRAME_ASKS)
        answer_word(t, f->op, word);
    else
        target_answer(t, f->op, env->received ? RDMAD_OK : RDMAD_E_UNSUPPORTED, false);
}

/* The landing is over: its memory is not touched again. */
static void landed(struct tcp_target *t, int status) {
    const struct fabric_env *env = t->conn.tcp->env;
    struct fabric_landing *to = t->rx.landing;
    t->rx.landing = NULL;
    if (!to)
        return;
    t->conn.rx.dest = NULL;
    env->landed(env->user, to, status);
}

/* Where a LONG's payload goes, if anywhere. */
static void land(struct tcp_target *t, const struct frame *f, const uint8_t *head) {
    const struct fabric_env *env = t->conn.tcp->env;
    t->rx.landing = NULL;
    t->rx.ending = false;
    t->rx.status = env->landing ? RDMAD_OK : RDMAD_E_UNSUPPORTED;
    struct fabric_landing *to = env->landing ? env->landing(env->user, t->peer, t->number, head,
                                                            f->slot, f->length - f->slot)
                                             : NULL;
    t->conn.cost += TCP_SEND_COST;
    t->rx.landing = to;
    if (t->conn.closed) { /* by what it led to */
        landed(t, RDMAD_E_PEER_LOST);
    } else if (to) {
        to->home = t;
        t->conn.rx.dest = to->base;
    }
}

void tcp_abandon(struct fabric_landing *to) {
    struct tcp_target *t = to->home;
    t->rx.landing = NULL;
    t->conn.rx.dest = NULL;
}

static const char *serve_end(struct tcp_target *t, const struct frame *f) {
    if (!t->rx.ending || f->op != t->rx.op)
        return "the end of no message";
    t->rx.ending = false;
    landed(t, f->flags & FRAME_WHOLE ? RDMAD_OK : RDMAD_E_PEER_LOST);
    if (!t->conn.closed)
        target_answer(t, f->op, t->rx.status, false);
    return NULL;
}

/* Whether f is the next request. */
static const char *out_of_order(struct tcp_target *t, const struct frame *f) {
    if (t->rx.ending)
        return "a request before the end of a message";
    return f->op != t->next_op++ ? "a request out of order" : NULL;
}

static const char *target_frame(struct tcp_conn *c, const struct frame *f, const uint8_t *payload) {
    struct tcp_target *t = target_of(c);
    if (f->type == FRAME_END)
        return serve_end(t, f);
    const char *wrong = out_of_order(t, f);
    if (wrong)
        return wrong;
    c->cost += TCP_FRAME_COST;
    c->asked_bytes += f->type == FRAME_READ ? f->length : 0;
    if (f->type == FRAME_READ)
        serve_read(t, f);
    else if (f->type == FRAME_WRITE)
        serve_small_write(t, f, payload);
    else if (f->type == FRAME_SEND)
        serve_send(t, f, payload);
    else if (frame_is_atomic(f->type))
        serve_atomic(t, f, payload);
    else
        target_answer(t, f->op, RDMAD_OK, false);
    return NULL;
}

static const char *target_begin(struct tcp_conn *c, const struct frame *f, const uint8_t *head) {
    struct tcp_target *t = target_of(c);
    const char *wrong = out_of_order(t, f);
    if (wrong)
        return wrong;
    t->rx.op = f->op;
    t->rx.type = f->type;
    t->rx.window = NULL;
    if (f->type == FRAME_LONG) {
        land(t, f, head);
        return NULL;
    }
    t->rx.status = RDMAD_OK;
    t->rx.touched = false;
    if (f->type == FRAME_WRITE)
        t->rx.window = window_check(c->tcp, t->peer, t->number, f, &t->rx.status);
    if (t->rx.window) {
        window_count(c->tcp, t->rx.window, f);
        c->rx.dest = (uint8_t *)t->rx.window->spec.base + f->offset;
        t->rx.touched = true;
    }
    return NULL;
}

/* What is still to come of the payload goes nowhere, and the op fails. */
static void cut_write(struct tcp_target *t, int status) {
    t->conn.rx.dest = NULL;
    t->rx.window = NULL;
    t->rx.status = status;
}

static void target_recheck(struct tcp_conn *c) {
    struct tcp_target *t = target_of(c);
    if (t->rx.window && tcp_look_at_clock(c->tcp) >= t->rx.window->spec.deadline_ns)
        cut_write(t, RDMAD_E_LEASE_EXPIRED);
}

static void target_rx_fault(struct tcp_conn *c, const void *address) {
    if (target_of(c)->rx.type == FRAME_LONG)
        landed(target_of(c), RDMAD_E_FAULT);
    else
        cut_write(target_of(c), RDMAD_E_FAULT);
    memory_fault(c->tcp, address);
}

static void target_end(struct tcp_conn *c) {
    struct tcp_target *t = target_of(c);
    t->rx.window = NULL;
    c->rx.dest = NULL;
    if (t->rx.type == FRAME_LONG)
        t->rx.ending = true;
    else
        target_answer(t, t->rx.op, t->rx.status, t->rx.touched);
}

/* ---- letting go -------------------------------------------------------------------------- */

static void piece_released(struct piece *p) {
    ((struct tcp_window *)p->owner)->queued--;
}

/* What is unsent of a read becomes zeros, and its status says so. */
static void cut_read(struct tcp_target *t, struct piece *p, int status) {
    frame_put(
        p->trailer,
        &(struct frame){.type = FRAME_STATUS, .op = (uint32_t)p->op, .status = (int16_t)status});
    outq_repoint(&t->conn.out, p, t->conn.tcp->zeros);
}

static void target_let_go(struct tcp_target *t, struct tcp_window *w, int reason) {
    if (t->rx.window == w)
        cut_write(t, reason);
    struct piece *p;
    for (uint32_t i = t->conn.out.first;
         w->queued > 0 && (p = outq_next_foreign(&t->conn.out, &i));)
        if (p->owner == w)
            cut_read(t, p, reason);
}

/* window_check lets nobody else's use it. */
void targets_let_go(struct tcp *t, struct tcp_window *w, int reason) {
    const struct tcp_share *s = share_find(&t->shares, w->spec.peer);
    if (!s)
        return;
    list_for_each (pos, &s->targets)
        target_let_go(list_entry(pos, struct tcp_target, mates), w, reason);
}

static void target_before_send(struct tcp_conn *c) {
    struct tcp_target *t = target_of(c);
    put_acks(t);
    uint32_t i = c->out.first;
    struct piece *p = outq_next_foreign(&c->out, &i);
    uint64_t now_ns = p ? tcp_look_at_clock(c->tcp) : 0;
    for (; p; p = outq_next_foreign(&c->out, &i))
        if (now_ns >= ((struct tcp_window *)p->owner)->spec.deadline_ns)
            cut_read(t, p, RDMAD_E_LEASE_EXPIRED);
}

static void target_tx_fault(struct tcp_conn *c, struct piece *p) {
    const void *address = p->base;
    cut_read(target_of(c), p, RDMAD_E_FAULT);
    memory_fault(c->tcp, address);
}

/* ---- coming and going -------------------------------------------------------------------- */

void target_shut(struct tcp_target *t) {
    struct tcp *tcp = t->conn.tcp;
    conn_shut(&t->conn);
    list_remove(&t->mates);
    tcp->accepted--;
    tcp->encrypted -= t->conn.secure != NULL;
    source_end(tcp, &t->conn.source);
    landed(t, RDMAD_E_PEER_LOST);
}

/* The share stays until the last of them is destroyed, by the next poll. */
void targets_shut(struct tcp *t, uint64_t peer) {
    struct tcp_share *s = share_find(&t->shares, peer);
    struct list *node;
    while (s && (node = list_first(&s->targets)))
        target_shut(list_entry(node, struct tcp_target, mates));
}

static void target_lost(struct tcp_conn *c, const struct error *why) {
    if (why->code == RDMAD_E_PROTOCOL)
        LOG_LIMITED_OF(log_of_connection(target_of(c)->peer), WARNING, ("%s", why->text),
                       FIELD_U64("PEER", target_of(c)->peer));
    target_shut(target_of(c));
}

static void target_destroy(struct source *s) {
    struct tcp_conn *c = container_of(s, struct tcp_conn, source);
    conn_fini(c);
    share_leave(c->share);
    free(target_of(c));
}

static const struct role target_role = {
    .check = frame_check_request,
    .frame = target_frame,
    .begin = target_begin,
    .recheck = target_recheck,
    .rx_fault = target_rx_fault,
    .end = target_end,
    .before_send = target_before_send,
    .tx_fault = target_tx_fault,
    .lost = target_lost,
    .answers = true,
};

int target_create(struct tcp *tcp, int fd, uint64_t peer, uint64_t number,
                  const struct sockaddr_storage *address, struct secure *secure) {
    struct tcp_target *t = calloc(1, sizeof *t);
    struct tcp_share *share = t ? share_join(&tcp->shares, peer) : NULL;
    if (!share) {
        secure_free(secure);
        free(t);
        return RDMAD_E_NOMEM;
    }
    t->conn.share = share;
    t->conn.secure = secure;
    int rc = conn_init(&t->conn, tcp, &target_role, fd, EPOLLIN, address);
    if (rc) {
        share_leave(share);
        conn_fini(&t->conn);
        free(t);
        return rc;
    }
    t->conn.source.destroy = target_destroy;
    t->conn.out.released = piece_released;
    t->peer = peer;
    t->number = number;
    list_append(&tcp->targets, &t->conn.node);
    list_append(&share->targets, &t->mates);
    tcp->accepted++;
    tcp->encrypted += secure != NULL;
    welcome_put(outq_copy(&t->conn.out, WELCOME_BYTES));
    conn_wants_send(&t->conn);
    conn_heat(&t->conn);
    t->conn.more = secure != NULL; /* what came with the handshake is in a buffer of ours */
    return 0;
}

struct tcp_target *target_find(const struct tcp *tcp, uint64_t peer, uint64_t number) {
    const struct tcp_share *s = share_find(&tcp->shares, peer);
    if (!s)
        return NULL;
    list_for_each (pos, &s->targets) {
        struct tcp_target *t = list_entry(pos, struct tcp_target, mates);
        if (t->number == number)
            return t;
    }
    return NULL;
}
