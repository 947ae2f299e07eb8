/* SPDX-License-Identifier: MIT */
/*
 * settings.h - the configuration as each part of the daemon wants to have it.
 */
#ifndef RDMAD_SETTINGS_H
#define RDMAD_SETTINGS_H

#include "daemon/config/config.h"
#include "daemon/plane/plane.h"

/* All but what choice.c chooses (the fabrics) and what settings_look_up fills in. */
void settings_plane(const struct config *c, struct plane_settings *out);
/* The addresses that listen stands for. Asks the resolver, so only at the start. */
void settings_look_up(struct fabric_settings *out);

/* Copies from loaded to live what may change while running. A setting that needs a restart and
 * differs stays as it is; it is named in the log, and later is called for it. */
void settings_reload(struct config *live, const struct config *loaded,
                     void (*later)(void *arg, const char *key), void *arg);

#endif
