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
/* Its name is free again. */
void lease_table_unname(struct lease *l);
/* Takes l out and remembers it. */
void lease_table_bury(struct leases *ls, const struct lease *l);

void lease_view_of(const struct lease *l, uint64_t now_ns, struct lease_view *out);

#endif
