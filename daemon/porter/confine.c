/* SPDX-License-Identifier: MIT */
/*
 * confine.c - a seccomp filter, made of two tables: calls with any arguments, and calls of which
 * one argument is looked at.
 *
 * What is not listed is refused with EPERM and does not kill: a C library that tries something new
 * has to do without it, and nobody waits for another porter. clone3 hides its flags in memory,
 * where a filter cannot look; ENOSYS makes the C library use clone. It takes no library to write
 * this down: the porter has none but the C library, which is the point of it.
 */
#include "daemon/porter/confine.h"
#include "common/sanitizer.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#if defined(SANITIZED_ADDRESS) || defined(SANITIZED_THREAD)
#undef ARCH
#endif

#ifdef ARCH

/* Its work, then what the C library does for it: memory, signals, a child's first steps, abort. */
static const uint16_t any[] = {
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_read,
    SYS_close,
    SYS_close_range,
    SYS_socketpair,
    SYS_pipe2,
    SYS_ppoll,
    SYS_wait4,
    SYS_exit,
    SYS_exit_group,
    SYS_clock_gettime,
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_futex,
    SYS_getrandom,
    SYS_getpid,
    SYS_gettid,
    SYS_rt_sigaction,
    SYS_rt_sigreturn,
    SYS_rt_sigprocmask,
    SYS_restart_syscall,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_tgkill,
};

enum rule { IS, HAS_NONE_OF };

static const struct {
    uint16_t call;
    uint8_t argument;
    uint8_t rule;
    uint32_t value;
} some[] = {
    {SYS_fcntl, 1, IS, F_GET_SEALS},
    {SYS_setsockopt, 2, IS, SO_LINGER},
    {SYS_prctl, 0, IS, PR_SET_PDEATHSIG},
    {SYS_write, 0, IS, STDERR_FILENO},
    {SYS_writev, 0, IS, STDERR_FILENO},
    {SYS_mmap, 2, HAS_NONE_OF, PROT_EXEC},
    {SYS_mprotect, 2, HAS_NONE_OF, PROT_EXEC},
    {SYS_clone, 0, HAS_NONE_OF,
     CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
         CLONE_NEWNET | CLONE_PTRACE | CLONE_VM},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define NUMBER offsetof(struct seccomp_data, nr)
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(at))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define REFUSE RETURN(SECCOMP_RET_ERRNO | EPERM)
#define ALLOW RETURN(SECCOMP_RET_ALLOW)
/* Skips the next n instructions unless so. */
#define UNLESS_IS(k, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), 0, (n))
#define IF_IS(k, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), (n), 0)
#define IF_HAS(k, n) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (k), (n), 0)

/* The lower half of an argument: all of these are 32 bits wide. */
static uint32_t argument_at(unsigned n) {
    return (uint32_t)(offsetof(struct seccomp_data, args) + n * sizeof(uint64_t));
}

struct program {
    struct sock_filter code[8 + 2 * COUNT(any) + 5 * COUNT(some)];
    unsigned short n;
};

static void emit(struct program *p, struct sock_filter instruction) {
    p->code[p->n++] = instruction;
}

#define EMIT(p, ...) emit((p), (struct sock_filter)__VA_ARGS__)

static void write_program(struct program *p) {
    EMIT(p, LOAD(offsetof(struct seccomp_data, arch)));
    EMIT(p, IF_IS(ARCH, 1));
    EMIT(p, REFUSE);
    EMIT(p, LOAD(NUMBER));
    EMIT(p, UNLESS_IS(SYS_clone3, 1));
    EMIT(p, RETURN(SECCOMP_RET_ERRNO | ENOSYS));
    for (unsigned i = 0; i < COUNT(any); i++) {
        EMIT(p, UNLESS_IS(any[i], 1));
        EMIT(p, ALLOW);
    }
    for (unsigned i = 0; i < COUNT(some); i++) {
        EMIT(p, UNLESS_IS(some[i].call, 4));
        EMIT(p, LOAD(argument_at(some[i].argument)));
        if (some[i].rule == IS)
            EMIT(p, UNLESS_IS(some[i].value, 1));
        else
            EMIT(p, IF_HAS(some[i].value, 1));
        EMIT(p, ALLOW);
        EMIT(p, REFUSE);
    }
    EMIT(p, REFUSE);
}

bool confine_process(void) {
    struct program p = {.n = 0};
    write_program(&p);
    struct sock_fprog filter = {.len = p.n, .filter = p.code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0L, 0L) == 0;
}

#else

bool confine_process(void) {
    errno = 0;
    return false;
}

#endif
