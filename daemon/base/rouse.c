/* SPDX-License-Identifier: MIT */
/*
 * rouse.c - /proc/self/task/N/syscall tells what a thread that sleeps is in, with its arguments and
 * its stack: the same line at two looks is the same call.
 *
 * A signal that was not needed, because the thread only lacked a processor, does no harm: in this
 * process the calls that are looked at wait for nothing else, and the handler does nothing.
 */
#include "daemon/base/rouse.h"
#include "common/fdmsg.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 20
#define TRIAL_MS 1000
#define TRIALS 3
#define THREADS_MAX 256u
#define LINE 192u

/* ---- whether it is needed ------------------------------------------------------------------- */

/* Sockets queued in one another, with an end of a pipe: its other end tells when they are gone. */
static bool leave_circle(int pipe_end) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair))
        return false;
    const int fds[] = {pair[0], pair[1], pipe_end};
    bool sent = rdmad_fdmsg_send(pair[0], "", 1, fds, 3) == 0;
    close(pair[0]);
    close(pair[1]);
    return sent;
}

/* Whether they are gone as soon as we have closed another socket. */
static bool closing_collects(void) {
    int ends[2], other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (other < 0 || pipe2(ends, O_CLOEXEC))
        return false;
    bool left = leave_circle(ends[1]);
    close(ends[1]);
    close(other);
    struct pollfd gone = {.fd = ends[0]};
    bool collected = left && poll(&gone, 1, 0) == 1;
    close(ends[0]);
    return collected;
}

static _Noreturn void rouse_try(void) {
    int times = 0;
    for (int i = 0; i < TRIALS; i++)
        times += closing_collects();
    _exit(times > TRIALS / 2);
}

/* A child that does not come back has taken apart what some other user left. */
bool rouse_is_needed(void) {
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        rouse_try();
    int pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    bool held = pidfd >= 0 && poll(&ended, 1, TRIAL_MS) == 0;
    if (pidfd >= 0)
        close(pidfd);
    if (pid < 0)
        return false;
    if (held)
        kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return held || (WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

/* ---- looking -------------------------------------------------------------------------------- */

struct rouse_seen {
    pid_t tid;
    char line[LINE];
};

struct rouse {
    pthread_t thread;
    int stop;
    pid_t own;
    unsigned count; /* seen at the last look, in a call that may be made to wait */
    struct rouse_seen seen[THREADS_MAX];
};

/* Also to standard error, which may be the journal's socket. */
static bool may_be_held(const char *line) {
    char *end;
    long call = strtol(line, &end, 10);
    if (end == line)
        return false; /* "running" */
    if (call == SYS_write || call == SYS_writev)
        return strncmp(end, " 0x2 ", 5) == 0;
    return call == SYS_close || call == SYS_sendmsg || call == SYS_sendto ||
           call == SYS_close_range;
}

static bool rouse_read(pid_t tid, char line[LINE]) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, line, LINE - 1);
    close(fd);
    line[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static bool was_there(const struct rouse_seen *seen, unsigned count, const struct rouse_seen *now) {
    for (unsigned i = 0; i < count; i++)
        if (seen[i].tid == now->tid)
            return strcmp(seen[i].line, now->line) == 0;
    return false;
}

static void rouse_look(struct rouse *r) {
    struct rouse_seen now[THREADS_MAX];
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    while (tasks && count < THREADS_MAX && (entry = readdir(tasks))) {
        struct rouse_seen *s = &now[count];
        s->tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (s->tid <= 0 || s->tid == r->own || !rouse_read(s->tid, s->line) ||
            !may_be_held(s->line))
            continue;
        if (was_there(r->seen, r->count, s))
            syscall(SYS_tgkill, getpid(), s->tid, THREAD_WAKE_SIGNAL);
        count++;
    }
    if (tasks)
        closedir(tasks);
    memcpy(r->seen, now, count * sizeof(*now));
    r->count = count;
}

static void *rouse_watch(void *arg) {
    struct rouse *r = arg;
    struct pollfd stop = {.fd = r->stop, .events = POLLIN};
    r->own = gettid();
    while (poll(&stop, 1, LOOK_MS) != 1)
        rouse_look(r);
    return NULL;
}

/* ---- begin and end -------------------------------------------------------------------------- */

static void rouse_signalled(int sig) {
    (void)sig;
}

int rouse_start(struct rouse **out, struct error *err) {
    struct sigaction action = {.sa_handler = rouse_signalled, .sa_flags = SA_RESTART};
    struct rouse *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for the thread that rouses others");
    r->stop = eventfd(0, EFD_CLOEXEC);
    int rc = 0;
    if (r->stop < 0 || sigaction(THREAD_WAKE_SIGNAL, &action, NULL))
        rc = error_errno(err, RDMAD_E_SYSTEM, "cannot prepare the thread that rouses others");
    if (!rc)
        rc = thread_start(&r->thread, "rdmad-rouse", rouse_watch, r, NULL, err);
    if (rc) {
        if (r->stop >= 0)
            close(r->stop);
        free(r);
        return rc;
    }
    *out = r;
    return 0;
}

void rouse_stop(struct rouse *r) {
    if (!r)
        return;
    eventfd_write(r->stop, 1);
    pthread_join(r->thread, NULL);
    close(r->stop);
    free(r);
}
