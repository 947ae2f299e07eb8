/* SPDX-License-Identifier: MIT */
/*
 * delegate.h - leases made of leases: what a lessee may hand on to others.
 */
#ifndef RDMAD_STATE_DELEGATE_H
#define RDMAD_STATE_DELEGATE_H

#include "daemon/state/lease.h"

/* Makes a narrower lease of parent: of the same owner, scope and account. An owner whose session
 * can be resumed is told what that takes (part_told.h). */
int lease_delegate(struct lease *parent, const struct lease_part *part, struct lease **out,
                   struct error *err);
/* One that an earlier life of the daemon had made so, and of which s was told, is there again: with
 * its number and secret, and on the same terms, below the lease of s that has the number parent
 * now. It ends when it was to end, or with that lease if that is earlier. RDMAD_E_NO_LEASE: s was
 * not told of such a part. */
int lease_delegate_again(struct session *s, const struct rdmad_part *part, uint64_t parent,
                         struct lease **out, struct error *err);

#endif
