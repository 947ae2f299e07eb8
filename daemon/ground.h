/* SPDX-License-Identifier: MIT */
/*
 * ground.h - what a start stands on, found out without taking anything: by the daemon that starts,
 * and by the trial of one that might (trial.h).
 */
#ifndef RDMAD_GROUND_H
#define RDMAD_GROUND_H

#include "daemon/choice.h"
#include "daemon/ipc/listener.h"
#include "daemon/state/state.h"

/* st->node_name, until there is an identity: that of the settings, or the host's. */
void ground_name(struct state *st);

/* The fabrics, and all that the plane is told but those. Opens devices for a moment. Without a
 * bound of descriptors: 0. */
int ground_fabric(const struct config *c, uint64_t descriptors, struct plane_settings *out,
                  struct fabric_choice *choice, struct error *err);

/* The socket of clients; spec's path is path. RDMAD_E_CONFIG: there is no socket_group. */
#define GROUND_PATH_MAX 128u
int ground_clients(const struct state *st, char path[GROUND_PATH_MAX], struct listener_spec *spec,
                   struct error *err);

#endif
