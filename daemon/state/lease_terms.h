/* SPDX-License-Identifier: MIT */
/*
 * lease_terms.h - which terms a lease may be granted on.
 */
#ifndef RDMAD_STATE_LEASE_TERMS_H
#define RDMAD_STATE_LEASE_TERMS_H

#include "daemon/state/lease_types.h"

int lease_check_terms(const struct pool *pool, const struct lease_terms *t, struct error *err);
int lease_check_ttl(const struct state *st, uint32_t flags, uint64_t ttl_ns, struct error *err);
/* Whether that one may become a lessee. */
int lease_check_scope(const struct lease *l, const struct lessee *who, struct error *err);
struct scope lease_scope(const struct lease_terms *terms);

/* What may be done with it, by whom, and its name: "to read and write, for uid 7, named \"x\"". */
#define LEASE_WORDS (128u + 2u * RDMAD_NAME_MAX)
const char *lease_words(const struct lease_terms *terms, char words[LEASE_WORDS]);

#endif
