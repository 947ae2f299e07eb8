/* SPDX-License-Identifier: MIT */
/*
 * What the porter can still do once it is confined, and what not: whoever takes it over has a
 * process that can open, reach, execute and signal nothing.
 */
#include "daemon/porter/confine.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FINE = 0, NO_FILTER = 77 };

/* Runs deeds in a confined child; returns what it exits with: FINE, or the number of what was not
 * as it should be. */
static int confined(int (*deeds)(void)) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L);
        _exit(confine_process() ? deeds() : NO_FILTER);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status), "it was killed by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) == NO_FILTER)
        cr_skip_test("skipped: this kernel or this build has no filters");
    return WEXITSTATUS(status);
}

static int failures, deed;

/* The next deed fails with EPERM. */
static void refused(long rc) {
    deed++;
    if ((rc != -1 || errno != EPERM) && !failures)
        failures = deed;
}

static int forbidden_deeds(void) {
    char byte = 'x', *const args[] = {"/bin/true", NULL};
    struct iovec io = {&byte, 1};
    int on = 1;
    refused(open("/etc/passwd", O_RDONLY));                            /* 1 */
    refused(socket(AF_INET, SOCK_STREAM, 0));                          /* 2 */
    refused(socket(AF_UNIX, SOCK_STREAM, 0));                          /* 3 */
    refused(execv("/bin/true", args));                                 /* 4 */
    refused(kill(getppid(), SIGKILL));                                 /* 5 */
    refused(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));             /* 6 */
    refused(process_vm_readv(getppid(), &io, 1, &io, 1, 0));           /* 7 */
    refused(unshare(CLONE_NEWUSER));                                   /* 8 */
    refused(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));  /* 9 */
    refused(syscall(SYS_clone, CLONE_VM | SIGCHLD, 0, 0, 0, 0));       /* 10 */
    refused(fcntl(0, F_SETFL, O_NONBLOCK));                            /* 11 */
    refused(fcntl(0, F_SETOWN, getpid()));                             /* 12 */
    refused(setsockopt(0, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on))); /* 13 */
    refused(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                    MAP_FAILED
                ? -1
                : 0); /* 14 */
    refused(mprotect((void *)((uintptr_t)&byte & ~(uintptr_t)4095), 4096,
                     PROT_READ | PROT_EXEC));        /* 15 */
    refused(write(1, &byte, 1));                     /* 16 */
    refused(unlink("/nonexistent"));                 /* 17 */
    refused(memfd_create("x", 0));                   /* 18 */
    refused(prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L)); /* 19 */
    refused(setuid(getuid()));                       /* 20 */
    refused(syscall(SYS_io_uring_setup, 1, NULL));   /* 21 */
    refused(syscall(SYS_bpf, 0, NULL, 0));           /* 22 */
    return failures;
}

Test(porter_confine, what_it_does_not_need_is_refused) {
    int which = confined(forbidden_deeds);
    cr_assert_eq(which, FINE, "deed %d was not refused", which);
}

/* A packet with a descriptor goes from one end to the other. */
static bool pass_descriptor(const int pair[2]) {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    char byte = 'x';
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    *c = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(c), &pair[0], sizeof(int));
    return sendmsg(pair[0], &msg, MSG_NOSIGNAL) == 1 &&
           recvmsg(pair[1], &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == 1;
}

static int needed_deeds(void) {
    int pair[2], status;
    struct linger off = {0};
    char byte;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) || !pass_descriptor(pair))
        return 1;
    if (setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &off, sizeof(off)))
        return 2;
    if (fcntl(pair[0], F_GET_SEALS) >= 0 || errno != EINVAL)
        return 3;
    int go[2];
    if (pipe2(go, O_CLOEXEC))
        return 4;
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
                  close_range((unsigned)go[1], (unsigned)go[1], 0) == 0;
        _exit(ok && read(go[0], &byte, 1) == 0 && open("/", O_RDONLY) < 0 ? 0 : 1);
    }
    close(go[1]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        return 5; /* the child is confined, too */
    void *memory = malloc(1 << 20);
    if (!memory)
        return 6;
    free(memory);
    return FINE;
}

Test(porter_confine, what_it_is_for_is_not) {
    cr_assert_eq(confined(needed_deeds), FINE);
}
