/* SPDX-License-Identifier: MIT */
/*
 * thread.c - a thread with a name, and without signals.
 *
 * pthread_create returns its error, and leaves errno as it was. A detached thread may be over
 * before we have named it, so it is detached after that.
 */
#include "daemon/base/thread.h"
#include <assert.h>
#include <errno.h>
#include <string.h>

static int thread_create(pthread_t *thread, void *(*run)(void *), void *arg, size_t stack_bytes) {
    pthread_attr_t attr;
    int failed = pthread_attr_init(&attr);
    if (failed)
        return failed;
    if (stack_bytes)
        failed = pthread_attr_setstacksize(&attr, stack_bytes);
    if (!failed)
        failed = pthread_create(thread, &attr, run, arg);
    pthread_attr_destroy(&attr);
    return failed;
}

int thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg,
                 const struct thread_options *options, struct error *err) {
    static const struct thread_options none;
    sigset_t blocked, before;
    pthread_t thread;
    if (!options)
        options = &none;
    assert(strlen(name) <= 15 && (out || options->detached));
    sigfillset(&blocked);
    sigdelset(&blocked, SIGBUS);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGFPE);
    sigdelset(&blocked, SIGILL);
    sigdelset(&blocked, SIGABRT);
    sigdelset(&blocked, THREAD_WAKE_SIGNAL);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int failed = thread_create(&thread, run, arg, options->stack_bytes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        errno = failed;
        error_errno(err, RDMAD_E_SYSTEM, "cannot start the thread %s", name);
        errno = failed;
        return RDMAD_E_SYSTEM;
    }
    pthread_setname_np(thread, name);
    if (out)
        *out = thread;
    if (options->detached)
        pthread_detach(thread);
    return 0;
}
