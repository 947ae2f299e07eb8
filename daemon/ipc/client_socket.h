/* SPDX-License-Identifier: MIT */
/*
 * client_socket.h - a socket with a client at its other end: packets are looked at before they are
 * received, and the last reference is dropped by somebody else.
 *
 * A packet may bring descriptors whose close waits for the client, and the kernel closes them in
 * the thread that receives the packet, or that drops the last reference to the socket in which it
 * is queued. So the daemon peeks, which takes nothing, and receives only a packet that was seen to
 * have no descriptor. Nobody else receives from the socket, so that is the packet it gets. A packet
 * with a descriptor stays where it is for the porter (ipc/porter.h), and a socket with anything
 * unread is shut down and left to the porter, too.
 */
#ifndef RDMAD_IPC_CLIENT_SOCKET_H
#define RDMAD_IPC_CLIENT_SOCKET_H

#include "daemon/base/user_id.h"
#include <stdbool.h>
#include <stddef.h>

struct client_socket;
struct porter;

/* Takes over a connected Unix socket, even if it fails. NULL: out of memory. */
struct client_socket *client_socket_new(struct porter *p, int fd, struct user_id who);
int client_socket_fd(const struct client_socket *s); /* for watching and for sending */

/* Receives the next packet, or from a stream what is there. *size: the room, then how many bytes
 * came; 0 is end of file. Returns 0, RDMAD_E_AGAIN, RDMAD_E_FDS (it has a descriptor, and was not
 * received) or RDMAD_E_SYSTEM. A packet that is longer than the room is cut, so leave room for one
 * byte more to notice that. */
int client_socket_read(struct client_socket *s, void *buf, size_t *size);

/* Has the porter receive the packet that client_socket_read did not: taken is called in a later
 * turn. data NULL: the porter ended while it looked. fd is the callee's: a memfd, or -1, or
 * PORTER_NO_PLACE, and nfds what came. */
typedef void client_socket_taken(void *user, const void *data, size_t size, int fd, unsigned nfds);
void client_socket_take(struct client_socket *s, client_socket_taken *taken, void *user);

/* The client sees the end at once. Frees s; taken is not called any more. */
void client_socket_close(struct client_socket *s);

#endif
