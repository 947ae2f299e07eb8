/* SPDX-License-Identifier: MIT */
/*
 * daemon.h - the owner of every object, and of the order in which they start and stop.
 */
#ifndef RDMAD_DAEMON_H
#define RDMAD_DAEMON_H

#include "daemon/options.h"

/* What config holds (config_free) is the daemon's from then on. Runs until SIGTERM or SIGINT.
 * Returns the exit code: 0 after a clean stop, 1 when starting failed (logged) or when stopping did
 * not end within its bound. */
int daemon_run(const struct options *options, const struct config *config);

#endif
