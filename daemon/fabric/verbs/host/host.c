/* SPDX-License-Identifier: MIT */
/*
 * host.c - the devices of this process: what is made at the start and taken down at the end, and
 * what others may ask.
 *
 * The first device is opened and tested on the caller's thread, before the device thread runs, so
 * that a start without a usable device fails in the right words. Later there may be none for a
 * while; then host_why tells.
 */
#include "daemon/fabric/verbs/host/host.h"
#include "daemon/base/clock.h"
#include "daemon/fabric/device.h"
#include "daemon/fabric/verbs/device/survey.h"
#include "daemon/fabric/verbs/host/state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct offload *host_registrar(struct fabric_host *h) {
    return h->registrar;
}

struct offload *host_revoker(struct fabric_host *h) {
    return h->revoker;
}

void host_why(struct fabric_host *h, struct error *why) {
    pthread_mutex_lock(&h->lock);
    if (h->now && !h->port.usable)
        *why = h->port.why;
    else
        *why = h->why;
    pthread_mutex_unlock(&h->lock);
    if (!why->code)
        error_set(why, RDMAD_E_UNREACHABLE, "the RDMA device is in use again, try again");
}

bool host_trouble(struct fabric_host *h, struct error *why) {
    pthread_mutex_lock(&h->lock);
    bool usable = h->now && h->port.usable;
    pthread_mutex_unlock(&h->lock);
    if (!usable)
        host_why(h, why);
    return !usable;
}

const char *host_protection(struct fabric_host *h) {
    pthread_mutex_lock(&h->lock);
    const char *by = !h->now ? "" : h->now->d.memory_windows ? "windows" : "registrations";
    pthread_mutex_unlock(&h->lock);
    return by;
}

unsigned host_services(struct fabric_host *h) {
    pthread_mutex_lock(&h->lock);
    unsigned services = h->now ? h->now->d.services : 0;
    pthread_mutex_unlock(&h->lock);
    return services;
}

bool host_atomics_are_cpus(struct fabric_host *h) {
    pthread_mutex_lock(&h->lock);
    bool they_are = h->now && h->now->d.attr.orig_attr.atomic_cap == IBV_ATOMIC_GLOB;
    pthread_mutex_unlock(&h->lock);
    return they_are;
}

/* ---- start and end ------------------------------------------------------------------------- */

static int start_offloads(struct fabric_host *h, struct error *err) {
    int failed = offload_start(&h->registrar);
    if (!failed)
        failed = offload_start(&h->revoker);
    return failed ? error_errno(err, failed, "verbs: cannot start the threads for registrations")
                  : 0;
}

static void free_host(struct fabric_host *h) {
    offload_stop(h->registrar);
    offload_stop(h->revoker);
    pthread_cond_destroy(&h->memory_idle);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

int host_open(const struct fabric_settings *settings, struct fabric_host **out, struct error *err) {
    struct fabric_host *h = calloc(1, sizeof(*h));
    if (!h)
        return error_set(err, RDMAD_E_NOMEM, "verbs: out of memory");
    h->wish.settings = &settings->verbs;
    h->look_ns = CLOCK_NEVER;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->memory_idle, NULL);
    list_init(&h->members);
    list_init(&h->memories);
    survey_listen(settings, &h->wish.listen);
    int failed = start_offloads(h, err);
    if (!failed)
        failed = device_thread_start(h, err);
    if (failed) {
        free_host(h);
        return failed;
    }
    *out = h;
    return 0;
}

void host_close(struct fabric_host *h) {
    device_thread_stop(h);
    free_host(h);
}

/* ---- for the operator ---------------------------------------------------------------------- */

static const char *atomic_with(const struct device *d) {
    switch (d->attr.orig_attr.atomic_cap) {
    case IBV_ATOMIC_NONE:
        return "none";
    case IBV_ATOMIC_GLOB:
        return "with the processor's";
    default:
        return "among themselves";
    }
}

static void mark_in_use(struct device_list *list, struct fabric_host *h) {
    pthread_mutex_lock(&h->lock);
    const struct open_device *o = h->now;
    for (size_t i = 0; o && i < list->count; i++) {
        struct device_view *view = &list->devices[i];
        if (strcmp(view->name, o->d.name) != 0)
            continue;
        view->in_use = true;
        snprintf(view->windows, sizeof(view->windows), "%s",
                 o->d.memory_windows ? "windows" : "registrations");
        snprintf(view->self_test, sizeof(view->self_test), "%s", o->self_test);
        snprintf(view->atomics, sizeof(view->atomics), "%s", atomic_with(&o->d));
        snprintf(view->services, sizeof(view->services), "RC%s%s",
                 o->d.services & 1u << RDMAD_CHANNEL_DATAGRAM ? " UD" : "",
                 o->d.services & 1u << RDMAD_CHANNEL_UNACKED ? " UC" : "");
    }
    pthread_mutex_unlock(&h->lock);
}

int devices_survey(const struct fabric_settings *settings, const struct fabric_host *host,
                   struct device_list **out, struct error *err) {
    struct wish wish = {.settings = &settings->verbs};
    survey_listen(settings, &wish.listen);
    int failed = survey_all(&wish, out, err);
    if (!failed && host)
        mark_in_use(*out, (struct fabric_host *)host);
    return failed;
}
