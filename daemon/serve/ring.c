/* SPDX-License-Identifier: MIT */
/*
 * ring.c - rings made and given back.
 */
#include "daemon/ipc/ring.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/later.h"
#include "daemon/state/ring_object.h"
#include <inttypes.h>

static int ring_check(const struct rdmad_ring_create_req *req, struct error *err) {
    if (req->reserved)
        return error_set(err, RDMAD_E_RESERVED, "the reserved field of a ring request is not zero");
    if (req->sq_entries == 0 || req->sq_entries > RDMAD_RING_MAX_ENTRIES ||
        req->cq_entries > RDMAD_RING_MAX_ENTRIES)
        return error_set(err, RDMAD_E_INVAL,
                         "a ring has 1 to %u sqes and 0 (twice as many) to %u cqes, asked were "
                         "%" PRIu32 " and %" PRIu32,
                         RDMAD_RING_MAX_ENTRIES, RDMAD_RING_MAX_ENTRIES, req->sq_entries,
                         req->cq_entries);
    return 0;
}

static void ring_create_done(void *arg, struct ring_object *ro, const int fds[RING_FDS],
                             const struct error *result) {
    struct request *rq = arg;
    if (result->code) {
        serve_fail(rq, result);
    } else {
        struct rdmad_ring_create_rep rep = {.ring = ro->handle,
                                            .sq_entries = ro->ring->sq_entries,
                                            .cq_entries = ro->ring->cq_entries};
        bool sent = serve_reply(rq, &rep, sizeof(rep), fds, RING_FDS);
        ring_object_sent(ro, fds, sent);
    }
    later_free(rq);
}

void serve_ring_create(const struct request *rq, const void *body) {
    const struct rdmad_ring_create_req *req = body;
    struct error err;
    if (ring_check(req, &err)) {
        serve_fail(rq, &err);
        return;
    }
    struct request *later = later_new(rq);
    if (later)
        ring_object_create(rq->session, req->sq_entries, req->cq_entries, ring_create_done, later);
}

void serve_ring_ready(const struct request *rq, const void *body) {
    const struct rdmad_ring_ready_req *req = body;
    struct error err;
    struct request *later = later_new(rq);
    if (later && ring_object_make_ready(rq->session, req->ring, later_answer, later, &err))
        later_answer(later, &err);
}

void serve_ring_destroy(const struct request *rq, const void *body) {
    const struct rdmad_ring_destroy_req *req = body;
    struct error err;
    struct request *later = later_new(rq);
    if (later && ring_object_destroy(rq->session, req->ring, later_answer, later, &err))
        later_answer(later, &err);
}
