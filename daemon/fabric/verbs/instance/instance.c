/* SPDX-License-Identifier: MIT */
/*
 * instance.c - timers, memory that is freed later, and jobs at the host's threads.
 */
#include "daemon/fabric/verbs/instance/instance.h"
#include <assert.h>

void verbs_timer_at(struct verbs *v, uint64_t at_ns) {
    if (at_ns < v->next_timer_ns)
        v->next_timer_ns = at_ns;
}

void verbs_free_later(struct verbs *v, struct free_later *f, void (*free)(struct free_later *f)) {
    f->free = free;
    list_append(&v->ended, &f->node);
}

void verbs_free_ended(struct verbs *v) {
    struct list *node;
    while ((node = list_pop(&v->ended))) {
        struct free_later *f = list_entry(node, struct free_later, node);
        f->free(f);
    }
}

int verbs_ready(struct verbs *v, struct error *err) {
    struct error why = {0};
    if (v->device && !v->going && v->port.usable)
        return 0;
    if (v->device && !v->going)
        why = v->port.why;
    else
        host_why(v->member.host, &why);
    return error_set(err, RDMAD_E_FABRIC, "%s", why.text);
}

void verbs_job_begin(struct verbs *v, struct offload *o, struct offload_job *job) {
    job->reply_to = &v->member.mailbox;
    v->jobs++;
    offload_post(o, job);
}

void verbs_job_end(struct verbs *v) {
    assert(v->jobs > 0);
    v->jobs--; /* the device, if it goes, is let go of at the end of the turn */
    v->progress++;
}
