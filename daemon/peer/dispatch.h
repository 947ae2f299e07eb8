/* SPDX-License-Identifier: MIT */
/*
 * dispatch.h - who handles which message.
 */
#ifndef RDMAD_PEER_DISPATCH_H
#define RDMAD_PEER_DISPATCH_H

#include "daemon/peer/control/record.h"

peer_handler dispatch_message;

#endif
