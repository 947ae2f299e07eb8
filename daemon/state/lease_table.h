/* SPDX-License-Identifier: MIT */
/*
 * lease_table.h - where lease.c finds its leases, and what is remembered of those that ended.
 *
 * Inner to state/: others use lease.h.
 */
#ifndef RDMAD_STATE_LEASE_TABLE_H
#define RDMAD_STATE_LEASE_TABLE_H

#include "daemon/state/lease.h"

/* Numbers l, gives it a secret and puts it in, also under its name if it has one.
 * RDMAD_E_EXISTS when the name is taken. */
int lease_table_add(struct leases *ls, struct lease *l, struct error *err);
/* Takes l out and remembers it. */
void lease_table_bury(struct leases *ls, const struct lease *l);

/* Of lease.c, for delegate.c and budget.c: as lease_grant, without a look at the terms, and the
 * data plane is not told of it. */
int lease_make(struct pool *pool, const struct lease_terms *terms, struct lease **out,
               struct error *err);
struct scope lease_scope(const struct lease_terms *terms);

/* lease_terms.c */
int lease_check_terms(const struct pool *pool, const struct lease_terms *t, struct error *err);
int lease_check_ttl(const struct state *st, uint32_t flags, uint64_t ttl_ns, struct error *err);

/* lease_told.c: the client hears that l, its own, ended: now, or when it reads again. Takes over l
 * and its charge. */
void lease_tell_owner(struct lease *l);
/* The client is gone and hears of nothing any more. */
void leases_forget_untold(struct session *s);

void lease_view_of(const struct lease *l, uint64_t now_ns, struct lease_view *out);

#endif
