/* SPDX-License-Identifier: MIT */
/*
 * manager.c - sd_notify, passed sockets and the watchdog; each does nothing when nobody asked.
 */
#include "daemon/manager.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/state/watch.h"
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

struct manager {
    const struct state *state;
    struct event *watchdog; /* NULL: nobody watches */
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

static void on_watchdog(evutil_socket_t fd, short what, void *user) {
    struct manager *m = user;
    (void)fd;
    (void)what;
    /* A worker that hangs must not be hidden by a control thread that does not. */
    if (!watch_hangs(m->state))
        sd_notify(0, "WATCHDOG=1");
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
    free(m);
}

void manager_ready(const char *status) {
    sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

/* By the clock that systemd wants here. */
static uint64_t manager_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void manager_reloading(void) {
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, manager_now_us());
}

void manager_upgrading(uint64_t bound_us) {
    sd_notifyf(0,
               "RELOADING=1\nMONOTONIC_USEC=%" PRIu64
               "\nSTATUS=draining for an upgrade\nEXTEND_TIMEOUT_USEC=%" PRIu64,
               manager_now_us(), bound_us);
}

void manager_stopping(uint64_t bound_us) {
    sd_notifyf(0, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%" PRIu64, bound_us);
}
