/* SPDX-License-Identifier: MIT */
/*
 * trace.c - see trace.h.
 */
#include "daemon/op/engine/trace.h"
#include "daemon/op/engine/account.h"
#include "daemon/op/engine/leads.h"
#include <stdio.h>
#include <string.h>

void trace_add(struct worker *w, struct op_trace *t) {
    t->next = w->traces;
    w->traces = t;
}

void trace_remove(struct worker *w, struct op_trace *t) {
    struct op_trace **at = &w->traces;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
}

/* ---- which ops are wanted ------------------------------------------------------------------- */

static bool wants(const struct plane_trace_filter *f, const struct op_session *s, uint8_t opcode) {
    if (f->session && f->session != s->id)
        return false;
    if (f->of_uid && f->user.uid != s->account->who.uid)
        return false;
    if (f->of_user && !user_id_same(f->user, s->account->who))
        return false;
    return !f->opcodes || (opcode < RDMAD_OP_COUNT && f->opcodes >> opcode & 1);
}

static bool wants_way(const struct plane_trace_filter *f, const struct op_lane *lane) {
    if (f->peer && (!lane || lane->peer != f->peer))
        return false;
    return !f->node[0] || (lane && !strcmp(lane->node, f->node));
}

/* ---- notes ---------------------------------------------------------------------------------- */

static void notes_settle(struct op_trace *t, uint64_t now_ns) {
    for (unsigned i = 0; i < t->count; i++) {
        struct plane_traced *note = &t->notes[i];
        uint64_t span_ns = clock_left(note->span_ns, now_ns);
        if (t->filter.slower_ns && span_ns <= t->filter.slower_ns)
            continue;
        note->at_ns = now_ns;
        note->span_ns = span_ns;
        trace_ring_put(&t->ring, note);
    }
    t->count = 0;
}

void trace_settle(struct worker *w, uint64_t now_ns) {
    for (struct op_trace *t = w->traces; t; t = t->next)
        notes_settle(t, now_ns);
}

static struct plane_traced *next_note(struct worker *w, struct op_trace *t) {
    if (t->count == TRACE_NOTES) /* one look at the clock for all of them */
        notes_settle(t, w->now_ticks ? clock_now_ns() : w->now_ns);
    return &t->notes[t->count++];
}

static struct plane_traced record_of(const struct op *op, const struct op_lane *lane) {
    struct plane_traced r = {.span_ns = op->since_ns,
                             .session = op->session->id,
                             .peer = lane ? lane->peer : 0,
                             .user_data = op->tag.user_data,
                             .bytes = op->length,
                             .lease = op->lease ? op->lease->lease_id : 0,
                             .user = op->session->account->who,
                             .opcode = op->opcode,
                             .route = lane || op->far ? PLANE_LINK : PLANE_LOCAL};
    if (lane)
        memcpy(r.node, lane->node, sizeof(r.node));
    if (op->opcode == RDMAD_OP_NOTIFIED)
        r.route = PLANE_ROUTES;
    return r;
}

/* Its end comes behind it, by way of a note. */
void trace_began(struct worker *w, const struct op *op, const struct rdmad_sqe *sqe) {
    const struct op_lane *lane = leads_sqe(w, op->session, sqe);
    for (struct op_trace *t = w->traces; t; t = t->next) {
        const struct plane_trace_filter *f = &t->filter;
        if (!f->begun || f->failed || f->slower_ns || !wants(f, op->session, op->opcode) ||
            !wants_way(f, lane))
            continue;
        struct plane_traced record = record_of(op, lane);
        if (!op->lease && !lane)
            record.route = PLANE_ROUTES;
        record.at_ns = w->now_ns;
        record.span_ns = 0;
        record.begun = true;
        trace_ring_put(&t->ring, &record);
    }
}

void trace_ended(struct worker *w, const struct op *op, const struct op_result *result) {
    const struct op_lane *lane = leads_op(op);
    for (struct op_trace *t = w->traces; t; t = t->next) {
        const struct plane_trace_filter *f = &t->filter;
        if ((f->failed && !result->status) || !wants(f, op->session, op->opcode) ||
            !wants_way(f, lane))
            continue;
        struct plane_traced *note = next_note(w, t);
        *note = record_of(op, lane);
        note->status = result->status;
        note->outcome = result->outcome;
        if (op->opcode == RDMAD_OP_RECV)
            note->bytes = result->bytes;
    }
}

void trace_answered(struct worker *w, const struct op_session *s, const struct rdmad_sqe *sqe,
                    const struct op_request *rq, const struct op_result *result) {
    const uint64_t lease = result->status == RDMAD_E_LIMIT ? 0 : result->info;
    const uint64_t since_ns = request_since(w, rq);
    const struct op_lane *lane = leads_sqe(w, s, sqe);
    for (struct op_trace *t = w->traces; t; t = t->next) {
        const struct plane_trace_filter *f = &t->filter;
        if ((f->failed && !result->status) || !wants(f, s, sqe->opcode) || !wants_way(f, lane))
            continue;
        struct plane_traced *note = next_note(w, t);
        *note = (struct plane_traced){.span_ns = since_ns,
                                      .session = s->id,
                                      .peer = lane ? lane->peer : 0,
                                      .user_data = sqe->user_data,
                                      .bytes = sqe->length,
                                      .lease = lease,
                                      .user = s->account->who,
                                      .status = result->status,
                                      .opcode = sqe->opcode,
                                      .outcome = result->outcome,
                                      .route = PLANE_ROUTES};
        if (lane)
            memcpy(note->node, lane->node, sizeof(note->node));
    }
}
