/* SPDX-License-Identifier: MIT */
/*
 * guard_fault.c - guard mode's handler of SIGSEGV, and its sentences.
 *
 * The happy path is the unhappy one: the address lies in a guarded pool, on a page that is dead, or
 * in the range of an op in flight; the sentence says which, and the program is aborted. When no op
 * holds that very byte, the page is opened and the access goes on. Faults anywhere else go to the
 * handler that was there before.
 *
 * Only async-signal-safe functions are called here (mprotect is one in practice). The lock is a
 * word: a thread that faults while it has the lock itself, in a handler of the program's for
 * example, goes on without.
 */
#include "libclient/memory/guard_fault.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum access { ACCESS_READ, ACCESS_WRITE, ACCESS_ANY /* the machine does not tell */ };

static int owner; /* atomic: the thread that has the lock; 0: none */
static struct rdmad_guard *guards;
static struct sigaction before;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

/* ---- sentences ----------------------------------------------------------------------------- */

void rdmad_guard_say(struct rdmad_guard_text *t, const char *words) {
    while (*words && t->used < sizeof(t->buf) - 1) /* room for the end of the line */
        t->buf[t->used++] = *words++;
}

void rdmad_guard_say_number(struct rdmad_guard_text *t, uint64_t number, unsigned base) {
    char digits[24];
    size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    do
        digits[--at] = "0123456789abcdef"[number % base];
    while ((number /= base) != 0);
    rdmad_guard_say(t, digits + at);
}

void rdmad_guard_say_buffer(struct rdmad_guard_text *t, const struct rdmad_guard *g,
                            const struct rdmad_guard_page *page) {
    const struct rdmad_guard_page *first = &g->page[page->first];

    rdmad_guard_say(t, "buffer 0x");
    rdmad_guard_say_number(t, (uintptr_t)g->base + (uint64_t)page->first * RDMAD_GUARD_PAGE, 16);
    rdmad_guard_say(t, " (");
    rdmad_guard_say_number(t, first->bytes, 10);
    rdmad_guard_say(t, " bytes, allocated by rdmad_alloc)");
}

void rdmad_guard_say_op(struct rdmad_guard_text *t, const struct rdmad_hold *hold) {
    rdmad_guard_say(t, "op ");
    rdmad_guard_say(t, rdmad_hold_opcode_name(hold->opcode));
    rdmad_guard_say(t, " (user_data ");
    rdmad_guard_say_number(t, hold->user_data, 10);
    rdmad_guard_say(t, ") of ");
    rdmad_guard_say(t, rdmad_hold_object_name(hold->opcode));
    rdmad_guard_say(t, " ");
    rdmad_guard_say_number(t, hold->object, 10);
}

void rdmad_guard_print(struct rdmad_guard_text *t) {
    t->buf[t->used++] = '\n';
    for (size_t at = 0; at < t->used;) {
        ssize_t n = write(STDERR_FILENO, t->buf + at, t->used - at);
        if (n <= 0 && errno != EINTR)
            break;
        at += n > 0 ? (size_t)n : 0;
    }
}

_Noreturn void rdmad_guard_abort(struct rdmad_guard_text *t) {
    rdmad_guard_print(t);
    abort();
}

/* ---- the lock ------------------------------------------------------------------------------ */

