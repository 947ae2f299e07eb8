/* SPDX-License-Identifier: MIT */
/*
 * guard.c - memcpy and atomics that survive SIGBUS.
 *
 * Each access marks a place to come back to; the handler jumps there. An access saves no signal
 * mask (that would be a system call each): the handler puts back the one that it interrupted, which
 * the kernel hands it. The whole cost of an access that succeeds is a few nanoseconds.
 *
 * A SIGBUS that was not caused by such an access, or that somebody sent, has the default action.
 */
#include "daemon/base/guard.h"
#include <rdmad/abi.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>

static _Thread_local sigjmp_buf way_back;
static _Thread_local volatile sig_atomic_t guarded;
static _Thread_local const void *volatile fault_address;

static void on_sigbus(int signo, siginfo_t *info, void *context) {
    if (guarded && info->si_code > 0) { /* > 0: the kernel's, not somebody's kill */
        guarded = 0;
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

/* The compiler may not move the access out of its guard. */
static inline void guard_begin(void) {
    guarded = 1;
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void guard_end(void) {
    atomic_signal_fence(memory_order_seq_cst);
    guarded = 0;
}

const void *guard_copy(void *dst, const void *src, size_t n) {
    if (sigsetjmp(way_back, 0))
        return fault_address;
    guard_begin();
    memmove(dst, src, n); /* a session may hold a lease on its own pool: ranges can overlap */
    guard_end();
    return NULL;
}

const void *guard_cas(uint64_t *word, uint64_t compare, uint64_t swap, uint64_t *was) {
    if (sigsetjmp(way_back, 0))
        return fault_address;
    guard_begin();
    __atomic_compare_exchange_n(word, &compare, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    guard_end();
    *was = compare; /* where they differ, that is what was found */
    return NULL;
}

const void *guard_add(uint64_t *word, uint64_t add, uint64_t *was) {
    if (sigsetjmp(way_back, 0))
        return fault_address;
    guard_begin();
    uint64_t before = __atomic_fetch_add(word, add, __ATOMIC_SEQ_CST);
    guard_end();
    *was = before;
    return NULL;
}
