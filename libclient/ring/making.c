/* SPDX-License-Identifier: MIT */
/*
 * making.c - the request for a ring, which stays under way between the looks of its program.
 *
 * Most daemons answer in less than a millisecond, so the first look waits for a moment; or each
 * ring would be made only when its program looks for the second time. Who has not answered by then
 * may hang, and is looked at without waiting.
 *
 * What was asked of a daemon that is gone, or answered by one, is dropped: the next is asked anew.
 */
#include "libclient/ring/making.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/control/control.h"
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#define MOMENT_NS UINT64_C(10000000)

struct rdmad_making {
    struct rdmad_ring_create_req request; /* first */
    struct rdmad_ring_made made;
    struct rdmad_call call;
    uint32_t asked_at; /* the session's resumes: which daemon */
    uint64_t since_ns;
};

/* Whoever forks leaves a child that does the same with what it finds (rdmad_making_in_child). */
static void making_close_fds(struct rdmad_making *m) {
    for (unsigned i = 0; i < RDMAD_RING_FDS; i++) {
        int fd = __atomic_exchange_n(&m->made.fds[i], -1, __ATOMIC_ACQ_REL);
        if (fd >= 0) /* it has no number any more: soon that may be another's */
            close(fd);
    }
}

static void making_free(struct rdmad_ring *r) {
    struct rdmad_making *m = __atomic_exchange_n(&r->making, NULL, __ATOMIC_ACQ_REL);
    free(m); /* a child does not look into it any more */
}

static void making_fill(struct rdmad_session *s, const struct rdmad_call *call, void *request) {
    (void)call;
    ((struct rdmad_making *)request)->asked_at = s->resumes;
}

static int making_begin(struct rdmad_ring *r) {
    struct rdmad_session *s = r->session;
    struct rdmad_making *m = calloc(1, sizeof(*m));
    if (!m)
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory to ask for a ring");
    m->request =
        (struct rdmad_ring_create_req){.sq_entries = r->entries, .cq_entries = r->cq_entries};
    for (unsigned i = 0; i < RDMAD_RING_FDS; i++)
        m->made.fds[i] = -1;
    m->call = (struct rdmad_call){RDMAD_CALL(RDMAD_MSG_RING_CREATE, m->request, m->made.reply),
                                  .fds = m->made.fds, .nfds = RDMAD_RING_FDS, .fill = making_fill,
                                  .one_try = true};
    m->since_ns = rdmad_monotonic_ns();
    __atomic_store_n(&r->making, m, __ATOMIC_RELEASE); /* a child finds what is answered at once */
    int rc = rdmad_control_begin(s, &m->call);
    if (rc)
        making_free(r);
    if (rc == RDMAD_E_DAEMON_LOST)
        return rdmad_fail_lost(s);
    return rc ? rdmad_fail(s, RDMAD_E_BUSY, "rdmad does not read what it is asked") : 0;
}

/* Its call is done, or was cut. */
static void making_drop(struct rdmad_ring *r) {
    struct rdmad_making *m = r->making;
    m->made.resumes = m->call.resumes;
    if (!m->call.status || m->call.lacks_fds)
        rdmad_making_undo(r->session, &m->made);
    making_close_fds(m);
    making_free(r);
}

int rdmad_making_ask(struct rdmad_ring *r, struct rdmad_ring_made *out) {
    uint64_t until_ns = 0;
    *out = (struct rdmad_ring_made){.lacks_fds = false};
    if (r->making && r->making->asked_at != rdmad_resumes(r->session))
        rdmad_making_end(r);
    if (!r->making) {
        int rc = making_begin(r);
        if (rc)
            return rc;
        until_ns = rdmad_monotonic_ns() + MOMENT_NS;
    }
    if (!rdmad_making_is_answered(r, until_ns))
        return RDMAD_E_AGAIN;
    assert(r->making);
    struct rdmad_call *call = &r->making->call;
    int status = call->status;
    *out = r->making->made;
    out->resumes = call->resumes;
    out->lacks_fds = call->lacks_fds;
    if (status)
        rdmad_fail(r->session, status, "%s", call->text);
    making_free(r);
    return status;
}

bool rdmad_making_waits(const struct rdmad_ring *r) {
    return r->making;
}

bool rdmad_making_is_answered(struct rdmad_ring *r, uint64_t deadline_ns) {
    return rdmad_control_is_done(r->session, &r->making->call, deadline_ns);
}

uint64_t rdmad_making_since_ns(const struct rdmad_ring *r) {
    return r->making->since_ns;
}

void rdmad_making_end(struct rdmad_ring *r) {
    if (!r->making)
        return;
    rdmad_control_finish(r->session, &r->making->call);
    making_drop(r);
}

/* Of the memory nothing is given back, as of all that the child has of the session. */
void rdmad_making_in_child(struct rdmad_ring *r) {
    if (r->making)
        making_close_fds(r->making);
    r->making = NULL;
}

void rdmad_making_undo(struct rdmad_session *s, const struct rdmad_ring_made *made) {
    struct rdmad_ring_destroy_req request = {.ring = made->reply.ring};
    pthread_mutex_lock(&s->lock);
    if (rdmad_is_open(s) && s->resumes == made->resumes)
        rdmad_control_post(s, RDMAD_MSG_RING_DESTROY, &request, sizeof(request));
    pthread_mutex_unlock(&s->lock);
}
