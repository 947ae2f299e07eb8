/* SPDX-License-Identifier: MIT */
/*
 * lease_audit.h - how a lease was used.
 */
#ifndef RDMAD_STATE_LEASE_AUDIT_H
#define RDMAD_STATE_LEASE_AUDIT_H

#include "daemon/state/lease_types.h"

/* All use of it so far. */
void lease_audit(const struct lease *l, struct fabric_audit *out);
/* What the lessee's daemon says of its use; ignored where it is less than it said before. */
void attachment_said(struct attachment *a, const struct lease_said *said);
void lease_said(const struct lease *l, struct lease_said *out);
void lease_audit_keep(struct lease *l, const struct attachment *a); /* a is about to go */

#endif
