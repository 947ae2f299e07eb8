/* SPDX-License-Identifier: MIT */
/*
 * exchange.h - connecting by numbers that travel over the control connection.
 */
#ifndef RDMAD_FABRIC_VERBS_CONNECT_EXCHANGE_H
#define RDMAD_FABRIC_VERBS_CONNECT_EXCHANGE_H

#include "daemon/fabric/verbs/instance/way.h"

extern const struct connect_way connect_exchange;

#endif
