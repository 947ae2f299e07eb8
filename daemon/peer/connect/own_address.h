/* SPDX-License-Identifier: MIT */
/*
 * own_address.h - at which address this daemon is reached.
 */
#ifndef RDMAD_PEER_CONNECT_OWN_ADDRESS_H
#define RDMAD_PEER_CONNECT_OWN_ADDRESS_H

#include "daemon/peer/control/record.h"

/* Notes the address that the listener fd is bound to, and from that and host (as configured) what
 * URIs of this daemon say. */
int own_address_note(struct peers *ps, int fd, const char *host, struct error *err);
/* The address at which this daemon can dial itself. */
void own_address_dialled(const struct peers *ps, char host[RDMAD_HOST_MAX + 1], uint16_t *port);
/* The address that others are told to dial: the one we listen on; "": the one we come from. */
void own_address_told(const struct peers *ps, char host[RDMAD_NAME_MAX + 1]);

#endif
