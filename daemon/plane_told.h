/* SPDX-License-Identifier: MIT */
/*
 * plane_told.h - what the data plane tells by itself, and who hears of it: sessions, peers,
 * channels, the audit.
 */
#ifndef RDMAD_PLANE_TOLD_H
#define RDMAD_PLANE_TOLD_H

#include "daemon/plane/plane.h"

struct state;

struct plane_events plane_told_events(struct state *st);

#endif
