/* SPDX-License-Identifier: MIT */
/*
 * client_socket.h - a socket at whose other end is a client: looked at before it is received
 * from, and let go of by somebody else.
 *
 * A packet may bring descriptors whose close waits for the client, and the kernel closes them in
 * the name of who receives the packet, or of who lets go of the socket in which it is queued. So
 * the daemon peeks, which takes nothing, and receives only a packet of which it has seen that there
 * is no descriptor with it: nobody else receives from the socket, so that is the packet it gets.
 * What has one stays where it is for the porter (ipc/porter.h), and a socket with anything unread
 * is shut down and left to the porter, too.
 */
#ifndef RDMAD_IPC_CLIENT_SOCKET_H
#define RDMAD_IPC_CLIENT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct client_socket;
struct porter;

/* Takes over a connected Unix socket, whatever it returns. NULL: out of memory. */
struct client_socket *client_socket_new(struct porter *p, int fd, uid_t uid);
int client_socket_fd(const struct client_socket *s); /* for watching and for sending */

/* The next packet, or of a stream what is there. *size: room, then bytes; 0 is end of file. 0,
 * RDMAD_E_AGAIN, RDMAD_E_FDS (there is a descriptor with it: nothing was received) or
 * RDMAD_E_SYSTEM. A packet that is longer than the room is cut, so leave a byte to see it. */
int client_socket_read(struct client_socket *s, void *buf, size_t *size);

/* Has the porter receive the packet that client_socket_read did not: taken is called in a later
 * turn. data NULL: the porter ended while it looked. fd is the callee's: a memfd, or -1, or
 * PORTER_NO_PLACE, and nfds what came. */
typedef void client_socket_taken(void *user, const void *data, size_t size, int fd, unsigned nfds);
void client_socket_take(struct client_socket *s, client_socket_taken *taken, void *user);

/* The client sees the end at once. Frees s; taken is not called any more. */
void client_socket_close(struct client_socket *s);

#endif
