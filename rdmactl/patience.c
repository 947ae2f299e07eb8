/* SPDX-License-Identifier: MIT */
/*
 * patience.c - a daemon that is there and does not answer.
 *
 * The library waits for its daemon as long as that lives, which is right for programs and wrong for
 * a person at a terminal. So calls of the library that wait for the daemon are made between
 * patience_begin and patience_end. If the time is over in between, a timer's thread says so, and
 * what the daemon's process looks like from outside, and ends the program.
 */
#include "rdmactl/cli.h"
#include <errno.h>
#include <inttypes.h>
#include <rdmad/rdmad.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* ---- the daemon from outside ---------------------------------------------------------------- */

int daemon_connect(const char *name, int type, uint64_t timeout_ms) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = (time_t)(timeout_ms / 1000),
                               .tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000)};
    int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", cli.dir, name);
    if (n < 0 || (size_t)n >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    /* A full backlog would let connect wait for ever. */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* Who listens; 0 when nobody can tell. */
static pid_t listener(const char *name, int type) {
    struct ucred who = {0};
    socklen_t size = sizeof(who);
    int fd = daemon_connect(name, type, 100);
    if (fd < 0)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size))
        who.pid = 0;
    close(fd);
    return who.pid;
}

/* The letter of proc(5), of an rdmad; '?' when it is none, as the manager that passed it a socket.
 */
static char process_state(pid_t pid) {
    char path[64], line[128], state = '?';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = pid > 0 ? fopen(path, "re") : NULL;
    if (f && fgets(line, sizeof(line), f) && strstr(line, "(rdmad) "))
        state = strstr(line, "(rdmad) ")[8];
    if (f)
        fclose(f);
    return state;
}

bool daemon_listens(void) {
    int fd = daemon_connect("rdmad.sock", SOCK_SEQPACKET, 100);
    if (fd < 0)
        return errno != ECONNREFUSED && errno != ENOENT;
    close(fd);
    return true;
}

const char *daemon_state(char *buf, size_t size) {
    pid_t pid = listener("control.sock", SOCK_STREAM);
    if (process_state(pid) == '?')
        pid = listener("rdmad.sock", SOCK_SEQPACKET);
    int n = (int)pid;
    switch (process_state(pid)) {
    case 'T':
    case 't':
        snprintf(buf, size, "its process %d is stopped, `kill -CONT %d` lets it go on", n, n);
        break;
    case 'D':
        snprintf(buf, size, "its process %d is stuck inside the kernel, see /proc/%d/stack", n, n);
        break;
    case 'R':
        snprintf(buf, size, "its process %d is busy, see `top -H -p %d`", n, n);
        break;
    case '?':
        snprintf(buf, size, "look at its log (journalctl -u rdmad), or restart it");
        break;
    default:
        snprintf(buf, size,
                 "its process %d sleeps, look at its log (journalctl -u rdmad), or restart it", n);
    }
    return buf;
}

uint64_t patience_ms(uint64_t otherwise_ms) {
    return cli.timeout_ms ? cli.timeout_ms : otherwise_ms;
}

/* ---- calls of the library -------------------------------------------------------------------- */

/* Deleting a timer does not wait for its thread if that runs already, and it may come when the next
 * wait has begun. So each wait has a number. */
#define OVER UINT32_MAX
static uint32_t current; /* atomic: the wait that is on, 0: none */
static uint32_t waits;
static timer_t alarm_clock;
static const char *waits_for;
static uint64_t waited_ms;
static bool done; /* the wait that is on is for nothing that was asked for */

static void patience_over(union sigval wait) {
    uint32_t expected = (uint32_t)wait.sival_int;
    char state[160], span[CELL_MAX];
    if (!__atomic_compare_exchange_n(&current, &expected, OVER, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        return; /* just in time */
    int code =
        cli_fail("RDMAD_E_TIMEOUT", "rdmad in %s does not answer: waited %s for it to %s; %s",
                 cli.dir, cli_human_seconds(span, (double)waited_ms / 1e3), waits_for,
                 daemon_state(state, sizeof(state)));
    _exit(fflush(stdout) || !done ? code : EXIT_GOOD);
}

void patience_done(void) {
    done = true;
}

void patience_begin(const char *what, uint64_t otherwise_ms) {
    uint32_t number = waits % INT32_MAX + 1;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD,
                             .sigev_notify_function = patience_over,
                             .sigev_value.sival_int = (int)number};
    waits = number;
    waited_ms = patience_ms(otherwise_ms);
    waits_for = what;
    if (!waited_ms || timer_create(CLOCK_MONOTONIC, &event, &alarm_clock))
        return; /* without a clock it waits as the library does */
    const struct itimerspec after = {.it_value = {.tv_sec = (time_t)(waited_ms / 1000),
                                                  .tv_nsec = (long)(waited_ms % 1000 * 1000000)}};
    __atomic_store_n(&current, number, __ATOMIC_SEQ_CST);
    timer_settime(alarm_clock, 0, &after, NULL);
}

void patience_end(void) {
    uint32_t expected = waits;
    if (__atomic_compare_exchange_n(&current, &expected, 0, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        timer_delete(alarm_clock);
    else if (expected == OVER)
        for (;;)
            pause(); /* the other thread ends us */
}

int cli_fail_rdmad(const rdmad_session *session, int rc) {
    return cli_fail(rdmad_errname(rc), "%s", rdmad_last_error(session));
}

int cli_session_try(const char *name, int64_t spin_us, rdmad_session **out) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    options.runtime_dir = cli.dir == cli.default_dir ? NULL : cli.dir; /* as programs find it */
    options.name = name;
    options.spin_us = spin_us;
    /* Also of a daemon that is gone, and perhaps comes back. Twice: in a call patience_over comes
     * first, which knows what the daemon's process looks like. */
    options.call_timeout_ms = 2 * (int64_t)cli.timeout_ms;
    patience_begin("open a session", PATIENCE_LOOK_MS);
    int rc = rdmad_open(&options, out);
    patience_end();
    return rc;
}

int cli_session_open(const char *name, int64_t spin_us, rdmad_session **out) {
    int rc = cli_session_try(name, spin_us, out);
    return rc ? cli_fail_rdmad(NULL, rc) : EXIT_GOOD;
}
