/* SPDX-License-Identifier: MIT */
/*
 * scope.h - who may attach to a lease.
 *
 * The identity of a lessee is what the kernel says: the uid of a session's socket, the address of a
 * peer's. Addresses are compared as numbers, so that every spelling of one is the same.
 */
#ifndef RDMAD_STATE_SCOPE_H
#define RDMAD_STATE_SCOPE_H

#include "daemon/state/lease.h"

/* Checks the terms' scope as asked for at grant. */
int scope_validate(const struct lease_terms *terms, struct error *err);
/* Whether who may attach to l. */
int scope_check(const struct lease *l, const struct lessee *who, struct error *err);

#endif
