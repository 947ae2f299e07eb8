/* SPDX-License-Identifier: MIT */
/*
 * guard.c - memcpy that survives SIGBUS.
 *
 * Each copy marks a place to come back to; the handler jumps there. A copy saves no signal mask
 * (that would be a system call each): the handler puts back the one that it interrupted, which the
 * kernel hands it. The whole cost of a copy that succeeds is a few nanoseconds.
 *
 * A SIGBUS that no copy caused, or that somebody sent, gets the default action.
 */
#include "daemon/base/guard.h"
#include <rdmad/abi.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

static _Thread_local sigjmp_buf way_back;
static _Thread_local volatile sig_atomic_t copying;
static _Thread_local const void *volatile fault_address;

static void on_sigbus(int signo, siginfo_t *info, void *context) {
    if (copying && info->si_code > 0) { /* > 0: the kernel's, not somebody's kill */
        copying = 0;
        fault_address = info->si_addr;
        pthread_sigmask(SIG_SETMASK, &((ucontext_t *)context)->uc_sigmask, NULL);
        siglongjmp(way_back, 1);
    }
    signal(signo, SIG_DFL);
    raise(signo); /* takes effect when the handler returns */
}

int guard_install(void) {
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, NULL) ? RDMAD_E_SYSTEM : 0;
}

const void *guard_copy(void *dst, const void *src, size_t n) {
    if (sigsetjmp(way_back, 0))
        return fault_address;

    /* The compiler may not move the copy out of its guard. */
    copying = 1;
    atomic_signal_fence(memory_order_seq_cst);
    memmove(dst, src, n); /* a session may hold a lease on its own pool: ranges can overlap */
    atomic_signal_fence(memory_order_seq_cst);
    copying = 0;
    return NULL;
}
