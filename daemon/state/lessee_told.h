/* SPDX-License-Identifier: MIT */
/*
 * lessee_told.h - that a session is lessee of a lease, and is no more, for events and the audit.
 *
 * A lease of another daemon has a number of that daemon's, which is not to be taken for a lease of
 * this one: here it is an "attach", and the words say at which daemon its owner is.
 *
 * uri: as the session named the lease, without the secret; NULL: it is reached on this daemon, else
 * by a link.
 */
#ifndef RDMAD_STATE_LESSEE_TOLD_H
#define RDMAD_STATE_LESSEE_TOLD_H

#include "daemon/state/session.h"

void lessee_told(const struct session *s, uint64_t lease, const char *uri);
void lessee_told_end(const struct session *s, uint64_t lease, const char *uri, const char *why);

#endif
