/* SPDX-License-Identifier: MIT */
/*
 * revocation.c - a right is taken back from the device.
 *
 * The revoker does it, so that it never waits behind a registration, nor behind the memory of
 * another user. A right that the device does not take back is never reported as closed: the peer's
 * connections are cut, it gets no new ones, and the device is asked again, at last every second,
 * until it does.
 */
#include "daemon/fabric/verbs/window/revocation.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define RETRY_FIRST_NS (10 * NSEC_PER_MSEC)
#define RETRY_LAST_NS NSEC_PER_SEC

static struct revocation *revocation_of(struct offload_job *job) {
    return container_of(job, struct revocation, job);
}

static void revocation_run(struct offload_job *job) {
    struct revocation *r = revocation_of(job);
    r->failed = r->take(r);
}

static void revocation_refused(struct revocation *r) {
    struct vpeer *p = r->peer;
    struct verbs *v = p->verbs;
    struct error why;
    error_set(&why, RDMAD_E_FABRIC,
              "device %s does not take back a right to lease %" PRIu64 ": %s; the connections of "
              "its peer are cut until it does",
              v->device->name, r->lease_id, strerror(r->failed));
    LOG_LIMITED_OF(log_of_connection(p->id), ERR, ("%s", why.text), FIELD_U64("LEASE", r->lease_id),
                   FIELD_U64("PEER", p->id));
    if (r->failed == EIO || r->failed == ENODEV)
        host_device_failed(v->member.host, v->device, &why);
    if (r->tries++ == 0)
        p->stuck++;
    uint64_t pause_ns = RETRY_LAST_NS;
    if (r->tries < 7)
        pause_ns = RETRY_FIRST_NS << r->tries;
    r->at_ns = clock_after(v->now_ns, pause_ns);
    list_append(&v->windows.retries, &r->retry);
    verbs_timer_at(v, r->at_ns);
    vpeer_cut(p);
}

static void revocation_done(struct offload_job *job) {
    struct revocation *r = revocation_of(job);
    struct verbs *v = r->peer->verbs;
    if (r->failed) { /* its job stays under way */
        revocation_refused(r);
        return;
    }
    if (r->tries)
        r->peer->stuck--;
    r->taken(r);
    verbs_job_end(v);
}

void revocation_start(struct revocation *r, struct vpeer *p, uint64_t lease_id) {
    r->job.run = revocation_run;
    r->job.done = revocation_done;
    r->peer = p;
    r->lease_id = lease_id;
    list_init(&r->retry);
    verbs_job_begin(p->verbs, host_revoker(p->verbs->member.host), &r->job);
}

void revocations_timers(struct verbs *v) {
    list_for_each_safe (pos, &v->windows.retries) {
        struct revocation *r = list_entry(pos, struct revocation, retry);
        if (v->now_ns < r->at_ns) {
            verbs_timer_at(v, r->at_ns);
            continue;
        }
        list_remove(&r->retry);
        offload_post(host_revoker(v->member.host), &r->job);
    }
}

bool revocations_stuck(const struct verbs *v) {
    unsigned n = 0;
    list_for_each (pos, &v->windows.retries)
        n++;
    return n == v->jobs;
}
