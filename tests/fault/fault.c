/* SPDX-License-Identifier: MIT */
/*
 * fault.c - calls that fail on demand (page.h), put before libc's by the linker: --wrap is for what
 * our own objects call, so libc, OpenSSL and the sanitizers are not touched. libevent has a hook
 * for its memory, and jansson uses that of our json_memory.c.
 *
 * Left out: what cannot fail as it is used here (close, clocks, getrandom, fcntl but for
 * descriptors and seals, eventfds and timerfds once they are there, epoll_ctl but ADD), and
 * the porter, a process of its own that is replaced when it ends.
 */
#include "daemon/porter/messages.h"
#include "tests/fault/fails.h"

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <execinfo.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

static struct fault_page *page;

extern const char __executable_start;

static void note(const char *call) {
    void *frame[FAULT_FRAMES + 2];
    int n = backtrace(frame, FAULT_FRAMES + 2);
    page->frames = n > 2 ? (unsigned)n - 2 : 0;
    for (unsigned i = 0; i < page->frames; i++) /* the call, not where it returns to */
        page->frame[i] = (uint64_t)((const char *)frame[i + 2] - &__executable_start) - 1;
    snprintf(page->call, sizeof(page->call), "%s", call);
    atomic_store(&page->failed, 1);
}

bool __attribute__((noinline)) fails(enum fault_kind kind, const char *call) {
    if (!page)
        return false;
    atomic_fetch_add(&page->counts[kind], 1);
    if (atomic_load(&page->countdown) <= 0 || atomic_load(&page->kind) != kind ||
        atomic_fetch_sub(&page->countdown, 1) != 1)
        return false;
    note(call);
    return true;
}

int __real_fstat(int fd, struct stat *st);

/* Whether it is a file, a socket or a pipe: eventfds and timerfds do not fail. */
static bool is_file(int fd) {
    int before = errno;
    struct stat st;
    bool file = __real_fstat(fd, &st) == 0 && (st.st_mode & S_IFMT);
    errno = before;
    return file;
}

#define WRAP_IF(when, kind, code, failure, type, name, parameters, arguments) \
    type __real_##name parameters;                                            \
    type __wrap_##name parameters;                                            \
    type __wrap_##name parameters {                                           \
        if ((when) && fails(kind, #name)) {                                   \
            errno = (code);                                                   \
            return failure;                                                   \
        }                                                                     \
        return __real_##name arguments;                                       \
    }
#define WRAP(kind, code, failure, type, name, parameters, arguments) \
    WRAP_IF(true, kind, code, failure, type, name, parameters, arguments)

/* ---- memory --------------------------------------------------------------------------------- */

static _Thread_local bool of_json; /* jansson asks, by way of json_memory.c */

#define MEMORY(type, name, parameters, arguments) \
    WRAP(of_json ? FAULT_JSON : FAULT_MEMORY, ENOMEM, NULL, type, name, parameters, arguments)

MEMORY(void *, malloc, (size_t n), (n))
MEMORY(void *, calloc, (size_t n, size_t size), (n, size))
MEMORY(void *, realloc, (void *old, size_t n), (old, n))
MEMORY(void *, reallocarray, (void *old, size_t n, size_t size), (old, n, size))
MEMORY(void *, aligned_alloc, (size_t to, size_t n), (to, n))
MEMORY(char *, strdup, (const char *s), (s))
MEMORY(FILE *, open_memstream, (char **at, size_t *size), (at, size))
WRAP(FAULT_MEMORY, ENOMEM, EAI_MEMORY, int, getaddrinfo,
     (const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out),
     (host, port, hints, out))

static void *events_malloc(size_t n) {
    return fails(FAULT_EVENTS, "libevent's malloc") ? NULL : __real_malloc(n);
}
static void *events_realloc(void *old, size_t n) {
    return fails(FAULT_EVENTS, "libevent's realloc") ? NULL : __real_realloc(old, n);
}

void *__real_json_memory_take(size_t n);
void *__wrap_json_memory_take(size_t n);
void *__wrap_json_memory_take(size_t n) {
    of_json = true;
    void *block = __real_json_memory_take(n);
    of_json = false;
    return block;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

#define DESCRIPTOR(name, parameters, arguments) \
    WRAP(FAULT_DESCRIPTOR, EMFILE, -1, int, name, parameters, arguments)

DESCRIPTOR(socket, (int domain, int type, int protocol), (domain, type, protocol))
DESCRIPTOR(socketpair, (int domain, int type, int protocol, int fds[2]),
           (domain, type, protocol, fds))
DESCRIPTOR(accept4, (int fd, struct sockaddr *a, socklen_t *n, int flags), (fd, a, n, flags))
DESCRIPTOR(eventfd, (unsigned count, int flags), (count, flags))
DESCRIPTOR(timerfd_create, (int clock, int flags), (clock, flags))
DESCRIPTOR(memfd_create, (const char *name, unsigned flags), (name, flags))
DESCRIPTOR(epoll_create1, (int flags), (flags))
DESCRIPTOR(inotify_init1, (int flags), (flags))
DESCRIPTOR(pipe2, (int fds[2], int flags), (fds, flags))
DESCRIPTOR(pidfd_open, (pid_t pid, unsigned flags), (pid, flags))
WRAP(FAULT_DESCRIPTOR, EMFILE, NULL, FILE *, fopen, (const char *path, const char *mode),
     (path, mode))
WRAP(FAULT_DESCRIPTOR, EMFILE, NULL, DIR *, opendir, (const char *path), (path))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode) {
    if (fails(FAULT_DESCRIPTOR, "open")) {
        errno = EMFILE;
        return -1;
    }
    return __real_open(path, flags, mode);
}
int __real_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, mode_t mode);
int __wrap_openat(int at, const char *path, int flags, mode_t mode) {
    if (fails(FAULT_DESCRIPTOR, "openat")) {
        errno = EMFILE;
        return -1;
    }
    return __real_openat(at, path, flags, mode);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, unsigned long argument);
