/* SPDX-License-Identifier: MIT */
/*
 * handle_keep.h - a lessee keeps a lease: its owner is asked for renewal whenever it is time.
 *
 * It asks again when a third of the time is left. If a renewal was not needed yet, or did not come,
 * the pauses get shorter and shorter, down to 20 ms.
 */
#ifndef RDMAD_STATE_HANDLE_KEEP_H
#define RDMAD_STATE_HANDLE_KEEP_H

#include "daemon/state/handle_types.h"

/* on: asks the owner for renewal, at once and from then on whenever it is time; off: no more. done:
 * the owner keeps the lease, or why not (it is not RDMAD_LEASE_RENEWABLE, or no answer came). */
void handle_keep(struct handle *h, bool on, plane_done *done, void *arg);
void handle_kept(struct handle *h, const struct error *result);

/* Of a new handle; when it lasts longer now; and when it ends. */
void handle_keep_init(struct handle *h);
void handle_keep_again(struct handle *h);
void handle_keep_stop(struct handle *h);
/* The owner's daemon is back: what it was asked may have gone with the connection. */
void handle_keep_once_more(struct handle *h);

#endif
