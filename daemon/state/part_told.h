/* SPDX-License-Identifier: MIT */
/*
 * part_told.h - what an owner's client is told of the leases that others made of its own.
 *
 * A program never hears of them. But its library, in a session that can be resumed, is told what
 * each is and the proof of that, so that it can show both to a later life of the daemon
 * (lease_delegate_again): nobody else is sure to be there then. Whoever attached may know of one
 * lease of many, whoever made one keeps nothing of it.
 *
 * A client that does not read is told when it reads again. Nothing is kept meanwhile of a part that
 * ends: instead the client is told that all is void, and what there is.
 */
#ifndef RDMAD_STATE_PART_TOLD_H
#define RDMAD_STATE_PART_TOLD_H

#include "daemon/state/lease_types.h"

/* l, which has a parent, is there, or its deadline is another. */
void part_tell(struct lease *l);
/* l, which has a parent, has ended. Takes it over, with its charge. */
void part_tell_end(struct lease *l);
/* The client is gone and hears of nothing any more. */
void parts_forget_untold(struct session *s);

#endif
