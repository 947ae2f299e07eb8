/* SPDX-License-Identifier: MIT */
/*
 * runnable.c - "0.71 0.80 0.95 3/412 7311": three run at this moment, the reader among them.
 */
#include "common/runnable.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PARTNERS 2

bool rdmad_cpus_wanted_by(const char *text, long cpus) {
    char *end;
    for (int averages = 0; averages < 3; averages++, text = end)
        if (strtod(text, &end) < 0 || end == text)
            return false;
    long running = strtol(text, &end, 10);
    long partners = cpus < PARTNERS ? cpus : PARTNERS;
    return end != text && *end == '/' && running > cpus + partners;
}

/* To count them takes longer than all the rest. */
static long online(void) {
    static long known;
    long cpus = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (cpus <= 0) {
        cpus = sysconf(_SC_NPROCESSORS_ONLN);
        __atomic_store_n(&known, cpus, __ATOMIC_RELAXED);
    }
    return cpus > 0 ? cpus : 1;
}

/* Not what is mounted over it: in some containers that is a file of a program, which may answer
 * late or never (openat2(2)). Kernels before 5.6 cannot tell. */
static int open_loadavg(void) {
    const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC, .resolve = RESOLVE_NO_XDEV};
    int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return -1;
    int fd = (int)syscall(SYS_openat2, proc, "loadavg", &how, sizeof(how));
    if (fd < 0 && errno == ENOSYS)
        fd = openat(proc, "loadavg", O_RDONLY | O_CLOEXEC);
    close(proc);
    return fd;
}

bool rdmad_cpus_wanted(void) {
    char text[64];
    int fd = open_loadavg();
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    return rdmad_cpus_wanted_by(text, online());
}
