/* SPDX-License-Identifier: MIT */
/*
 * fdmsg.h - one packet with file descriptors over a Unix socket that keeps packets whole.
 *
 * Never blocks (MSG_DONTWAIT), never raises SIGPIPE. Descriptors that arrive are CLOEXEC at birth;
 * when the kernel cut the packet or the descriptor list short (MSG_TRUNC, MSG_CTRUNC), or more than
 * max_fds came, every one of them is closed and the result says so.
 */
#ifndef RDMAD_COMMON_FDMSG_H
#define RDMAD_COMMON_FDMSG_H

#include <rdmad/abi.h>
#include <sys/types.h>

/* Sends the packet. Returns 0, RDMAD_E_AGAIN when the socket is full, or RDMAD_E_SYSTEM (errno). */
int rdmad_fdmsg_send(int sock, const void *data, size_t size, const int *fds, unsigned nfds);

/*
 * Receives one packet into buf. *size: in room, out bytes received; 0 is end of file. fds has room
 * for max_fds, *nfds is how many came and are now the caller's to close. Returns 0, RDMAD_E_AGAIN
 * when nothing waits, RDMAD_E_LENGTH (packet larger than room; the rest of it is gone),
 * RDMAD_E_FDS (too many), or RDMAD_E_SYSTEM (errno).
 */
int rdmad_fdmsg_recv(int sock, void *buf, size_t *size, int *fds, unsigned max_fds, unsigned *nfds);

#endif
