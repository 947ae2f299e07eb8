/* SPDX-License-Identifier: MIT */
/*
 * attach.h - what every way to attach has in common: attach.c by a lease's URI, request.c by a
 * service's.
 */
#ifndef RDMAD_SERVE_ATTACH_H
#define RDMAD_SERVE_ATTACH_H

#include "common/uri.h"
#include "daemon/serve/attach_again.h"
#include "daemon/serve/reply.h"
#include "daemon/state/handle.h"

struct attach_call { /* holds the session */
    struct request rq;
    struct handle *handle; /* gone when the attach failed */
    struct attach_again again;
};

/* A call with a handle for what uri names; NULL: the client has been told why not. */
struct attach_call *attach_call_new(const struct request *rq, const struct rdmad_uri *uri);
/* A plane_done: answers the client and frees the call. */
void attach_done(void *call, const struct error *result);
/* Answers with why and frees the call and its handle, which is still NEW. */
void attach_failed(struct attach_call *call, const struct error *why);
uint64_t attach_timeout(const struct state *st, uint64_t asked_ns);
/* field is a client's text of RDMAD_URI_MAX + 1; what: "lease" or "service". */
int attach_parse_uri(const char *field, const char *what, struct rdmad_uri *uri, struct error *err);

/* Attaches, and answers; the handle gets that number, or if it is 0 any. */
void attach_by_number(const struct request *rq, const struct rdmad_lease_attach_req *req,
                      uint64_t number);

#endif
