/* SPDX-License-Identifier: MIT */
/*
 * plane.c - the workers as a whole, and the hosts they share: made, started, counted, asked whether
 * they live, stopped.
 */
#include "daemon/op/turn/plane.h"
#include "daemon/op/seam/call.h"
#include "daemon/op/turn/loop.h"
#include "daemon/op/turn/turn.h"
#include <stdlib.h>

void plane_dismantle(struct plane *p) {
    for (unsigned i = 0; p->worker && i < p->settings.workers; i++)
        if (p->worker[i].settings)
            worker_fini(&p->worker[i]);
    for (unsigned i = 0; i < PLANE_FABRICS_MAX; i++)
        if (p->hosts[i])
            p->settings.fabrics[i]->host_close(p->hosts[i]);
    calls_reserve_free(p);
    for (struct list *pos; (pos = list_pop(&p->accounts));)
        free(list_entry(pos, struct op_account, node));
    free(p->worker);
    free(p->sessions);
    free(p);
}

/* A pool is made known to the devices of one fabric at most: only that one reads the memory of ops
 * and windows. */
static int check_registering(const struct plane_settings *settings, struct error *err) {
    const char *knows = NULL;
    for (unsigned i = 0; i < plane_settings_fabrics(settings); i++) {
        const struct fabric_ops *ops = settings->fabrics[i];
        if (ops->memory_add && knows)
            return error_set(err, RDMAD_E_INVAL,
                             "fabrics %s and %s cannot be used together: both register memory",
                             knows, ops->name);
        if (ops->memory_add)
            knows = ops->name;
    }
    return 0;
}

static int open_hosts(struct plane *p, struct error *err) {
    int rc = check_registering(&p->settings, err);
    for (unsigned i = 0; rc == 0 && i < plane_settings_fabrics(&p->settings); i++)
        if (p->settings.fabrics[i]->host_open)
            rc = p->settings.fabrics[i]->host_open(&p->settings.fabric_settings, &p->hosts[i], err);
    return rc;
}

int plane_assemble(const struct plane_settings *settings, const struct plane_events *events,
                   struct mailbox *control, uint64_t now_ns, struct plane **out,
                   struct error *err) {
    struct plane *p = calloc(1, sizeof(*p));
    if (!p)
        return error_set(err, RDMAD_E_NOMEM, "data plane: out of memory");
    p->settings = *settings;
    p->events = *events;
    p->control = control;
    list_init(&p->accounts);
    list_init(&p->idle_accounts);
    p->worker = calloc(settings->workers, sizeof(*p->worker));
    p->sessions = calloc(settings->workers, sizeof(*p->sessions));
    if (!calls_reserve(p) || !p->worker || !p->sessions) {
        plane_dismantle(p);
        return error_set(err, RDMAD_E_NOMEM, "data plane: out of memory for %u workers",
                         settings->workers);
    }
    int rc = open_hosts(p, err);
    for (unsigned i = 0; rc == 0 && i < settings->workers; i++)
        rc =
            worker_init(&p->worker[i], i, &p->settings, &p->events, control, p->hosts, now_ns, err);
    if (rc < 0) {
        plane_dismantle(p);
        return rc;
    }
    *out = p;
    return 0;
}

int plane_start(const struct plane_settings *settings, const struct plane_events *events,
                struct mailbox *control, struct plane **out, struct error *err) {
    struct plane *p;
    int rc = plane_assemble(settings, events, control, clock_now_ns(), &p, err);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < settings->workers; i++) {
        rc = loop_start(&p->worker[i], err);
        if (rc < 0) {
            plane_stop(p);
            return rc;
        }
    }
    *out = p;
    return 0;
}

void plane_stop(struct plane *p) {
    for (unsigned i = 0; i < p->settings.workers; i++)
        loop_stop(&p->worker[i]);
    mailbox_drain(p->control); /* what they said last lies in them */
    plane_dismantle(p);
}

const struct fabric_ops *plane_fabric(const struct plane *p, unsigned fabric) {
    return fabric < PLANE_FABRICS_MAX ? p->settings.fabrics[fabric] : NULL;
}

struct fabric_host *plane_fabric_host(const struct plane *p, unsigned fabric) {
    return p->hosts[fabric];
}

uint64_t plane_quiesce_ns(const struct plane *p, unsigned fabric) {
    const struct fabric_ops *ops = p->settings.fabrics[fabric];
    return ops->quiesce_ns ? ops->quiesce_ns(&p->settings.fabric_settings) : 0;
}

int plane_memory_add(struct plane *p, void *base, uint64_t bytes, struct fabric_memory **out,
                     struct error *err) {
    const struct fabric_ops *ops;
    *out = NULL;
    for (unsigned i = 0; (ops = plane_fabric(p, i)); i++)
        if (ops->memory_add)
            return ops->memory_add(p->hosts[i], base, bytes, out, err);
    return 0;
}

void plane_memory_remove(struct plane *p, struct fabric_memory *memory) {
    const struct fabric_ops *ops;
    for (unsigned i = 0; memory && (ops = plane_fabric(p, i)); i++)
        if (ops->memory_remove)
            ops->memory_remove(memory);
}

void plane_set_spin(struct plane *p, uint64_t min_ns, uint64_t max_ns) {
    for (unsigned i = 0; i < p->settings.workers; i++) {
        __atomic_store_n(&p->worker[i].spin_min_ns, min_ns, __ATOMIC_RELAXED);
        __atomic_store_n(&p->worker[i].spin_max_ns, max_ns, __ATOMIC_RELAXED);
    }
}

static void deliver_ping(struct mail *mail) {
    __atomic_store_n(&container_of(mail, struct worker, ping_mail)->pong, true, __ATOMIC_RELEASE);
}

bool plane_worker_turns(struct plane *p, unsigned worker) {
    struct worker *w = &p->worker[worker];
    if (!__atomic_load_n(&w->pong, __ATOMIC_ACQUIRE))
        return false; /* its mail is still under way */
    __atomic_store_n(&w->pong, false, __ATOMIC_RELAXED);
    mailbox_post(&w->mailbox, &w->ping_mail, deliver_ping);
    return true;
}

void plane_count(const struct plane *p, struct plane_counters *out) {
    *out = (struct plane_counters){0};
    for (unsigned i = 0; i < p->settings.workers; i++) {
        const struct plane_counters *c = &p->worker[i].counters;
#define ADD(field) out->field += __atomic_load_n(&c->field, __ATOMIC_RELAXED)
        ADD(ops);
        ADD(bytes_read);
        ADD(bytes_written);
        ADD(ops_failed);
        ADD(ops_inflight);
        ADD(wakeups_sent);
        ADD(sleeps);
        ADD(lanes_in);
        ADD(lanes_in_encrypted);
#undef ADD
    }
}

void plane_latency(const struct plane *p, uint8_t opcode, enum plane_route route,
                   struct histogram *out) {
    *out = (struct histogram){0};
    for (unsigned i = 0; i < p->settings.workers; i++)
        histogram_sum(out, &p->worker[i].latency.spans[opcode][route]);
}

void plane_failures(const struct plane *p, uint64_t out[PLANE_CODES]) {
    for (unsigned code = 0; code < PLANE_CODES; code++) {
        out[code] = 0;
        for (unsigned i = 0; i < p->settings.workers; i++)
            out[code] += __atomic_load_n(&p->worker[i].latency.failed[code], __ATOMIC_RELAXED);
    }
}
