/* SPDX-License-Identifier: MIT */
/*
 * tenants.h - the sockets of tenants: one each, to be mounted into a container as the only way to
 * rdmad. Who comes by one is known by it, besides what the kernel says, and is another user than
 * who has the same uid elsewhere (base/user_id.h).
 */
#ifndef RDMAD_TENANTS_H
#define RDMAD_TENANTS_H

#include "daemon/state/state.h"

struct tenants;

/* Listens on all sockets of st->config's rules. Directories that are missing above a socket are
 * made, if it is in the runtime directory. */
int tenants_new(struct state *st, struct tenants **out, struct error *err);
/* Whether they could be had (listener_check); makes nothing. */
int tenants_check(const struct state *st, struct error *err);
void tenants_pause(struct tenants *t); /* while stopping */
void tenants_suspend(struct tenants *t, bool on);
struct kept; /* ipc/kept.h */
/* As listener_tell has it. */
void tenants_tell(const struct tenants *t, struct kept *kept);
/* Their sockets are for the next life. */
void tenants_keep(struct tenants *t, struct kept *kept);
void tenants_free(struct tenants *t); /* NULL is allowed */

#endif
