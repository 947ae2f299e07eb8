/* SPDX-License-Identifier: MIT */
/*
 * manager.c - notifications, passed sockets and the watchdog; each does nothing when nobody asked.
 *
 * What the manager does not read is kept and sent later, in order. It may be one that never reads:
 * then the oldest is forgotten.
 */
#include "daemon/manager.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/manager_socket.h"
#include "daemon/state/thread_watch.h"
#include <event2/event.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

enum { UNSAID_MAX = 4, TEXT_MAX = 512 };

static const struct timeval say_again = {.tv_usec = 100000};

struct manager {
    const struct state *state;
    struct event *watchdog; /* NULL: nobody watches */
    struct event *again;    /* while something is unsaid */
    char unsaid[UNSAID_MAX][TEXT_MAX];
    unsigned unsaid_count;
};

void manager_take_sockets(struct manager_sockets *out) {
    *out = (struct manager_sockets){.client = -1, .control = -1};
    char **names = NULL;
    int count = sd_listen_fds_with_names(1, &names);
    for (int i = 0; i < count; i++) {
        int fd = SD_LISTEN_FDS_START + i;
        int *slot = !strcmp(names[i], "rdmad.sock")     ? &out->client
                    : !strcmp(names[i], "control.sock") ? &out->control
                                                        : NULL;
        bool kept = !strcmp(names[i], KEPT_NAME) && kept_add(&out->kept, fd, KEPT_NAME);
        if (slot && *slot < 0) {
            *slot = fd;
        } else if (!kept) {
            LOG(WARNING,
                ("closing the passed socket '%s': only rdmad.sock and control.sock are known",
                 names[i]));
            close(fd);
        }
        free(names[i]);
    }
    free(names);
}

/* ---- what it is told ------------------------------------------------------------------------ */

static void forget_first(struct manager *m) {
    m->unsaid_count--;
    memmove(m->unsaid[0], m->unsaid[1], m->unsaid_count * sizeof(m->unsaid[0]));
}

static void say_unsaid(struct manager *m) {
    while (m->unsaid_count && manager_socket_send(m->unsaid[0]))
        forget_first(m);
    if (m->unsaid_count)
        event_add(m->again, &say_again);
}

static void on_unsaid(evutil_socket_t fd, short what, void *user) {
    (void)fd;
    (void)what;
    say_unsaid(user);
}

__attribute__((format(printf, 2, 3))) static void manager_say(struct manager *m, const char *format,
                                                              ...) {
    va_list args;
    if (m->unsaid_count == UNSAID_MAX)
        forget_first(m);
    va_start(args, format);
    vsnprintf(m->unsaid[m->unsaid_count++], TEXT_MAX, format, args);
    va_end(args);
    say_unsaid(m);
}

static void on_watchdog(evutil_socket_t fd, short what, void *user) {
    struct manager *m = user;
    (void)fd;
    (void)what;
    /* A worker that hangs must not be hidden by a control thread that does not. */
    if (!thread_watch_hangs(m->state))
        (void)manager_socket_send("WATCHDOG=1"); /* else there are others that it has not read */
    else
        LOG(ERR, ("a worker does not turn: not answering the watchdog"));
}

uint64_t manager_watchdog_ns(void) {
    uint64_t usec = 0;
    return sd_watchdog_enabled(0, &usec) > 0 ? usec * NSEC_PER_USEC : 0;
}

int manager_new(struct event_base *base, const struct state *st, struct manager **out,
                struct error *err) {
    struct manager *m = calloc(1, sizeof(*m));
    if (!m)
        return error_set(err, RDMAD_E_NOMEM, "no memory for the service manager's side");
    m->state = st;
    m->again = event_new(base, -1, 0, on_unsaid, m);
    if (!m->again) {
        manager_free(m);
        return error_set(err, RDMAD_E_NOMEM, "no memory for the service manager's timer");
    }
    uint64_t usec = manager_watchdog_ns() / NSEC_PER_USEC / 3; /* one answer may be lost */
    if (usec) {
        struct timeval every = {.tv_sec = (time_t)(usec / 1000000),
                                .tv_usec = (suseconds_t)(usec % 1000000)};
        m->watchdog = event_new(base, -1, EV_PERSIST, on_watchdog, m);
        if (!m->watchdog || event_add(m->watchdog, &every)) {
            manager_free(m);
            return error_set(err, RDMAD_E_NOMEM, "no memory for the watchdog's timer");
        }
    }
    *out = m;
    return RDMAD_OK;
}

void manager_free(struct manager *m) {
    if (!m)
        return;
    if (m->watchdog)
        event_free(m->watchdog);
    if (m->again)
        event_free(m->again);
    free(m);
}

void manager_ready(struct manager *m, const char *status) {
    manager_say(m, "READY=1\nSTATUS=%s", status);
}

/* By the clock that systemd wants here. */
static uint64_t manager_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void manager_reloading(struct manager *m) {
    manager_say(m, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, manager_now_us());
}

void manager_upgrading(struct manager *m, uint64_t bound_us) {
    manager_say(m,
                "RELOADING=1\nMONOTONIC_USEC=%" PRIu64
                "\nSTATUS=draining for an upgrade\nEXTEND_TIMEOUT_USEC=%" PRIu64,
                manager_now_us(), bound_us);
}

void manager_stopping(struct manager *m, uint64_t bound_us) {
    manager_say(m, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%" PRIu64, bound_us);
}
