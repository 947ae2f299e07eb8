/* SPDX-License-Identifier: MIT */
/*
 * part.h - what others have made of leases that this session granted.
 *
 * The program never hears of these leases. The library keeps what the daemon tells of each, and
 * shows it to the next one: then they are there again, with their URIs, for whoever has those.
 */
#ifndef RDMAD_LIBCLIENT_PART_H
#define RDMAD_LIBCLIENT_PART_H

#include "libclient/control/control.h"

/* What an event brings, with the lock. */
void rdmad_part_on_event(struct rdmad_session *s, const void *body);
/* With the lock: the lease of which they are parts has another number at the next daemon. */
void rdmad_parts_renumber(struct rdmad_session *s, uint64_t from, uint64_t to);
/* Shows all to the daemon that takes the session over, which has the session's leases already. What
 * it does not take has ended. */
void rdmad_parts_resume(struct rdmad_session *s);
void rdmad_parts_dispose(struct rdmad_session *s);

#endif
