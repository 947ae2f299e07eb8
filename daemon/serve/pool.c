/* SPDX-License-Identifier: MIT */
/*
 * pool.c - pools made, made ready and given back.
 */
#include "daemon/state/pool.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/later.h"
#include "daemon/state/origin.h"
#include <assert.h>

static void pool_create_done(void *arg, struct pool *pool, int fd, const struct error *result) {
    struct request *rq = arg;
    if (result->code) {
        serve_fail(rq, result);
    } else {
        struct rdmad_pool_create_rep rep = {.pool = pool->handle, .bytes = pool->bytes};
        serve_reply(rq, &rep, sizeof(rep), &fd, fd >= 0);
    }
    later_free(rq);
}

void serve_pool_create(const struct request *rq, const void *body) {
    const struct rdmad_pool_create_req *req = body;
    struct error err;
    if (req->reserved) {
        error_set(&err, RDMAD_E_RESERVED, "the reserved field of a pool request is not zero");
        serve_fail(rq, &err);
        return;
    }
    if ((req->flags & RDMAD_POOL_HUGETLB) && policy_check_huge_pages(&rq->session->policy, &err)) {
        serve_fail(rq, &err);
        return;
    }
    struct request *later = later_new(rq);
    if (later)
        pool_create(rq->session, req->bytes, req->flags, pool_create_done, later);
}

/* number 0: any. */
static void take_memory(const struct request *rq, uint64_t number, uint64_t bytes) {
    struct error err;
    if (shared_memory_check_kind("pool", *rq->fd, &err)) {
        serve_fail(rq, &err);
        return;
    }
    struct request *later = later_new(rq);
    if (!later)
        return;
    int fd = *rq->fd;
    *rq->fd = -1;
    if (number)
        pool_resume(rq->session, fd, number, bytes, pool_create_done, later);
    else
        pool_import(rq->session, fd, bytes, pool_create_done, later);
}

void serve_pool_import(const struct request *rq, const void *body) {
    const struct rdmad_pool_import_req *req = body;
    struct error err;
    assert(rq->fd && *rq->fd >= 0);
    if (req->reserved) {
        error_set(&err, RDMAD_E_RESERVED, "the reserved field of an import is not zero");
        serve_fail(rq, &err);
    } else {
        take_memory(rq, 0, req->bytes);
    }
}

void serve_pool_resume(const struct request *rq, const void *body) {
    const struct rdmad_pool_resume_req *req = body;
    struct error err;
    assert(rq->fd && *rq->fd >= 0);
    if (origin_check_resumed(rq->session, "a pool", &err) ||
        origin_check_number(rq->session, req->pool, QUOTA_POOLS, 0, "pool", &err))
        serve_fail(rq, &err);
    else
        take_memory(rq, req->pool, req->bytes);
}

void serve_pool_ready(const struct request *rq, const void *body) {
    const struct rdmad_pool_ready_req *req = body;
    struct error err;
    struct request *later = later_new(rq);
    if (later && pool_make_ready(rq->session, req->pool, later_answer, later, &err))
        later_answer(later, &err);
}

void serve_pool_destroy(const struct request *rq, const void *body) {
    const struct rdmad_pool_destroy_req *req = body;
    struct error err;
    struct request *later = later_new(rq);
    if (later && pool_destroy(rq->session, req->pool, later_answer, later, &err))
        later_answer(later, &err);
}
