/* SPDX-License-Identifier: MIT */
/*
 * lanes.h - what a fabric says of a lane's link; the lane is the link's cookie.
 */
#ifndef RDMAD_OP_SEAM_LANES_H
#define RDMAD_OP_SEAM_LANES_H

#include "daemon/base/error.h"

/* fabric_env's link_up and link_lost. */
void lane_link_up(void *worker, void *cookie);
void lane_link_lost(void *worker, void *cookie, const struct error *why);

#endif
