/* SPDX-License-Identifier: MIT */
/*
 * later.h - a request that is answered in a later turn of the loop, with its session held.
 */
#ifndef RDMAD_SERVE_LATER_H
#define RDMAD_SERVE_LATER_H

#include "daemon/serve/reply.h"

/* NULL: out of memory, and the request has been failed. */
struct request *later_new(const struct request *rq);
void later_free(struct request *later); /* lets go of the session */

/* Answers with result if that is an error, else with the body, and frees later. */
void later_reply(struct request *later, const struct error *result, const void *body, size_t size);
/* A plane_done: answers with result if that is an error, else with an empty body, and frees later.
 */
void later_answer(void *later, const struct error *result);

#endif
