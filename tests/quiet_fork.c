/* SPDX-License-Identifier: MIT */
/*
 * quiet_fork.c - lets Criterion fork under AddressSanitizer.
 *
 * Criterion's runner forks a process a test while threads of its own exchange messages. gcc 12's
 * and clang 14's sanitizer runtimes do not take their allocator's locks around fork: when one of
 * those threads is inside malloc at that moment, the child's first malloc waits for ever, and the
 * test "times out" without having begun. So before each fork this waits until every other thread
 * sleeps in the kernel, where none of them holds such a lock. Linked into Criterion tests of the
 * AddressSanitizer build only.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOKS_MAX 2000 /* of 100 us; then fork all the same */

/* The state letter of a thread, from its stat file: "TID (NAME) S ...". */
static char thread_state(const char *tid) {
    char path[64], text[128];
    snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 'X'; /* it has ended */
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] ? name_end[2] : 'X';
}

static bool others_sleep(void) {
    bool asleep = true;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return true;
    for (struct dirent *e; asleep && (e = readdir(tasks));) {
        if (e->d_name[0] == '.' || atoi(e->d_name) == gettid())
            continue;
        char state = thread_state(e->d_name);
        asleep = state == 'S' || state == 'X' || state == 'Z';
    }
    closedir(tasks);
    return asleep;
}

static void before_fork(void) {
    static const struct timespec pause = {.tv_nsec = 100000};
    for (int looks = 0; looks < LOOKS_MAX && !others_sleep(); looks++)
        nanosleep(&pause, NULL);
}

__attribute__((constructor)) static void install(void) {
    pthread_atfork(before_fork, NULL, NULL);
}
