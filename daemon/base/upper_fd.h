/* SPDX-License-Identifier: MIT */
/*
 * upper_fd.h - what a daemon that is killed lets go of first.
 *
 * The kernel (since Linux 4.3) lets go of a dying process's descriptors from the highest number to
 * the lowest. A client can hold up the last close of a file that he was sent (state/closing.h), and
 * then what comes after that stays as well: ports, devices, the lock by which the next daemon knows
 * that this one is gone. So these, and the sockets by which others hear that it is gone, get
 * numbers from a bound on, and what clients share keeps the low number that the kernel gives it.
 *
 * Between the two lies the lifeline (base/lifeline.h). That holds as long as the low numbers do not
 * run out: half of RLIMIT_NOFILE, or 131072 (the unit has 524288), a doorbell for each ring and
 * what is on its way.
 */
#ifndef RDMAD_BASE_UPPER_FD_H
#define RDMAD_BASE_UPPER_FD_H

#include <stdbool.h>
#include <stdint.h>

/* The least number of what is moved: the same for the process's whole life. */
int upper_fd_least(void);

/* Gives a descriptor that closes with an exec a number from the least on, and returns it. One that
 * cannot have one, or is negative, stays as it is. errno stays, too. Threads may call it, for
 * descriptors of their own. */
int upper_fd(int fd);

/* Whether fd, which upper_fd has returned, has such a number, and one below bound. The kernel gives
 * out the lowest that is free, so this says that so many are not in use yet. */
bool upper_fd_is_below(int fd, uint64_t bound);

#endif
