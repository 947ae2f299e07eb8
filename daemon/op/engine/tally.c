/* SPDX-License-Identifier: MIT */
/*
 * tally.c - notes of what ended in a turn, and what comes of them.
 */
#include "daemon/op/engine/tally.h"

/* The lane that its bytes go by; NULL: none, or it was dropped. Its own route may be gone. */
static struct op_lane *lane_of_op(const struct op *op) {
    struct op_route *route = op->lease ? op->lease->route : NULL;
    return route && !route->local ? container_of(route, struct op_lane, route) : NULL;
}

static bool is_alike(const struct latency_note *a, const struct latency_note *b) {
    return a->since_ns == b->since_ns && a->session == b->session && a->lane == b->lane &&
           a->opcode == b->opcode && a->route == b->route;
}

static void count_lane(struct op_lane *lane, const struct op *op, const struct op_result *result) {
    struct plane_lane_stats *stats = &lane->stats;
    counter_add(&stats->ops, 1);
    if (op->opcode == RDMAD_OP_READ)
        counter_add(&stats->bytes_read, result->bytes);
    else if (op->opcode == RDMAD_OP_WRITE || op->opcode == RDMAD_OP_NOTIFY)
        counter_add(&stats->bytes_written, result->bytes);
    if (result->status)
        counter_add(&stats->ops_failed, 1);
}

static void note_done(struct worker *w, const struct op *op, struct op_lane *lane) {
    struct latency *l = &w->latency;
    const struct latency_note note = {.since_ns = op->since_ns,
                                      .session = op->session,
                                      .lane = lane,
                                      .count = 1,
                                      .opcode = op->opcode,
                                      .route = lane || op->far ? PLANE_LINK : PLANE_LOCAL};
    struct latency_note *last = &l->notes[l->count - (l->count > 0)];
    if (l->count && is_alike(last, &note)) {
        last->count++;
        return;
    }
    if (l->count == LATENCY_NOTES) /* one look at the clock for all of them */
        tally_settle(w, w->now_ticks ? clock_now_ns() : w->now_ns);
    l->notes[l->count++] = note;
}

void tally_op(struct worker *w, const struct op *op, const struct op_result *result) {
    struct op_lane *lane = lane_of_op(op);
    if (lane)
        count_lane(lane, op, result);
    if (result->status)
        tally_failed(w, op->session, result->status);
    else if (op->charged) /* it waited for nobody else */
        note_done(w, op, lane);
}

void tally_failed(struct worker *w, struct op_session *s, int status) {
    unsigned code = (unsigned)-status < PLANE_CODES ? (unsigned)-status : 0;
    counter_add(&s->stats.ops_failed, 1);
    counter_add(&s->tally.failed[code], 1);
    counter_add(&w->counters.ops_failed, 1);
    counter_add(&w->latency.failed[code], 1);
}

void tally_settle(struct worker *w, uint64_t now_ns) {
    struct latency *l = &w->latency;
    for (unsigned i = 0; i < l->count; i++) {
        const struct latency_note *n = &l->notes[i];
        uint64_t span_ns = clock_left(n->since_ns, now_ns);
        histogram_add(&l->spans[n->opcode][n->route], span_ns, n->count);
        histogram_add(&n->session->tally.latency, span_ns, n->count);
        if (n->lane)
            histogram_add(&n->lane->stats.latency, span_ns, n->count);
    }
    l->count = 0;
}
