/* SPDX-License-Identifier: MIT */
/*
 * lifeline.c - a pipe whose writing end lies just below what is moved up.
 *
 * Whoever has the reading end could open the other one by /proc, were it not for the pipe's mode:
 * with that only root can.
 */
#include "daemon/base/lifeline.h"
#include "daemon/base/upper_fd.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int lifeline_open(int *reading_end, struct error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return error_errno(err, RDMAD_E_SYSTEM, "cannot make a pipe");
    int failed =
        fchmod(ends[0], S_IRUSR) || fcntl(ends[1], F_DUPFD_CLOEXEC, upper_fd_least() - 1) < 0;
    if (failed) {
        error_errno(err, RDMAD_E_SYSTEM, "cannot give a pipe its number");
        close(ends[0]);
    }
    close(ends[1]);
    *reading_end = failed ? -1 : ends[0];
    return failed ? err->code : RDMAD_OK;
}

int lifeline_open_another(int reading_end, struct error *err) {
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", reading_end);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? error_errno(err, RDMAD_E_SYSTEM, "cannot open %s, a pipe", path) : fd;
}