static bool guard_try_lock(int me) {
    int nobody = 0;
    return __atomic_compare_exchange_n(&owner, &nobody, me, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

void rdmad_guard_lock(void) {
    int me = gettid();
    while (!guard_try_lock(me))
        sched_yield();
}

void rdmad_guard_unlock(void) {
    __atomic_store_n(&owner, 0, __ATOMIC_RELEASE);
}

void rdmad_guard_lock_in_child(void) {
    rdmad_guard_unlock();
}

/* ---- judging ------------------------------------------------------------------------------- */

static enum access access_of(const void *context) {
#ifdef __x86_64__
    const ucontext_t *uc = context;
    return uc->uc_mcontext.gregs[REG_ERR] & 2 ? ACCESS_WRITE : ACCESS_READ;
#else
    (void)context;
    return ACCESS_ANY;
#endif
}

static const char *access_name(enum access access) {
    return access == ACCESS_READ ? "read" : access == ACCESS_WRITE ? "write" : "access";
}

static _Noreturn void fault_report_dead(const struct rdmad_guard *g,
                                        const struct rdmad_guard_page *page, uint64_t offset,
                                        enum access access) {
    struct rdmad_guard_text t = {.used = 0};

    rdmad_guard_say(&t, "rdmad guard: use of ");
    rdmad_guard_say_buffer(&t, g, page);
    rdmad_guard_say(&t, " after rdmad_free: ");
    rdmad_guard_say(&t, access_name(access));
    rdmad_guard_say(&t, " at +");
    rdmad_guard_say_number(&t, offset - (uint64_t)page->first * RDMAD_GUARD_PAGE, 10);
    rdmad_guard_abort(&t);
}

static _Noreturn void fault_report_conflict(const struct rdmad_guard *g,
                                            const struct rdmad_guard_page *page, uint64_t offset,
                                            enum access access, const struct rdmad_hold *hold) {
    struct rdmad_guard_text t = {.used = 0};

    if (!hold->writes)
        access = ACCESS_WRITE; /* the page can be read */
    rdmad_guard_say(&t, "rdmad guard: ");
    rdmad_guard_say(&t, access_name(access));
    rdmad_guard_say(&t, access == ACCESS_READ ? " of " : " to ");
    if (page->state == RDMAD_GUARD_LIVE) {
        rdmad_guard_say_buffer(&t, g, page);
        rdmad_guard_say(&t, " at +");
        rdmad_guard_say_number(&t, offset - (uint64_t)page->first * RDMAD_GUARD_PAGE, 10);
    } else {
        rdmad_guard_say(&t, "memory of pool ");
        rdmad_guard_say_number(&t, g->number, 10);
        rdmad_guard_say(&t, " at +");
        rdmad_guard_say_number(&t, offset, 10);
    }
    rdmad_guard_say(&t, " while ");
    rdmad_guard_say_op(&t, hold);
    rdmad_guard_say(&t, hold->writes ? " fills it" : " reads it");
    rdmad_guard_abort(&t);
}

/* False: the address is not ours. */
static bool fault_judge(const void *address, enum access access) {
    struct rdmad_guard_page *page;
    struct rdmad_guard *g = guards;
    uint64_t offset = 0;
    for (; g; g = g->next) {
        offset = (uintptr_t)address - (uintptr_t)g->base;
        if (offset < g->bytes)
            break;
    }
    if (!g)
        return false;
    page = &g->page[offset / RDMAD_GUARD_PAGE];
    if (page->state == RDMAD_GUARD_DEAD)
        fault_report_dead(g, page, offset, access);
    for (const struct rdmad_guard_op *op = g->ops; op; op = op->next) {
        if (offset - op->hold.offset < op->hold.length &&
            (op->hold.writes || access != ACCESS_READ))
            fault_report_conflict(g, page, offset, access, &op->hold);
    }
    /* Beside the ops' ranges, or they have just ended. */
    page->prot = PROT_READ | PROT_WRITE;
    return mprotect(g->base + offset / RDMAD_GUARD_PAGE * RDMAD_GUARD_PAGE, RDMAD_GUARD_PAGE,
                    page->prot) == 0;
}

static void fault_pass_on(int sig, siginfo_t *info, void *context) {
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(sig, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(sig);
    } else {
        struct sigaction fatal = {.sa_handler = SIG_DFL};
        sigaction(sig, &fatal, NULL);
        if (info->si_code <= 0)
            raise(sig); /* somebody sent it; a fault comes again by itself */
    }
}

static void fault_handle(int sig, siginfo_t *info, void *context) {
    int saved = errno, me = gettid();
    bool mine = __atomic_load_n(&owner, __ATOMIC_RELAXED) == me, ours = false;
    if (info->si_code == SEGV_ACCERR) {
        while (!mine && !guard_try_lock(me))
            sched_yield();
        ours = fault_judge(info->si_addr, access_of(context));
        if (!mine)
            rdmad_guard_unlock();
    }
    if (!ours)
        fault_pass_on(sig, info, context);
    errno = saved;
}

static void fault_install(void) {
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    action.sa_sigaction = fault_handle;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before);
}

void rdmad_guard_register(struct rdmad_guard *g) {
    pthread_once(&installed, fault_install);
    g->next = guards;
    guards = g;
}

void rdmad_guard_unregister(struct rdmad_guard *g) {
    struct rdmad_guard **at = &guards;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
}
