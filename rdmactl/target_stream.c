/* SPDX-License-Identifier: MIT */
/*
 * target_stream.c - see target_stream.h.
 *
 * Nothing here sleeps in open or write, for it would hear no signal there. Standard output is not
 * made non-blocking: others have it, too. Of a pipe we open an end of our own.
 */
#include "rdmactl/target_stream.h"
#include "rdmactl/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define READER_MS 20   /* between two looks whether a pipe has a reader */
#define NOT_READY_MS 1 /* before it is tried again */

/* Waits until it can be written to, or so long (-1: for ever). */
static int stream_wait(struct target *t, int timeout_ms, bool *ready) {
    struct pollfd wait[2] = {{.fd = t->signals, .events = POLLIN},
                             {.fd = t->fd, .events = POLLOUT}};
    *ready = false;
    if (poll(wait, 2, timeout_ms) < 0)
        return errno == EINTR ? EXIT_GOOD : cli_fail_errno(t->path);
    t->interrupted = wait[0].revents && signals_take(t->signals) != 0;
    *ready = wait[1].revents != 0;
    return t->interrupted ? EXIT_FAILED : EXIT_GOOD;
}

static int stream_open_file(struct target *t, const char *file) {
    struct stat st = {0};
    int code = EXIT_GOOD;
    bool ready, is_pipe = !stat(file, &st) && S_ISFIFO(st.st_mode);
    int flags = O_WRONLY | O_CLOEXEC | (is_pipe || S_ISCHR(st.st_mode) ? O_NONBLOCK : 0);
    while (!code && (t->fd = open(file, flags)) < 0) {
        if (!is_pipe || errno != ENXIO)
            return cli_fail_errno(t->path);
        code = stream_wait(t, READER_MS, &ready); /* nobody reads there yet */
    }
    return code;
}

int stream_target_open(struct target *t, const char *file, const struct target_terms *terms) {
    struct stat st;
    t->stream = true;
    t->signals = terms->signals;
    t->at_once = SIZE_MAX;
    snprintf(t->path, sizeof(t->path), "%s", file ? file : "standard output");
    if (file)
        return stream_open_file(t, file);
    bool known = !fstat(STDOUT_FILENO, &st);
    if (known && S_ISFIFO(st.st_mode))
        t->fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (t->fd >= 0)
        return EXIT_GOOD;
    t->fd = STDOUT_FILENO;
    /* A pipe of another user's, a socket: so much never waits when there is room at all. */
    if (known && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
        t->at_once = PIPE_BUF;
    return EXIT_GOOD;
}

int stream_target_put(struct target *t, const void *data, uint64_t size) {
    const char *from = data;
    while (size) {
        bool ready;
        int code = stream_wait(t, -1, &ready);
        if (code)
            return code;
        if (!ready)
            continue;
        ssize_t n = write(t->fd, from, size < t->at_once ? size : t->at_once);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return cli_fail_errno(t->path);
        if (n < 0 && errno == EAGAIN) /* a device may say that it is ready and not be */
            (void)poll(NULL, 0, NOT_READY_MS);
        if (n > 0) {
            from += n;
            size -= (uint64_t)n;
        }
    }
    return EXIT_GOOD;
}
