/* SPDX-License-Identifier: MIT */
/*
 * windows.c - a peer's right to reach a range of our memory, from when it is asked for to when
 * nothing of it is left on the device.
 *
 * The happy path: window_open has it made, in the way that the device protects (registration.c or
 * binding.c), and window_opened tells the key; window_close has it taken back, and only when the
 * device has said that it is, window_closed tells.
 *
 * A window closed while it opens goes through both, and only window_closed is told. One whose
 * device or target goes is taken back at once and stays for its owner to close, with nothing behind
 * it.
 *
 * The owner's audit stays empty: nobody but the device sees one-sided accesses. Deadlines, too, are
 * enforced by whoever closes the window in time; the device knows none.
 */
#include "daemon/base/clock.h"
#include "daemon/fabric/verbs/window/revocation.h"
#include "daemon/fabric/verbs/window/window.h"
#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MAIL_MS 10
#define GIVE_UP_NS (5 * NSEC_PER_SEC)

static struct verbs_window *window_of(struct fabric_window *w) {
    return container_of(w, struct verbs_window, base);
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

/* A window of no bytes protects nothing: only an op of length zero fits, which reaches no memory,
 * and devices look at neither its address nor its rkey. */
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
    struct verbs_window *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(err, RDMAD_E_NOMEM, "no memory for a window of lease %" PRIu64,
                         spec->lease_id);
    if (!(p = vpeer_of(v, spec->peer, err))) {
        free(w);
        return err ? err->code : RDMAD_E_NOMEM;
    }
    *w = (struct verbs_window){
        .base.fabric = f, .peer = p, .cookie = spec->cookie, .lease_id = spec->lease_id};
    list_init(&w->at);
    list_append(&p->windows, &w->node);
    if (spec->length == 0)
        rc = empty_use(key);
    else
        rc = v->protection->open(w, spec, key, err);
    if (rc < 0) {
        window_free(w);
        return rc;
    }
    if (rc == 0)
        w->state = WINDOW_OPEN;
    *out = &w->base;
    return rc;
}

void verbs_window_extend(struct fabric_window *w, uint64_t deadline_ns) {
    (void)w; /* the device knows no deadlines */
    (void)deadline_ns;
}

bool verbs_window_close(struct fabric_window *fw, int reason) {
    struct verbs_window *w = window_of(fw);
    (void)reason; /* later accesses are refused by the device, which tells no reason */
    assert(w->state != WINDOW_CLOSING);
    w->state = WINDOW_CLOSING;
    if (w->by && !w->by->close(w))
        return false;
    window_free(w);
    return true;
}

/* ---- all of them --------------------------------------------------------------------------- */

void windows_init(struct verbs *v) {
    static const uint64_t known[3] = {0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u,
                                      0x94d049bb133111ebu};
    uint64_t *secret = v->windows.secret;
    if (getrandom(secret, sizeof(known), 0) != (ssize_t)sizeof(known))
        memcpy(secret, known, sizeof(known)); /* as good, but where somebody tries */
    for (unsigned i = 0; i < 3; i++)
        secret[i] |= 1;
    for (unsigned i = 0; i < REGISTRATION_BUCKETS; i++)
        list_init(&v->windows.registrations[i]);
    list_init(&v->windows.retries);
}

void windows_device_came(struct verbs *v) {
    v->protection =
        v->device->memory_windows ? &protection_memory_windows : &protection_registrations;
}

void windows_device_going(struct verbs *v) {
    v->protection->device_going(v);
}

/* What a device does not take back in all that time is left to the end of the process. */
void windows_close(struct verbs *v) {
    uint64_t until = clock_now_ns() + GIVE_UP_NS;
    v->windows.closing = true;
    if (v->protection)
        v->protection->device_going(v);
    while (v->jobs > 0) {
        struct pollfd p = {.fd = v->member.mailbox.fd, .events = POLLIN};
        poll(&p, 1, MAIL_MS);
        mailbox_drain(&v->member.mailbox);
        v->now_ns = v->env->now_ns(v->env->user);
        revocations_timers(v);
        if (clock_now_ns() >= until && revocations_stuck(v))
            return;
    }
}
