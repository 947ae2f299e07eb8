/* SPDX-License-Identifier: MIT */
/*
 * thread.c - the device thread, which keeps a device at hand.
 *
 * While there is a device it sleeps on the device's events, on changes of /dev/infiniband (in which
 * alone the removal of some devices shows) and on the host's calls, without a tick. While there is
 * none, or the port is not usable, it looks at least once a second, and at once when
 * /dev/infiniband changes.
 */
#include "daemon/base/thread.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/host/events.h"
#include "daemon/fabric/verbs/host/in_use.h"
#include "daemon/fabric/verbs/host/state.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#define DEV_DIR "/dev/infiniband"

/* ---- /dev/infiniband ----------------------------------------------------------------------- */

/* Watches what can be watched; the directory may come and go itself. */
static void device_thread_watch(struct fabric_host *h) {
    if (h->inotify_fd < 0)
        return;
    if (h->watch_dev < 0)
        h->watch_dev = inotify_add_watch(h->inotify_fd, "/dev", IN_CREATE | IN_MOVED_TO);
    if (h->watch_dir < 0)
        h->watch_dir = inotify_add_watch(h->inotify_fd, DEV_DIR,
                                         IN_CREATE | IN_DELETE | IN_ATTRIB | IN_MOVED_TO |
                                             IN_MOVED_FROM | IN_ONLYDIR);
}

/* Whether e may concern us. */
static bool take_change(struct fabric_host *h, const struct inotify_event *e) {
    if (e->wd == h->watch_dev)
        return e->len && strcmp(e->name, strrchr(DEV_DIR, '/') + 1) == 0;
    if (e->mask & IN_IGNORED)
        h->watch_dir = -1;
    return true;
}

static void take_changes(struct fabric_host *h) {
    union {
        struct inotify_event event;
        char bytes[4096];
    } buffer;
    bool changed = false;
    for (ssize_t n; (n = read(h->inotify_fd, &buffer, sizeof(buffer))) > 0;) {
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const void *)(buffer.bytes + at);
            changed |= take_change(h, e);
            at += (ssize_t)(sizeof(*e) + e->len);
        }
    }
    device_thread_watch(h);
    if (changed && h->use == USE_NONE) {
        h->retry_after_ns = 0;
        h->retry_ns = 0;
    }
}

static void device_thread_check(struct fabric_host *h) {
    struct error why;
    if (device_there(h->open))
        return;
    h->failures = 0;
    error_set(&why, RDMAD_E_PEER_LOST, "RDMA device %s was taken away", h->open->d.name);
    in_use_lose(h, &why);
}

/* ---- the thread ---------------------------------------------------------------------------- */

static bool device_thread_stopping(struct fabric_host *h) {
    pthread_mutex_lock(&h->lock);
    bool stop = h->stopping;
    pthread_mutex_unlock(&h->lock);
    return stop;
}

static int device_thread_wait_ms(const struct fabric_host *h, uint64_t now_ns) {
    uint64_t at_ns = CLOCK_NEVER;
    if (h->use == USE_NONE)
        at_ns = h->retry_ns;
    else if (h->use == USE_NOW)
        at_ns = h->look_ns;
    if (h->watch_dir < 0 && at_ns > now_ns + IN_USE_LOOK_NS)
        at_ns = now_ns + IN_USE_LOOK_NS; /* nobody tells when it vanishes */
    if (at_ns == CLOCK_NEVER)
        return -1;
    return (int)((clock_left(now_ns, at_ns) + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

static void device_thread_turn(struct fabric_host *h) {
    struct pollfd fds[] = {
        {.fd = h->wake_fd, .events = POLLIN},
        {.fd = h->inotify_fd, .events = POLLIN},
        {.fd = h->use == USE_NOW ? h->open->d.context->async_fd : -1, .events = POLLIN},
    };
    poll(fds, 3, device_thread_wait_ms(h, clock_now_ns()));
    uint64_t ignored;
    if (fds[0].revents && read(h->wake_fd, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
        LOG(ERR, ("the device thread's eventfd fails: %s", strerror(errno)));
    if (fds[1].revents || h->watch_dir < 0)
        take_changes(h);
    if (h->use == USE_NOW && fds[2].revents)
        events_take(h);
    if (h->use == USE_NOW)
        in_use_take_failure(h);
    if (h->use == USE_NOW)
        device_thread_check(h);
    uint64_t now_ns = clock_now_ns();
    if (h->use == USE_NOW && now_ns >= h->look_ns)
        in_use_look(h);
    if (h->use == USE_ENDING)
        in_use_finish(h, now_ns);
    if (h->use == USE_NONE && now_ns >= h->retry_ns && !device_thread_stopping(h))
        in_use_search(h, now_ns);
}

static void *device_thread_run(void *arg) {
    struct fabric_host *h = arg;
    while (!device_thread_stopping(h))
        device_thread_turn(h);
    return NULL;
}

static int open_fds(struct fabric_host *h, struct error *err) {
    h->watch_dev = h->watch_dir = -1;
    h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (h->wake_fd < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "verbs: cannot make an eventfd");
    if (h->inotify_fd < 0)
        LOG(WARNING, ("changes of " DEV_DIR " are looked for once a second, inotify fails: %s",
                      strerror(errno)));
    device_thread_watch(h);
    return 0;
}

static void close_fds(struct fabric_host *h) {
    if (h->wake_fd >= 0)
        close(h->wake_fd);
    if (h->inotify_fd >= 0)
        close(h->inotify_fd);
}

int device_thread_start(struct fabric_host *h, struct error *err) {
    int failed = open_fds(h, err);
    if (!failed)
        failed = in_use_adopt(h, err);
    if (failed) {
        close_fds(h);
        return failed;
    }
    failed = thread_start(&h->thread, "rdmad-device", device_thread_run, h, NULL, err);
    if (failed) {
        in_use_close(h);
        close_fds(h);
        return failed;
    }
    return 0;
}

void device_thread_stop(struct fabric_host *h) {
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    pthread_mutex_unlock(&h->lock);
    host_wake(h);
    pthread_join(h->thread, NULL);
    if (h->use != USE_NONE)
        in_use_close(h);
    close_fds(h);
}
