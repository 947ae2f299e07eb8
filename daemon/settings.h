/* SPDX-License-Identifier: MIT */
/*
 * settings.h - the configuration as each part of the daemon wants to have it.
 */
#ifndef RDMAD_SETTINGS_H
#define RDMAD_SETTINGS_H

#include "daemon/config/config.h"
#include "daemon/config/rules.h"
#include "daemon/plane/plane.h"

/* All but what choice.c chooses (the fabrics) and what settings_look_up fills in. */
void settings_plane(const struct config *c, struct plane_settings *out);
/* The addresses that listen stands for. Asks the resolver, so only at the start. */
void settings_look_up(struct fabric_settings *out);

/* What a reload has changed: "a.b 1 -> 2, c true -> false at the next start, policy.users 1 rule ->
 * 2 rules from FILE:LINE on", as many as fit, and how many more there are. All zero: nothing. */
struct settings_changes {
    char text[RDMAD_TEXT_MAX + 1];
    size_t length;
    unsigned more;
};

/* Copies from loaded to live what may change while running, and says what did. A setting that needs
 * a restart and differs stays as it is; it is named in the log, and later is called for it. */
void settings_reload(struct config *live, const struct config *loaded,
                     struct settings_changes *changes, void (*later)(void *arg, const char *key),
                     void *arg);
/* The same of the rules and sockets; either may be NULL. Copies nothing. */
void settings_rules_changed(const struct rules *was, const struct rules *is,
                            struct settings_changes *changes,
                            void (*later)(void *arg, const char *key), void *arg);

#endif
