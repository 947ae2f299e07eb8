/* SPDX-License-Identifier: MIT */
/*
 * tally.c - notes of what ended in a turn, and what comes of them.
 */
#include "daemon/op/engine/tally.h"
#include "daemon/op/engine/leads.h"
#include <string.h>

static bool is_alike(const struct latency_note *a, const struct latency_note *b) {
    return a->since_ns == b->since_ns && a->session == b->session && a->lane == b->lane &&
           a->opcode == b->opcode && a->route == b->route;
}

static unsigned code_of(int status) {
    return (unsigned)-status < PLANE_CODES ? (unsigned)-status : 0;
}

static void count_lane(struct op_lane *lane, const struct op *op, const struct op_result *result) {
    struct plane_lane_stats *stats = &lane->stats;
    counter_add(&stats->ops, 1);
    if (op->opcode == RDMAD_OP_READ)
        counter_add(&stats->bytes_read, result->bytes);
    else if (op->opcode == RDMAD_OP_WRITE || op->opcode == RDMAD_OP_NOTIFY)
        counter_add(&stats->bytes_written, result->bytes);
    if (result->status) {
        counter_add(&stats->ops_failed, 1);
        counter_add(&stats->failed[code_of(result->status)], 1);
    }
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

/* ---- what failed ---------------------------------------------------------------------------- */

/* Whoever reads it sees a count that says so, too: that the one before is over, at least. */
static void failures_put(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void deliver_failed(struct mail *mail) {
    struct op_session *s = container_of(mail, struct op_session, failed_mail);
    const struct plane_events *events = s->worker->events;
    (void)__atomic_exchange_n(&s->failed_posted, false, __ATOMIC_ACQ_REL);
    if (events->session_failed)
        events->session_failed(events->user, s->cookie);
}

/* One exchange here and one in tally_hear_failures: whichever is the second sees what came before
 * the first. The control thread may look while the mail is still under way; then that mail tells of
 * what fails from then on, too. */
static void tell_failed(struct op_session *s) {
    if (!__atomic_exchange_n(&s->failed_told, true, __ATOMIC_ACQ_REL) &&
        !__atomic_exchange_n(&s->failed_posted, true, __ATOMIC_ACQ_REL))
        mailbox_post(s->worker->control, &s->failed_mail, deliver_failed);
}

void tally_hear_failures(struct op_session *s) {
    (void)__atomic_exchange_n(&s->failed_told, false, __ATOMIC_ACQ_REL);
}

/* Who ends its own op, or itself, need not be told why. */
static void failure_remember(struct op_session *s, const struct plane_failure *f, unsigned code) {
    if (f->status == RDMAD_E_CANCELED || f->opcode == RDMAD_OP_CANCEL)
        return;
    struct op_failure *to = &s->failures[s->nfailures % PLANE_FAILURES];
    failures_put(&to->at_ns, f->at_ns);
    failures_put(&to->user_data, f->user_data);
    failures_put(&to->length, f->length);
    failures_put(&to->bytes, f->bytes);
    failures_put(&to->lease, f->lease);
    failures_put(&to->offset, f->offset);
    failures_put(&to->nth, s->failed[code] + 1);
    failures_put(&to->peer, f->peer);
    _Static_assert(sizeof(to->node) == sizeof(f->node), "a name in words");
    for (unsigned i = 0; i < sizeof(to->node) / sizeof(to->node[0]); i++) {
        uint64_t word;
        memcpy(&word, f->node + i * sizeof(word), sizeof(word));
        failures_put(&to->node[i], word);
    }
    failures_put(&to->what, (uint64_t)(uint32_t)-f->status << 32 | (uint64_t)f->opcode << 16 |
                                (uint64_t)f->outcome << 8 | f->route);
    __atomic_store_n(&s->nfailures, s->nfailures + 1, __ATOMIC_RELEASE);
    failures_put(&s->failed[code], s->failed[code] + 1); /* what is counted is there to be read */
    tell_failed(s);
}

/* What was written over while it was read is left out: the oldest may be. */
unsigned tally_failures_read(const struct op_session *s, struct plane_failure out[PLANE_FAILURES]) {
    uint64_t end = __atomic_load_n(&s->nfailures, __ATOMIC_ACQUIRE);
    uint64_t first = end > PLANE_FAILURES ? end - PLANE_FAILURES : 0;
    for (uint64_t i = first; i < end; i++) {
        const struct op_failure *f = &s->failures[i % PLANE_FAILURES];
        uint64_t what = __atomic_load_n(&f->what, __ATOMIC_ACQUIRE);
        out[i - first] =
            (struct plane_failure){.at_ns = __atomic_load_n(&f->at_ns, __ATOMIC_ACQUIRE),
                                   .user_data = __atomic_load_n(&f->user_data, __ATOMIC_ACQUIRE),
                                   .length = __atomic_load_n(&f->length, __ATOMIC_ACQUIRE),
                                   .bytes = __atomic_load_n(&f->bytes, __ATOMIC_ACQUIRE),
                                   .lease = __atomic_load_n(&f->lease, __ATOMIC_ACQUIRE),
                                   .offset = __atomic_load_n(&f->offset, __ATOMIC_ACQUIRE),
                                   .nth = __atomic_load_n(&f->nth, __ATOMIC_ACQUIRE),
                                   .peer = __atomic_load_n(&f->peer, __ATOMIC_ACQUIRE),
                                   .status = -(int)(what >> 32),
                                   .opcode = (uint8_t)(what >> 16),
                                   .outcome = (uint8_t)(what >> 8),
                                   .route = (uint8_t)what};
        for (unsigned n = 0; n < sizeof(f->node) / sizeof(f->node[0]); n++) {
            uint64_t word = __atomic_load_n(&f->node[n], __ATOMIC_ACQUIRE);
            memcpy(out[i - first].node + n * sizeof(word), &word, sizeof(word));
        }
    }
    uint64_t now = __atomic_load_n(&s->nfailures, __ATOMIC_ACQUIRE);
    uint64_t good = now + 1 > PLANE_FAILURES ? now + 1 - PLANE_FAILURES : 0;
    unsigned lost = good > first ? (unsigned)(good > end ? end - first : good - first) : 0;
    for (uint64_t i = first + lost; i < end; i++)
        out[i - first - lost] = out[i - first];
    return (unsigned)(end - first) - lost;
}

/* leads: to which peer it did, or would; NULL: to none. */
static void tally_failed(struct worker *w, struct op_session *s, struct plane_failure *f,
                         const struct op_lane *leads) {
    unsigned code = code_of(f->status);
    if (leads) {
        f->peer = leads->peer;
        memcpy(f->node, leads->node, sizeof(f->node));
    }
    counter_add(&s->stats.ops_failed, 1);
    counter_add(&s->tally.failed[code], 1);
    counter_add(&w->counters.ops_failed, 1);
    counter_add(&w->latency.failed[code], 1);
    failure_remember(s, f, code);
}

void tally_refused(struct worker *w, struct op_session *s, const struct rdmad_sqe *sqe, int status,
                   uint64_t lease_id) {
    struct plane_failure f = {.at_ns = w->now_ns,
                              .user_data = sqe->user_data,
                              .length = sqe->length,
                              .lease = status == RDMAD_E_LIMIT ? 0 : lease_id,
                              .offset = sqe->lease_offset,
                              .status = status,
                              .opcode = sqe->opcode,
                              .outcome = RDMAD_FAILED_UNTOUCHED,
                              .route = PLANE_ROUTES}; /* it has not come as far */
    tally_failed(w, s, &f, leads_sqe(w, s, sqe));
}

/* ---- how an op ended --------------------------------------------------------------------------
 */

void tally_op(struct worker *w, const struct op *op, const struct op_result *result) {
    struct op_lane *lane = op_lane_of(op);
    if (lane)
        count_lane(lane, op, result);
    if (!result->status) {
        if (op->charged) /* it waited for nobody else */
            note_done(w, op, lane);
        return;
    }
    struct plane_failure f = {.at_ns = w->now_ns,
                              .user_data = op->tag.user_data,
                              .length = op->length,
                              .bytes = result->bytes,
                              .lease = op->lease ? op->lease->lease_id : 0,
                              .offset = op->lease_offset,
                              .status = result->status,
                              .opcode = op->opcode,
                              .outcome = result->outcome,
                              .route = lane || op->far ? PLANE_LINK : PLANE_LOCAL};
    tally_failed(w, op->session, &f, leads_op(op));
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
