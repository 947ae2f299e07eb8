/* SPDX-License-Identifier: MIT */
/*
 * drop.h - closes descriptors, which may be the last references, without waiting for what is queued
 * in them.
 */
#ifndef RDMAD_PORTER_DROP_H
#define RDMAD_PORTER_DROP_H

#include <sys/types.h>

#define DROP_MAX 60u

/* n is at most DROP_MAX. */
void drop_fds(const int *fds, unsigned n);

/* A child has ended; harmless if it is not one of drop.c's. */
void drop_ended(pid_t pid);

#endif
