/* SPDX-License-Identifier: MIT */
/*
 * traces.c - who traces: told to each worker by a mail, and taken away by another.
 *
 * Each worker's part (op_trace) is the worker's from its first mail to its last, but for the ring,
 * of which the control thread is the reader. The last mail comes back, and the control thread frees
 * the part: that may unmap, which a worker must not wait for (tool/slab.h). So a trace can end at
 * any time, and nobody waits for that, not even a plane that stops: its workers read their mail
 * before they end, and what they send back is read after them.
 */
#include "daemon/op/engine/trace.h"
#include "daemon/op/seam/objects.h"
#include <stdlib.h>

/* Of all workers together, and of one at least. */
#define TRACE_RECORDS 8192u
#define TRACE_RECORDS_MIN 256u

static uint32_t records_of_each(unsigned workers) {
    uint32_t records = TRACE_RECORDS_MIN;
    while (2 * records * workers <= TRACE_RECORDS)
        records *= 2;
    return records;
}

static void free_part(struct op_trace *part) {
    trace_ring_fini(&part->ring);
    free(part);
}

/* On the control thread, when the worker has let go of it. */
static void free_ended_part(struct mail *mail) {
    free_part(container_of(mail, struct op_trace, end_mail));
}

static struct op_trace *make_part(struct worker *w, unsigned workers,
                                  const struct plane_trace_filter *filter) {
    struct op_trace *part = calloc(1, sizeof(*part));
    if (!part || !trace_ring_init(&part->ring, records_of_each(workers))) {
        free(part);
        return NULL;
    }
    part->worker = w;
    part->filter = *filter;
    return part;
}

/* ---- on the worker ------------------------------------------------------------------------- */

static void begin_part(struct mail *mail) {
    struct op_trace *part = container_of(mail, struct op_trace, begin_mail);
    trace_add(part->worker, part);
}

static void end_part(struct mail *mail) {
    struct op_trace *part = container_of(mail, struct op_trace, end_mail);
    trace_remove(part->worker, part);
    mailbox_post(part->worker->control, mail, free_ended_part);
}

/* ---- on the control thread ------------------------------------------------------------------ */

struct plane_trace *plane_trace_begin(struct plane *p, const struct plane_trace_filter *filter) {
    const unsigned workers = p->settings.workers;
    struct plane_trace *t = calloc(1, sizeof(*t) + workers * sizeof(struct op_trace *));
    if (!t)
        return NULL;
    while (t->workers < workers) {
        struct op_trace *part = make_part(&p->worker[t->workers], workers, filter);
        if (!part)
            break;
        t->of[t->workers++] = part;
    }
    if (t->workers < workers) {
        while (t->workers)
            free_part(t->of[--t->workers]);
        free(t);
        return NULL;
    }
    for (unsigned i = 0; i < workers; i++)
        mailbox_post(&t->of[i]->worker->mailbox, &t->of[i]->begin_mail, begin_part);
    return t;
}

/* The part with the oldest record; NULL: none has any. */
static struct op_trace *trace_oldest(const struct plane_trace *t) {
    struct op_trace *first = NULL;
    uint64_t first_ns = CLOCK_NEVER;
    for (unsigned i = 0; i < t->workers; i++) {
        const struct plane_traced *record = trace_ring_first(&t->of[i]->ring);
        if (record && record->at_ns < first_ns) {
            first = t->of[i];
            first_ns = record->at_ns;
        }
    }
    return first;
}

unsigned plane_trace_read(struct plane_trace *t, struct plane_traced *out, unsigned room) {
    unsigned count = 0;
    for (struct op_trace *part; count < room && (part = trace_oldest(t)); count++) {
        out[count] = *trace_ring_first(&part->ring);
        trace_ring_take(&part->ring);
    }
    return count;
}

bool plane_trace_more(const struct plane_trace *t) {
    return trace_oldest(t) != NULL;
}

uint64_t plane_trace_dropped(const struct plane_trace *t) {
    uint64_t dropped = 0;
    for (unsigned i = 0; i < t->workers; i++)
        dropped += trace_ring_dropped(&t->of[i]->ring);
    return dropped;
}

void plane_trace_end(struct plane_trace *t) {
    for (unsigned i = 0; i < t->workers; i++)
        mailbox_post(&t->of[i]->worker->mailbox, &t->of[i]->end_mail, end_part);
    free(t);
}
