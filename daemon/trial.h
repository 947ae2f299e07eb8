/* SPDX-License-Identifier: MIT */
/*
 * trial.h - rdmad --check-config: whether a daemon with these options would start here and now, as
 * the user who asks, as far as that is seen without taking anything from one that runs.
 *
 * It asks by what a start itself does (ground.h), or by a look beside that (listener_check and the
 * like): the settings, the machine, the runtime directory, the identity and whose name it has, the
 * audit's file, the fabric, where peers reach it, the sockets' places. Not: whether there is
 * memory, a thread, a descriptor, or a device that works.
 *
 * Where the daemon that runs asks, before an upgrade, it has told what the next life will have from
 * it (handover_for_trial). Else nobody knows whose it is that something is taken here, so that is
 * no reason to say no.
 */
#ifndef RDMAD_TRIAL_H
#define RDMAD_TRIAL_H

#include "daemon/options.h"

int trial_of_start(const struct options *o, struct error *err);

#endif
