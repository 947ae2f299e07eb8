/* SPDX-License-Identifier: MIT */
/*
 * lifeline.c - a pipe whose writing end becomes number 0.
 */
#include "daemon/base/lifeline.h"
#include <fcntl.h>
#include <unistd.h>

/* Number 0 is free if the process was started without a standard input. */
static int make_way(int fd) {
    int other = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    close(fd);
    return other;
}

int lifeline_open(int *reading_end, struct error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return error_errno(err, RDMAD_E_SYSTEM, "cannot make a pipe");
    if (ends[0] == STDIN_FILENO)
        ends[0] = make_way(ends[0]);
    if (ends[0] < 0 || (ends[1] != STDIN_FILENO && dup3(ends[1], STDIN_FILENO, O_CLOEXEC) < 0))
        return error_errno(err, RDMAD_E_SYSTEM, "cannot move the end of a pipe");
    if (ends[1] != STDIN_FILENO)
        close(ends[1]);
    *reading_end = ends[0];
    return RDMAD_OK;
}
