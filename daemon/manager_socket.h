/* SPDX-License-Identifier: MIT */
/*
 * manager_socket.h - a message to the service manager, which nobody waits for.
 *
 * libsystemd's sd_notify waits while the manager does not read, and with it would the thread that
 * every client needs. What it sends, and where to, is in sd_notify(3), and promised to stay.
 */
#ifndef RDMAD_MANAGER_SOCKET_H
#define RDMAD_MANAGER_SOCKET_H

#include <stdbool.h>

/* To the socket that $NOTIFY_SOCKET names, if it names one. False: the manager has not read what
 * came before, and this is to be sent again. */
bool manager_socket_send(const char *text);

#endif
