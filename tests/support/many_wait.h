/* SPDX-License-Identifier: MIT */
/*
 * many_wait.h - a hundred thousand epolls' worth of waiters at one socket: whoever sends to its
 * other end calls each of them, which takes milliseconds of his time.
 */
#ifndef RDMAD_TEST_MANY_WAIT_H
#define RDMAD_TEST_MANY_WAIT_H

#include <stdbool.h>

enum { MANY_EPOLLS = 250, MANY_DUPS = 400 };

struct many_wait {
    int epolls[MANY_EPOLLS], dups[MANY_DUPS];
};

bool many_wait_begin(struct many_wait *m,
                     int sock); /* false: not so many can be made; errno says why */
void many_wait_end(struct many_wait *m);

#endif
