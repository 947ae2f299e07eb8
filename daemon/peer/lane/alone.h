/* SPDX-License-Identifier: MIT */
/*
 * alone.h - whose lanes are nobody else's: the setting peer.private_links.
 */
#ifndef RDMAD_PEER_LANE_ALONE_H
#define RDMAD_PEER_LANE_ALONE_H

#include "daemon/state/session.h"

/* Whether the session has lanes of its own. */
bool lane_is_alone(const struct session *s);

#endif
