/* SPDX-License-Identifier: MIT */
/*
 * thread.c - a thread with a name, and without signals.
 *
 * pthread_create returns its error, and leaves errno as it was.
 */
#include "daemon/base/thread.h"
#include <errno.h>
#include <signal.h>

int thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg,
                 struct error *err) {
    sigset_t blocked, before;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGBUS);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGFPE);
    sigdelset(&blocked, SIGILL);
    sigdelset(&blocked, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int failed = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        errno = failed;
        return error_errno(err, RDMAD_E_SYSTEM, "cannot start the thread %s", name);
    }
    pthread_setname_np(*out, name);
    return 0;
}
