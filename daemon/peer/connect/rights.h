/* SPDX-License-Identifier: MIT */
/*
 * rights.h - what a peer may do here, by the name that it has proven (state/policy.h).
 *
 * Each refusal is a sentence for the peer, and in the audit log. A connection of this daemon to
 * itself is not asked: its lessees are sessions here.
 */
#ifndef RDMAD_PEER_CONNECT_RIGHTS_H
#define RDMAD_PEER_CONNECT_RIGHTS_H

#include "daemon/peer/control/record.h"
#include "daemon/state/policy.h"
#include "daemon/state/scope.h"

/* p as those know it who decide for whom something is. */
struct lessee rights_lessee(const struct peer *p);

/* Whether it may be a peer: it has said hello. */
int rights_to_connect(struct peer *p, struct error *err);
/* Whether its clients may attach to leases, connect to services, request memory. */
int rights_to_attach(struct peer *p, struct error *err);
/* The same for what is published as name; "": it has none. */
int rights_to_name(struct peer *p, const char *name, struct error *err);
/* Whether so many more bytes may be opened for it and all others of its name. */
int rights_to_open(struct peer *p, uint64_t bytes, struct error *err);
/* Whether one more connection of its name may be; those that it replaces are gone. */
int rights_to_place(struct peer *p, struct error *err);
/* Whether one more attach, one more that may notify, one more channel. */
int rights_to_hold(struct peer *p, struct error *err);
int rights_to_notify(struct peer *p, struct error *err);
int rights_to_channel(struct peer *p, struct error *err);
/* What all connections of that name have together. */
struct peer_use;
void rights_use(const struct peers *ps, const char *name, struct peer_use *out);
/* Which names it may see; until the next reload. */
const struct policy_prefixes *rights_to_see(const struct peer *p);

#endif
