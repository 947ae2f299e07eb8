/* SPDX-License-Identifier: MIT */
/*
 * lease_told.h - what is said of the end of a lease: to whoever comes too late, and to its owner.
 */
#ifndef RDMAD_STATE_LEASE_TOLD_H
#define RDMAD_STATE_LEASE_TOLD_H

#include "daemon/state/lease_types.h"

/* "lease 7 expired 1.2 s ago; ask its owner for a new one" */
int lease_ended_error(uint64_t id, int reason, uint64_t ago_ns, struct error *err);

/* The client hears that l, its own, ended: now, or when it reads again. Of others it has not heard,
 * but perhaps of parts (part_told.h). Takes over l and its charge. */
void lease_tell_owner(struct lease *l);
/* The client is gone and hears of nothing any more. */
void leases_forget_untold(struct session *s);

#endif
