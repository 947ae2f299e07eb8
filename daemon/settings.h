/* SPDX-License-Identifier: MIT */
/*
 * settings.h - the configuration as each part of the daemon wants to have it.
 */
#ifndef RDMAD_SETTINGS_H
#define RDMAD_SETTINGS_H

#include "daemon/config/config.h"
#include "daemon/plane/plane.h"

/* All but the choice of fabric, which is choice.c's, and settings_look_up's. */
void settings_plane(const struct config *c, struct plane_settings *out);
/* What listen stands for. Asks the resolver: at the start alone. */
void settings_look_up(struct fabric_settings *out);

/* Takes over from loaded into live what may change while running; each setting that needs a restart
 * and differs is named in the log and to later, and stays. */
void settings_reload(struct config *live, const struct config *loaded,
                     void (*later)(void *arg, const char *key), void *arg);

#endif
