/* SPDX-License-Identifier: MIT */
/*
 * signals.c - being asked to stop, as a descriptor: no handler, no race with a wait.
 */
#include "rdmactl/cli.h"
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void stop_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

int signals_catch(void) {
    sigset_t set;
    stop_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int signals_take(int fd) {
    struct signalfd_siginfo info;
    if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    /* Who asks twice means it. */
    sigset_t set;
    stop_signals(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return (int)info.ssi_signo;
}
