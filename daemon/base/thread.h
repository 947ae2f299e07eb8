/* SPDX-License-Identifier: MIT */
/*
 * thread.h - starts a thread of the daemon.
 *
 * Signals are the control thread's, except those that a thread's own instructions cause.
 */
#ifndef RDMAD_BASE_THREAD_H
#define RDMAD_BASE_THREAD_H

#include "daemon/base/error.h"
#include <pthread.h>

/* The name has at most 15 bytes, for ps and top. 0, or RDMAD_E_SYSTEM with the cause. */
int thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg,
                 struct error *err);

#endif
