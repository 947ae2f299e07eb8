/* SPDX-License-Identifier: MIT */
/*
 * registration.h - windows as registrations of exactly their range, in a PD of the peer alone.
 */
#ifndef RDMAD_FABRIC_VERBS_WINDOW_REGISTRATION_H
#define RDMAD_FABRIC_VERBS_WINDOW_REGISTRATION_H

#include "daemon/fabric/verbs/instance/protection.h"

extern const struct protection protection_registrations;

#endif
