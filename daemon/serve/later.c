/* SPDX-License-Identifier: MIT */
/*
 * later.c - a copy of the request and a hold on its session.
 */
#include "daemon/serve/later.h"
#include <stdlib.h>

struct request *later_new(const struct request *rq) {
    struct request *later = malloc(sizeof(*later));
    if (!later) {
        struct error err;
        error_set(&err, RDMAD_E_NOMEM, "out of memory for the request");
        serve_fail(rq, &err);
        return NULL;
    }
    *later = *rq;
    session_hold(rq->session);
    return later;
}

void later_free(struct request *later) {
    struct session *s = later->session;
    free(later);
    session_release(s);
}

void later_reply(struct request *later, const struct error *result, const void *body, size_t size) {
    if (result && result->code)
        serve_fail(later, result);
    else
        serve_reply(later, body, size, NULL, 0);
    later_free(later);
}

void later_answer(void *later, const struct error *result) {
    later_reply(later, result, NULL, 0);
}
