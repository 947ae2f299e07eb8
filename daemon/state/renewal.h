/* SPDX-License-Identifier: MIT */
/*
 * renewal.h - a lease's new deadline reaches its lessees, however many they are.
 *
 * An owner renews as often as it likes, and has as many lessees as limits let. So the first few
 * hear at once, and the others, and all lessees of its parts, in passes of the control thread,
 * which have a bound for all leases together. A renewal that comes meanwhile costs no pass of its
 * own: whoever has not heard yet hears the newest deadline only.
 */
#ifndef RDMAD_STATE_RENEWAL_H
#define RDMAD_STATE_RENEWAL_H

#include "daemon/base/list.h"
#include "daemon/base/timers.h"

struct lease;
struct state;

/* Lessees of a lease that hear at once, and those of a pass. */
#define RENEWAL_AT_ONCE 16u
#define RENEWAL_A_PASS 64u

struct renewals {
    struct state *state;
    struct list behind; /* leases with lessees that have not heard */
    struct timer pass;
};

void renewals_init(struct renewals *rs, struct state *st);
void renewals_fini(struct renewals *rs); /* every lease has ended */

/* deadline_ns of l has moved. */
void renewal_tell(struct renewals *rs, struct lease *l);
/* l is not LIVE any more: nobody needs to hear. */
void renewal_end(struct lease *l);

#endif
