/* SPDX-License-Identifier: MIT */
/*
 * window.h - what window.c, window_mr.c and window_mw.c share.
 *
 * A window is what its owner knows; what holds it on the device is a registration, which windows of
 * one peer to the same range with the same rights share, or a binding: memory windows on the QPs of
 * one target. Either is made on the registrar or by work requests, and taken back on the revoker. A
 * window without any of them is gone: the device or its target went, and nothing can reach the
 * range; only its owner does not know yet.
 */
#ifndef RDMAD_FABRIC_VERBS_WINDOW_H
#define RDMAD_FABRIC_VERBS_WINDOW_H

#include "daemon/fabric/verbs/instance/instance.h"

struct registration;
struct binding;

struct window {
    struct fabric_window base;
    struct list node; /* in vpeer.windows */
    struct list at;   /* in registration.windows or target.windows */
    struct vpeer *peer;
    void *cookie;
    uint64_t lease_id;
    bool open;   /* its owner has the key */
    bool closed; /* its owner waits for window_closed */
    struct registration *registration;
    struct binding *binding;
};

/* Something that must be taken back from the device, until it is. */
struct ending {
    struct offload_job job;
    struct list retry; /* in windows.retries */
    uint64_t at_ns;
    unsigned tries;
    int failed; /* errno of the last try */
    struct vpeer *peer;
    uint64_t lease_id;
    int (*take)(struct ending *e);   /* on the revoker: 0 or an errno */
    void (*taken)(struct ending *e); /* on the worker; may free it */
};

/* ---- window.c ----------------------------------------------------------------------------- */

/* Jobs on their way; the device is not let go of before they are back. job_end is the last thing
 * that done does. */
void job_begin(struct verbs *v, struct offload *o, struct offload_job *job);
void job_end(struct verbs *v);

void ending_start(struct ending *e, struct vpeer *p, uint64_t lease_id);

/* The device has it: tells its owner. */
void window_told(struct window *w, const struct verbs_key *key);
/* The device has nothing of it any more: tells the owner who waits for one or the other, why being
 * for who waits for it to open. May free w. */
void window_ended(struct window *w, const struct error *why);

/* ---- window_mr.c, window_mw.c -------------------------------------------------------------- */

/* 0 with the key, FABRIC_PENDING, or an error: then w is as before. */
int registration_use(struct window *w, const struct fabric_window_spec *spec,
                     struct fabric_blob *key, struct error *err);
/* The window does not need it any more: true when that is all, false when window_ended follows. */
bool registration_drop(struct window *w);
void registrations_end(struct verbs *v); /* all */

int binding_use(struct window *w, const struct fabric_window_spec *spec, struct error *err);
void binding_drop(struct window *w);   /* window_ended follows */
void binding_target(struct target *t); /* gets t's queues ready for binds */
void spares_refill(struct verbs *v);
void spares_end(struct verbs *v);

#endif
