/* SPDX-License-Identifier: MIT */
/*
 * cargo.h - descriptors that a hostile client sends: the kernel makes wait who closes the last one.
 */
#ifndef RDMAD_TEST_CARGO_H
#define RDMAD_TEST_CARGO_H

/* A TCP socket with bytes that nobody takes, which lingers for seconds when it is closed. The
 * listener, whose queue is its other end, stays open in this process. */
int cargo_lingering(int seconds);

/* A Unix socket in which fd is queued, which is closed: gone with the last reference to this one.
 */
int cargo_inside(int fd);
/* Takes over fd: queued in a socket that is queued in itself, so nobody has them any more, and the
 * kernel finds out when it looks. */
void cargo_circle(int fd);

#endif
