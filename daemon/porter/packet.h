/* SPDX-License-Identifier: MIT */
/*
 * packet.h - one packet with at most one descriptor over a pair of ours. Both calls wait, unless
 * told otherwise.
 */
#ifndef RDMAD_PORTER_PACKET_H
#define RDMAD_PORTER_PACKET_H

#include <stdbool.h>
#include <stddef.h>

bool packet_send(int sock, const void *data, size_t size, int fd);

/* False: the other side is gone. *size is in and out; *fd is -1 where none came. wait false: *size
 * is 0 where nothing is there yet. */
bool packet_recv(int sock, void *data, size_t *size, int *fd, bool wait);

#endif
