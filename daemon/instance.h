/* SPDX-License-Identifier: MIT */
/*
 * instance.h - what a process must do about its surroundings before it may be a daemon: its runtime
 * directory, held by one daemon at a time, and room for descriptors.
 */
#ifndef RDMAD_INSTANCE_H
#define RDMAD_INSTANCE_H

#include "daemon/base/error.h"
#include "daemon/config/config.h"
#include <stdbool.h>

/* Makes dir if missing (0755) and locks it. Returns the lock's descriptor, to be kept open, or
 * RDMAD_E_BUSY when another daemon has it, or RDMAD_E_SYSTEM. */
int instance_lock(const char *dir, struct error *err);

/* Whether that would succeed; makes nothing, and takes the lock for a moment at most. taken: who
 * has it will let go of it, or is not known. */
int instance_check(const char *dir, bool taken, struct error *err);

/* Raises RLIMIT_NOFILE as far as it may. Returns how many descriptors peers may use, since the last
 * are kept for clients; 0: any number. Logs it when there are fewer descriptors than the limits
 * allow clients and peers to use, or to make us keep. */
uint64_t instance_raise_limits(const struct config *c);
/* Raises RLIMIT_MEMLOCK likewise. Logs it when pools and rings, which may have pool_bytes, may be
 * swapped out: a worker that touches such a page waits for the disk. */
void instance_check_lock(uint64_t pool_bytes);

#endif
