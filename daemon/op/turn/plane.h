/* SPDX-License-Identifier: MIT */
/*
 * plane.h - a data plane without threads.
 */
#ifndef RDMAD_OP_PLANE_H
#define RDMAD_OP_PLANE_H

#include "daemon/plane/plane.h"

/* Makes workers without threads; plane_start then starts them, tests turn them by hand. */
int plane_assemble(const struct plane_settings *settings, const struct plane_events *events,
                   struct mailbox *control, uint64_t now_ns, struct plane **out, struct error *err);
void plane_dismantle(struct plane *p);

#endif