int __wrap_fcntl(int fd, int command, unsigned long argument) {
    bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    bool seals = command == F_ADD_SEALS || command == F_GET_SEALS;
    if ((copies && fails(FAULT_DESCRIPTOR, "fcntl(F_DUPFD)")) ||
        (seals && fails(FAULT_IO, "fcntl of seals"))) {
        errno = copies ? EMFILE : EBUSY;
        return -1;
    }
    return __real_fcntl(fd, command, argument);
}

/* ---- mappings, threads ---------------------------------------------------------------------- */

WRAP(FAULT_MAP, ENOMEM, MAP_FAILED, void *, mmap,
     (void *at, size_t n, int access, int flags, int fd, off_t offset),
     (at, n, access, flags, fd, offset))
WRAP(FAULT_MAP, ENOMEM, -1, int, mlock, (const void *at, size_t n), (at, n))
WRAP(FAULT_MAP, ENOMEM, -1, int, madvise, (void *at, size_t n, int advice), (at, n, advice))
WRAP(FAULT_MAP, ENOMEM, -1, int, ftruncate, (int fd, off_t n), (fd, n))
WRAP(FAULT_THREAD, EAGAIN, EAGAIN, int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
     (thread, attr, run, arg))
WRAP(FAULT_THREAD, EAGAIN, -1, pid_t, fork, (void), ())
WRAP(FAULT_THREAD, EAGAIN, EAGAIN, int, posix_spawn,
     (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,
      const posix_spawnattr_t *attr, char *const argv[], char *const environment[]),
     (pid, path, actions, attr, argv, environment))

/* ---- what is done with descriptors ---------------------------------------------------------- */

#define SOCKET(code, type, name, parameters, arguments) \
    WRAP(FAULT_IO, code, -1, type, name, parameters, arguments)
#define FILE_IO(code, type, name, parameters, arguments) \
    WRAP_IF(is_file(fd), FAULT_IO, code, -1, type, name, parameters, arguments)

SOCKET(ENOBUFS, ssize_t, send, (int fd, const void *at, size_t n, int flags), (fd, at, n, flags))
SOCKET(ENOBUFS, ssize_t, sendto,
       (int fd, const void *at, size_t n, int flags, const struct sockaddr *to, socklen_t m),
       (fd, at, n, flags, to, m))
SOCKET(ENOBUFS, ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
SOCKET(ENOMEM, ssize_t, recv, (int fd, void *at, size_t n, int flags), (fd, at, n, flags))
SOCKET(ENOMEM, ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
SOCKET(EADDRNOTAVAIL, int, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
SOCKET(EADDRINUSE, int, bind, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
SOCKET(EADDRINUSE, int, listen, (int fd, int backlog), (fd, backlog))
SOCKET(ENOBUFS, int, setsockopt, (int fd, int level, int name, const void *at, socklen_t n),
       (fd, level, name, at, n))
SOCKET(ENOBUFS, int, getsockopt, (int fd, int level, int name, void *at, socklen_t *n),
       (fd, level, name, at, n))
SOCKET(ENOBUFS, int, getsockname, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))
SOCKET(ENOBUFS, int, getpeername, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))
FILE_IO(EIO, ssize_t, read, (int fd, void *at, size_t n), (fd, at, n))
FILE_IO(EIO, ssize_t, write, (int fd, const void *at, size_t n), (fd, at, n))
FILE_IO(EIO, ssize_t, pread, (int fd, void *at, size_t n, off_t offset), (fd, at, n, offset))
WRAP(FAULT_IO, EIO, -1, int, fstat, (int fd, struct stat *st), (fd, st))
WRAP(FAULT_IO, EIO, -1, int, stat, (const char *path, struct stat *st), (path, st))
WRAP_IF(op == EPOLL_CTL_ADD, FAULT_IO, ENOMEM, -1, int, epoll_ctl,
        (int ep, int op, int fd, struct epoll_event *e), (ep, op, fd, e))

/* ---- the page ------------------------------------------------------------------------------- */

static bool is_porter(void) {
    char arguments[256];
    int fd = __real_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = __real_read(fd, arguments, sizeof(arguments));
    close(fd);
    return n < 0 || memmem(arguments, (size_t)n, PORTER_OPTION, strlen(PORTER_OPTION));
}

static __attribute__((constructor)) void map_page(void) {
    const char *path = getenv(FAULT_PAGE);
    void *frame[2];
    if (!path || is_porter())
        return;
    int fd = __real_open(path, O_RDWR | O_CLOEXEC);
    void *at = __real_mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || at == MAP_FAILED) {
        perror(path);
        _exit(126);
    }
    close(fd);
    backtrace(frame, 2); /* loads what it needs */
    event_set_mem_functions(events_malloc, events_realloc, free);
    page = at;
}
