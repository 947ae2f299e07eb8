/* SPDX-License-Identifier: MIT */
/*
 * binding.h - windows as type-2 memory windows over the pool's registration.
 */
#ifndef RDMAD_FABRIC_VERBS_WINDOW_BINDING_H
#define RDMAD_FABRIC_VERBS_WINDOW_BINDING_H

#include "daemon/fabric/verbs/instance/protection.h"

extern const struct protection protection_windows;

#endif
