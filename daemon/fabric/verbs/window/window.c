/* SPDX-License-Identifier: MIT */
/*
 * window.c - a peer's right to reach a range of our memory, from when it is asked for to when
 * nothing of it is left on the device.
 *
 * The happy path: window_open has a registration made (window_mr.c) or memory windows bound
 * (window_mw.c) and window_opened tells the key; window_close has it taken back by the revoker,
 * whose queue no registration is in, and only when the device has said that it is, window_closed
 * tells.
 *
 * A window closed while it opens goes through both, and only window_closed is told. One whose
 * device or target goes is taken back at once and stays for its owner to close, with nothing behind
 * it.
 *
 * What the device does not take back is never called closed: the peer's connections are destroyed,
 * it gets no new ones, and the device is asked again, every second in the end, until it does.
 *
 * The owner's audit stays empty: nobody but the device sees one-sided accesses. Deadlines, too, are
 * enforced by whoever closes the window in time; the device knows none.
 */
#include "daemon/fabric/verbs/window/window.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_FIRST_NS (10 * NSEC_PER_MSEC)
#define RETRY_LAST_NS NSEC_PER_SEC
#define GIVE_UP_NS (5 * NSEC_PER_SEC)

void windows_init(struct verbs *v) {
    for (unsigned i = 0; i < REGISTRATION_BUCKETS; i++)
        list_init(&v->windows.registrations[i]);
    list_init(&v->windows.retries);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

void job_begin(struct verbs *v, struct offload *o, struct offload_job *job) {
    job->reply_to = &v->member.mailbox;
    v->jobs++;
    offload_post(o, job);
}

void job_end(struct verbs *v) {
    v->jobs--; /* the device, if it goes, is let go of at the end of the turn */
    v->progress++;
}

/* ---- taking back --------------------------------------------------------------------------- */

static struct ending *ending_of(struct offload_job *job) {
    return container_of(job, struct ending, job);
}

static void ending_run(struct offload_job *job) {
    struct ending *e = ending_of(job);
    e->failed = e->take(e);
}

static void ending_refused(struct ending *e) {
    struct vpeer *p = e->peer;
    struct verbs *v = p->verbs;
    struct error why;

    error_set(&why, RDMAD_E_FABRIC,
              "device %s does not take back a right to lease %" PRIu64 ": %s; the connections of "
              "its peer are cut until it does",
              v->device->name, e->lease_id, strerror(e->failed));
    LOG_LIMITED(ERR, ("%s", why.text), FIELD_U64("LEASE", e->lease_id), FIELD_U64("PEER", p->id));
    if (e->failed == EIO || e->failed == ENODEV)
        host_device_failed(v->member.host, v->device, &why);
    if (e->tries++ == 0)
        p->stuck++;
    uint64_t pause_ns = RETRY_LAST_NS;
    if (e->tries < 7)
        pause_ns = RETRY_FIRST_NS << e->tries;
    e->at_ns = clock_after(v->now_ns, pause_ns);
    list_append(&v->windows.retries, &e->retry);
    verbs_timer_at(v, e->at_ns);
    verbs_expel(&v->base, p->id);
}

static void ending_done(struct offload_job *job) {
    struct ending *e = ending_of(job);
    struct verbs *v = e->peer->verbs;
    if (e->failed) { /* its job stays under way */
        ending_refused(e);
        return;
    }
    if (e->tries)
        e->peer->stuck--;
    e->taken(e);
    job_end(v);
}

void ending_start(struct ending *e, struct vpeer *p, uint64_t lease_id) {
    e->job.run = ending_run;
    e->job.done = ending_done;
    e->peer = p;
    e->lease_id = lease_id;
    list_init(&e->retry);
    job_begin(p->verbs, host_revoker(p->verbs->member.host), &e->job);
}

void windows_timers(struct verbs *v) {
    list_for_each_safe (pos, &v->windows.retries) {
        struct ending *e = list_entry(pos, struct ending, retry);
        if (v->now_ns < e->at_ns) {
            verbs_timer_at(v, e->at_ns);
            continue;
        }
        list_remove(&e->retry);
        offload_post(host_revoker(v->member.host), &e->job);
    }
}

/* ---- windows ------------------------------------------------------------------------------- */

static struct window *window_of(struct fabric_window *w) {
    return container_of(w, struct window, base);
}

/* The owner may do anything in what it is called for, so that comes last. */
static void window_free(struct window *w) {
    struct vpeer *p = w->peer;
    list_remove(&w->at);
    list_remove(&w->node);
    free(w);
    vpeer_check_free(p);
}

void window_told(struct window *w, const struct verbs_key *key) {
    const struct fabric_env *env = w->peer->verbs->env;
    struct fabric_blob blob;
    blob_write_key(key, &blob);
    w->open = true;
    env->window_opened(env->user, w->cookie, &blob, NULL);
}

void window_ended(struct window *w, const struct error *why) {
    const struct fabric_env *env = w->peer->verbs->env;
    void *cookie = w->cookie;
    bool open = w->open, closed = w->closed;

    list_remove(&w->at);
    w->registration = NULL;
    w->binding = NULL;
    if (open && !closed) /* gone, its owner will find out */
        return;
    window_free(w);
    if (closed)
        env->window_closed(env->user, cookie);
    else
        env->window_opened(env->user, cookie, NULL, why);
}

static int check_open(const struct verbs *v, const struct fabric_window_spec *spec,
                      struct error *err) {
    if ((spec->rights & RDMAD_RIGHTS_ALL) == 0 || (spec->rights & ~RDMAD_RIGHTS_ALL) != 0)
        return error_set(err, RDMAD_E_INVAL,
                         "a window of lease %" PRIu64 " has rights %" PRIu32
                         "; it needs at least one, and none that is unknown",
                         spec->lease_id, spec->rights);
    if (v->device && !v->going)
        return 0;
    struct error why;
    host_why(v->member.host, &why);
    return error_set(err, RDMAD_E_FABRIC, "no RDMA device for lease %" PRIu64 " now: %.200s",
                     spec->lease_id, why.text);
}

/* Of no bytes there is nothing to protect: an op of length zero, the only one that fits, reaches no
 * memory, and devices look at neither its address nor its rkey. */
static int empty_use(struct fabric_blob *key) {
    const struct verbs_key none = {.count = 1};
    blob_write_key(&none, key);
    return 0;
}

int verbs_window_open(struct fabric *f, const struct fabric_window_spec *spec,
                      struct fabric_window **out, struct fabric_blob *key, struct error *err) {
    struct verbs *v = verbs_of(f);
    struct vpeer *p;
    int rc = check_open(v, spec, err);
    if (rc)
        return rc;
    struct window *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(err, RDMAD_E_NOMEM, "no memory for a window of lease %" PRIu64,
                         spec->lease_id);
    if (!(p = vpeer_of(v, spec->peer, err))) {
        free(w);
        return err ? err->code : RDMAD_E_NOMEM;
    }
    *w = (struct window){
        .base.fabric = f, .peer = p, .cookie = spec->cookie, .lease_id = spec->lease_id};
    list_init(&w->at);
    list_append(&p->windows, &w->node);
    if (spec->length == 0)
        rc = empty_use(key);
    else if (v->device->windows)
        rc = binding_use(w, spec, err);
    else
        rc = registration_use(w, spec, key, err);
    if (rc < 0) {
        window_free(w);
        return rc;
    }
    w->open = rc == 0;
    *out = &w->base;
    return rc;
}

void verbs_window_extend(struct fabric_window *w, uint64_t deadline_ns) {
    (void)w; /* the device knows no deadlines */
    (void)deadline_ns;
}

bool verbs_window_close(struct fabric_window *fw, int reason) {
    struct window *w = window_of(fw);
    (void)reason; /* who comes later is refused by the device, which has one way to say so */
    w->closed = true;
    if (w->binding) {
        binding_drop(w);
        return false;
    }
    if (w->registration && !registration_drop(w))
        return false;
    window_free(w);
    return true;
}

void windows_device_going(struct verbs *v) {
    registrations_end(v);
    spares_end(v);
}

static bool only_retries_left(const struct verbs *v) {
    unsigned n = 0;
    list_for_each (pos, &v->windows.retries)
        n++;
    return n == v->jobs;
}

/* What a device does not take back in all that time goes with the process. */
void windows_close(struct verbs *v) {
    uint64_t until = clock_now_ns() + GIVE_UP_NS;
    v->windows.closing = true;
    spares_end(v);
    while (v->jobs > 0) {
        struct pollfd p = {.fd = v->member.mailbox.fd, .events = POLLIN};
        poll(&p, 1, RETRY_FIRST_NS / NSEC_PER_MSEC);
        mailbox_drain(&v->member.mailbox);
        v->now_ns = v->env->now_ns(v->env->user);
        windows_timers(v);
        if (clock_now_ns() >= until && only_retries_left(v))
            return;
    }
}
