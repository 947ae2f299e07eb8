/* SPDX-License-Identifier: MIT */
/*
 * delegate.h - leases made of leases: what a lessee may hand on to others.
 */
#ifndef RDMAD_STATE_DELEGATE_H
#define RDMAD_STATE_DELEGATE_H

#include "daemon/state/lease.h"

/* Makes a narrower lease of parent: of the same owner, scope and account. */
int lease_delegate(struct lease *parent, const struct lease_part *part, struct lease **out,
                   struct error *err);

#endif
