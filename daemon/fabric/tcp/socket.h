/* SPDX-License-Identifier: MIT */
/*
 * socket.h - options of sockets, for data connections and the listener.
 */
#ifndef RDMAD_FABRIC_TCP_SOCKET_H
#define RDMAD_FABRIC_TCP_SOCKET_H

#include "daemon/fabric/fabric.h"
#include <netinet/in.h>
#include <sys/socket.h>

#define TCP_ADDRESS_TEXT (INET6_ADDRSTRLEN + 10)

int socket_prepare(int fd, const struct fabric_settings *s);    /* options of a data connection */
void socket_connected(int fd, const struct fabric_settings *s); /* the rest, once it is one */
void address_text(char out[TCP_ADDRESS_TEXT], const struct sockaddr_storage *a);

#endif
