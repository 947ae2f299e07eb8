/* SPDX-License-Identifier: MIT */
/*
 * thread.h - starts a thread of the daemon: the one way to do that.
 *
 * Signals go to the control thread, except those that a thread's own instructions cause, and the
 * one that ends a wait for somebody else's socket (rouse.h).
 */
#ifndef RDMAD_BASE_THREAD_H
#define RDMAD_BASE_THREAD_H

#include "daemon/base/error.h"
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* The signal that ends a system call that waits; its handler does nothing. No thread blocks it. */
#define THREAD_WAKE_SIGNAL SIGRTMIN

struct thread_options {
    size_t stack_bytes; /* 0: the system's */
    bool detached;      /* nobody joins it */
};

/* The name has at most 15 bytes, for ps and top. out may be NULL for a detached thread, options
 * for one with none. 0, or RDMAD_E_SYSTEM with the cause, also in errno; err may be NULL. */
int thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg,
                 const struct thread_options *options, struct error *err);

/* Whether the caller is that thread: for what one thread alone may use. */
static inline bool thread_is(pthread_t thread) {
    return pthread_equal(thread, pthread_self());
}

#endif
