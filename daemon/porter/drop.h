/* SPDX-License-Identifier: MIT */
/*
 * drop.h - closes descriptors, which may be the last references, without waiting for what is queued
 * in them, or for who watches them.
 */
#ifndef RDMAD_PORTER_DROP_H
#define RDMAD_PORTER_DROP_H

#include <stdint.h>
#include <sys/types.h>

#define DROP_MAX 2048u /* descriptors of one user that one process drops */

/* Takes over n descriptors of the user's, at most DROP_MAX. They are dropped now, or when those of
 * the same user that came before are. */
void drop_fds(uint64_t user, const int *fds, unsigned n);

/* A child has ended; harmless if it is not one of drop.c's. */
void drop_ended(pid_t pid);

#endif
