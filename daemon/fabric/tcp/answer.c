/* SPDX-License-Identifier: MIT */
/*
 * answer.c - what a link hears from its target, and the ops that it completes.
 *
 * Answers come in the order of the requests, so each is about the oldest unanswered one, or with an
 * ACK about the oldest few. Two things are checked before anything is believed: that the answer
 * fits that request, and that the request was sent at all. Without the second a hostile target
 * could complete an op whose memory still waits in our send queue. An answer that does not fit
 * loses the link.
 */
#include "daemon/fabric/tcp/answer.h"
#include "daemon/base/guard.h"
#include "daemon/fabric/tcp/link.h"

/* The oldest request, if f may be its answer. */
static const char *pending_oldest(struct tcp_link *l, const struct frame *f, struct pending **out) {
    if (l->head == l->tail)
        return "an answer to nothing";
    if (f->op != (uint32_t)l->head)
        return "an answer out of order";
    struct pending *p = &l->pending[l->head & l->mask];
    if (l->conn.out.sent < p->ends)
        return "an answer before the request";
    *out = p;
    return NULL;
}

/* The oldest request is answered. */
static void answer_finish(struct tcp_link *l, struct pending *p, int status, uint8_t outcome) {
    struct fabric_op *op = p->op;
    p->op = NULL;
    l->head++;
    l->answering = l->touched = false;
    if (op)
        op_complete(l->conn.tcp, op, status, outcome);
}

static const char *take_ack(struct tcp_link *l, const struct frame *f) {
    if (f->length > l->tail - l->head)
        return "an acknowledgement of more than was asked";
    struct frame one = *f;
    for (uint32_t i = 0; i < f->length && !l->conn.closed; i++, one.op++) {
        struct pending *p;
        const char *wrong = pending_oldest(l, &one, &p);
        if (wrong)
            return wrong;
        if (p->type == FRAME_READ || p->word)
            return "a request for data acknowledged without any";
        answer_finish(l, p, RDMAD_OK, RDMAD_DONE);
    }
    return NULL;
}

static const char *take_status(struct tcp_link *l, const struct frame *f) {
    struct pending *p;
    const char *wrong = pending_oldest(l, f, &p);
    if (wrong)
        return wrong;
    if (f->status == RDMAD_OK) {
        if (!l->answering)
            return "a success without data or acknowledgement";
        answer_finish(l, p, RDMAD_OK, RDMAD_DONE);
        return NULL;
    }
    bool touched =
        p->type == FRAME_READ ? l->touched : p->type == FRAME_WRITE && (f->flags & FRAME_TOUCHED);
    answer_finish(l, p, f->status, touched ? RDMAD_FAILED_PARTIAL : RDMAD_FAILED_UNTOUCHED);
    return NULL;
}

static const char *data_check(struct tcp_link *l, const struct frame *f, struct pending **out) {
    const char *wrong = pending_oldest(l, f, out);
    if (wrong)
        return wrong;
    bool word = (*out)->word;
    if (l->answering || ((*out)->type != FRAME_READ && !word))
        return "data that nobody asked for";
    if (f->length != (word ? FRAME_WORD : (*out)->length))
        return "data of another length than was asked";
    if (word && !(f->flags & FRAME_FINAL))
        return "a word for an answer that is not final";
    return NULL;
}

/* The memory of the oldest READ is gone: it fails now, the rest of its answer goes nowhere. */
static void oldest_faulted(struct tcp_link *l, const void *address) {
    struct tcp *t = l->conn.tcp;
    struct pending *p = &l->pending[l->head & l->mask];
    struct fabric_op *op = p->op;
    p->op = NULL;
    op->fault = address;
    op_complete(t, op, RDMAD_E_FAULT, RDMAD_FAILED_PARTIAL);
    t->env->memory_fault(t->env->user, address);
}

static const char *take_data(struct tcp_link *l, const struct frame *f, const uint8_t *payload) {
    struct pending *p;
    const char *wrong = data_check(l, f, &p);
    if (wrong)
        return wrong;
    bool final = (f->flags & FRAME_FINAL) != 0;
    l->answering = true;
    if (p->op && p->word) {
        p->op->value = word_get(payload);
    } else if (p->op && f->length) {
        const void *fault = guard_copy(p->op->local, payload, f->length);
        l->touched = true;
        if (fault)
            oldest_faulted(l, fault);
    }
    if (final && !l->conn.closed)
        answer_finish(l, p, RDMAD_OK, RDMAD_DONE);
    return NULL;
}

const char *answer_frame(struct tcp_conn *c, const struct frame *f, const uint8_t *payload) {
    struct tcp_link *l = link_of_conn(c);
    if (f->type == FRAME_ACK)
        return take_ack(l, f);
    if (f->type == FRAME_STATUS)
        return take_status(l, f);
    return take_data(l, f, payload);
}

const char *answer_begin(struct tcp_conn *c, const struct frame *f, const uint8_t *head) {
    struct tcp_link *l = link_of_conn(c);
    struct pending *p;
    (void)head;
    const char *wrong = data_check(l, f, &p);
    if (wrong)
        return wrong;
    l->answering = true;
    l->final = (f->flags & FRAME_FINAL) != 0;
    c->rx.dest = p->op ? p->op->local : NULL;
    l->touched = p->op != NULL;
    return NULL;
}

void answer_rx_fault(struct tcp_conn *c, const void *address) {
    oldest_faulted(link_of_conn(c), address);
}

void answer_end(struct tcp_conn *c) {
    struct tcp_link *l = link_of_conn(c);
    c->rx.dest = NULL;
    if (l->final)
        answer_finish(l, &l->pending[l->head & l->mask], RDMAD_OK, RDMAD_DONE);
}
