/* SPDX-License-Identifier: MIT */
/*
 * stray.h - descriptors that a client sent and that nobody wants.
 *
 * The close of a file can wait for whoever is behind it: a file system that its user serves, a
 * socket that lingers. So no thread that others wait for closes such a descriptor; one of their own
 * does, one after the other. What is known not to wait (memfds) is closed at once.
 */
#ifndef RDMAD_BASE_STRAY_H
#define RDMAD_BASE_STRAY_H

#include <stdbool.h>

#define STRAYS_MAX 512u

/* Takes over fd. On any thread. */
void stray_close(int fd);
/* So many wait that no more should be taken: their senders make it wait. */
bool strays_full(void);

#endif
