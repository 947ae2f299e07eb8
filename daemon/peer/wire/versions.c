/* SPDX-License-Identifier: MIT */
/*
 * versions.c - what this build says to other daemons. In a file of its own, so that tests can link
 * a daemon that speaks something else.
 */
#include "daemon/peer/wire/message.h"

const struct rdmad_versions peer_versions = {PEER_WIRE_OLDEST, PEER_WIRE_VERSION};
