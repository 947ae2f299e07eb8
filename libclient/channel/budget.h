/* SPDX-License-Identifier: MIT */
/*
 * budget.h - memory that a service gives to those who ask: lent as a whole, and handed over in
 * pieces.
 */
#ifndef RDMAD_LIBCLIENT_BUDGET_H
#define RDMAD_LIBCLIENT_BUDGET_H

#include "libclient/channel/service.h"

/* Copies the budget of terms, if it has one, into the request; *lent lends its memory. */
int rdmad_budget_fill(struct rdmad_session *s, const struct rdmad_service_terms *terms,
                      struct rdmad_service_listen_req *out, struct rdmad_lent *lent);
/* With the lock: what was handed over is nobody's affair any more. */
void rdmad_budget_forget(struct rdmad_service *service);

/* With the lock: says what is kept of the budget, as much as fits, beyond the first *from of it,
 * which is moved on. */
void rdmad_budget_keep(const struct rdmad_service *service, size_t *from, struct rdmad_kept *out);

/* What an event brings, with the lock. */
void rdmad_service_on_handed_over(struct rdmad_session *s, const void *body);

#endif
