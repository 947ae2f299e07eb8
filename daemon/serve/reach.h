/* SPDX-License-Identifier: MIT */
/*
 * reach.h - where a session may go.
 */
#ifndef RDMAD_SERVE_REACH_H
#define RDMAD_SERVE_REACH_H

#include "daemon/state/session.h"

struct rdmad_uri;

/* Whether the session may go where uri leads: by the policy, and by whose socket it came. 0, or
 * RDMAD_E_* and why. here: it leads to this daemon. */
int serve_check_reach(const struct session *s, const struct rdmad_uri *uri, bool here,
                      struct error *err);

/* Whether it may have the daemon at host dialled. */
int serve_check_peer(const struct session *s, const char *host, struct error *err);

#endif
