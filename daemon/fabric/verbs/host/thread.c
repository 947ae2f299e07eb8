/* SPDX-License-Identifier: MIT */
/*
 * keeper.c - the thread that keeps a device at hand.
 *
 * While there is a device it sleeps on the device's events, on changes of /dev/infiniband (in which
 * alone the removal of some devices shows) and on the host's calls, without a tick. While there is
 * none, or the port is not usable, it looks at least once a second, and at once when
 * /dev/infiniband changes.
 *
 * Going: the host forgets the device, members are told, and the loop goes on until the last has let
 * go; then pools are deregistered and the context is closed, in that order. Then it looks for
 * another: at once after a device that was taken away, later and later after one that broke soon
 * after it was adopted.
 */
#include "daemon/base/thread.h"
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/host/state.h"
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#define DEV_DIR "/dev/infiniband"
#define RETRY_MIN_NS (20 * NSEC_PER_MSEC)
#define RETRY_MAX_NS NSEC_PER_SEC
#define BROKEN_WAIT_NS (100 * NSEC_PER_MSEC) /* doubles with each failure, */
#define BROKEN_DOUBLE_MAX 7u                 /* to 12.8 s */
#define STANDS_NS (250 * NSEC_PER_MSEC)      /* a reason that stands so long is logged */
#define SOUND_NS (60 * NSEC_PER_SEC)         /* a device that lived so long counts as sound */

void keeper_wake(struct fabric_host *h) {
    uint64_t one = 1;
    ssize_t n;
    do {
        n = write(h->wake_fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
}

/* ---- a device comes ------------------------------------------------------------------------ */

static int open_chosen(struct fabric_host *h, struct port_now *port, struct error *err) {
    const struct wish wish = {.settings = &h->settings->verbs, .listen = h->listen};
    struct device_list *list;
    int failed = survey_all(&wish, &list, err);
    if (failed)
        return failed;
    const struct device_port *p = judged_port(list);
    if (!p)
        failed = error_set(err, RDMAD_E_FABRIC, "%s", list->why.text);
    else
        failed = device_open(h, &list->devices[list->chosen], p->number, &h->open, port, err);
    device_list_free(list);
    return failed;
}

static void say_adopted(const struct open_device *o, const struct port_now *port) {
    char gid[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, port->gid.raw, gid, sizeof(gid));
    LOG(NOTICE,
        ("RDMA device %s port %u is in use, GID %u (%s), MTU %u; leases are held by %s: %s",
         o->d.name, o->d.port, port->gid_index, gid, mtu_bytes(port->mtu),
         o->d.windows ? "windows" : "registrations", o->self_test),
        FIELD_STR("DEVICE", o->d.name), FIELD_U64("PORT", o->d.port));
}

int keeper_adopt(struct fabric_host *h, struct error *err) {
    struct port_now port = {0};
    int failed = open_chosen(h, &port, err);
    if (failed) {
        h->open = NULL;
        return failed;
    }
    say_adopted(h->open, &port);
    memories_register(h); /* takes the lock */
    h->now = h->open;
    h->port = port;
    h->failed = NULL;
    memset(&h->why, 0, sizeof(h->why));
    seats_came(h);
    pthread_mutex_unlock(&h->lock);
    h->going = false;
    h->look_ns = CLOCK_NEVER;
    return 0;
}

/* The reason is logged when it is another than before, and not that of a moment: a device that
 * comes or goes is half there for a while. */
static void say_none(struct fabric_host *h, const struct error *why, uint64_t now_ns) {
    if (strcmp(h->looked.text, why->text) != 0) {
        h->looked = *why;
        h->looked_ns = now_ns;
    }
    if (now_ns - h->looked_ns < STANDS_NS || strcmp(h->said.text, why->text) == 0)
        return;
    h->said = *why;
    LOG(WARNING, ("no RDMA device is in use: %s", why->text));
}

static void look_for_device(struct fabric_host *h, uint64_t now_ns) {
    struct error err = {0};
    if (keeper_adopt(h, &err) == 0) {
        memset(&h->looked, 0, sizeof(h->looked));
        memset(&h->said, 0, sizeof(h->said));
        return;
    }
    h->retry_after_ns = h->retry_after_ns < RETRY_MIN_NS ? RETRY_MIN_NS : 2 * h->retry_after_ns;
    if (h->retry_after_ns > RETRY_MAX_NS)
        h->retry_after_ns = RETRY_MAX_NS;
    h->retry_ns = now_ns + h->retry_after_ns;
    pthread_mutex_lock(&h->lock);
    h->why = err;
    pthread_mutex_unlock(&h->lock);
    say_none(h, &err, now_ns);
}

/* ---- the port ------------------------------------------------------------------------------ */

static bool same_port(const struct port_now *a, const struct port_now *b) {
    return a->usable == b->usable && memcmp(a->gid.raw, b->gid.raw, sizeof(a->gid.raw)) == 0 &&
           a->gid_index == b->gid_index && a->lid == b->lid && a->mtu == b->mtu &&
           strcmp(a->why.text, b->why.text) == 0;
}

static void say_port(const struct device *d, const struct port_now *p) {
    char gid[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, p->gid.raw, gid, sizeof(gid));
    if (p->usable)
        LOG(NOTICE,
            ("%s: port %u has GID %u (%s), LID %u, MTU %u now", d->name, d->port, p->gid_index, gid,
             p->lid, mtu_bytes(p->mtu)),
            FIELD_STR("DEVICE", d->name), FIELD_U64("PORT", d->port));
    else
        LOG(WARNING, ("port %u cannot be used now: %s", d->port, p->why.text),
            FIELD_STR("DEVICE", d->name), FIELD_U64("PORT", d->port));
}

void keeper_look(struct fabric_host *h) {
    struct error err;
    struct port_now port;
    h->look_ns = CLOCK_NEVER;
    if (device_port(h, &h->open->d, &port, &err) != 0) {
        LOG(ERR, ("%s", err.text), FIELD_STR("DEVICE", h->open->d.name));
        h->look_ns = clock_now_ns() + RETRY_MAX_NS;
        return;
    }
    if (!port.usable)
        h->look_ns = clock_now_ns() + RETRY_MAX_NS;
    pthread_mutex_lock(&h->lock);
    bool changed = !same_port(&h->port, &port);
    if (changed) {
        h->port = port;
        seats_port(h);
    }
    pthread_mutex_unlock(&h->lock);
    if (changed)
        say_port(&h->open->d, &port);
}

/* ---- a device goes ------------------------------------------------------------------------- */

void keeper_forget(struct fabric_host *h, const struct error *why) {
    LOG(WARNING, ("%s; what is under way over it ends", why->text),
        FIELD_STR("DEVICE", h->open->d.name));
    h->going = true;
    h->going_since_ns = clock_now_ns();
    pthread_mutex_lock(&h->lock);
    h->now = NULL;
    memset(&h->port, 0, sizeof(h->port));
    h->why = *why;
    seats_going(h, why);
    pthread_mutex_unlock(&h->lock);
}

static void close_device(struct fabric_host *h) {
    memories_deregister(h);
    device_close(h->open);
    h->open = NULL;
    h->going = false;
}

/* Closes the device if nobody has it any more. */
static void finish_going(struct fabric_host *h, uint64_t now_ns) {
    char name[64];
    pthread_mutex_lock(&h->lock);
    bool held = seats_hold(h);
    pthread_mutex_unlock(&h->lock);
    if (held)
        return;
    if (now_ns - h->open->opened_ns > SOUND_NS)
        h->failures = h->failures > 0;
    snprintf(name, sizeof(name), "%s", h->open->d.name);
    close_device(h);
    uint64_t end_ns = clock_now_ns();
    LOG(NOTICE,
        ("%s is closed, after %" PRIu64 " ms", name, (end_ns - h->going_since_ns) / NSEC_PER_MSEC),
        FIELD_STR("DEVICE", name));
    unsigned doubled = h->failures < BROKEN_DOUBLE_MAX ? h->failures : BROKEN_DOUBLE_MAX;
    h->retry_after_ns = 0;
    h->retry_ns = end_ns + (h->failures ? BROKEN_WAIT_NS << doubled : 0);
}

void host_device_failed(struct fabric_host *h, const struct device *d, const struct error *why) {
    pthread_mutex_lock(&h->lock);
    bool ours = h->now && &h->now->d == d && !h->failed;
    if (ours) {
        h->failed = d;
        h->failed_why = *why;
    }
    pthread_mutex_unlock(&h->lock);
    if (ours)
        keeper_wake(h);
}

static void take_failure(struct fabric_host *h) {
    struct error why;
    pthread_mutex_lock(&h->lock);
    bool failed = h->failed && h->now && &h->now->d == h->failed;
    h->failed = NULL;
    why = h->failed_why;
    pthread_mutex_unlock(&h->lock);
    if (!failed)
        return;
    h->failures++;
    keeper_forget(h, &why);
}

/* ---- /dev/infiniband ----------------------------------------------------------------------- */

/* Watches what can be watched; the directory may come and go itself. */
static void watch(struct fabric_host *h) {
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
    watch(h);
    if (changed && !h->open) {
        h->retry_after_ns = 0;
        h->retry_ns = 0;
    }
}

static void check_there(struct fabric_host *h) {
    struct error why;
    if (device_there(h->open))
        return;
    h->failures = 0;
    error_set(&why, RDMAD_E_PEER_LOST, "RDMA device %s was taken away", h->open->d.name);
    keeper_forget(h, &why);
}

/* ---- the thread ---------------------------------------------------------------------------- */

static bool stopping(struct fabric_host *h) {
    pthread_mutex_lock(&h->lock);
    bool stop = h->stopping;
    pthread_mutex_unlock(&h->lock);
    return stop;
}

static int wait_ms(const struct fabric_host *h, uint64_t now_ns) {
    uint64_t at_ns = CLOCK_NEVER;
    if (!h->open)
        at_ns = h->retry_ns;
    else if (!h->going)
        at_ns = h->look_ns;
    if (h->watch_dir < 0 && at_ns > now_ns + RETRY_MAX_NS)
        at_ns = now_ns + RETRY_MAX_NS; /* nobody tells when it vanishes */
    if (at_ns == CLOCK_NEVER)
        return -1;
    return (int)((clock_left(now_ns, at_ns) + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

static void turn(struct fabric_host *h) {
    struct pollfd fds[] = {
        {.fd = h->wake_fd, .events = POLLIN},
        {.fd = h->inotify_fd, .events = POLLIN},
        {.fd = h->open && !h->going ? h->open->d.context->async_fd : -1, .events = POLLIN},
    };
    poll(fds, 3, wait_ms(h, clock_now_ns()));
    uint64_t ignored;
    if (fds[0].revents && read(h->wake_fd, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
        LOG(ERR, ("the RDMA keeper's eventfd fails: %s", strerror(errno)));
    if (fds[1].revents || h->watch_dir < 0)
        take_changes(h);
    if (h->open && !h->going && fds[2].revents)
        events_take(h);
    if (h->open && !h->going)
        take_failure(h);
    if (h->open && !h->going)
        check_there(h);
    uint64_t now_ns = clock_now_ns();
    if (h->open && !h->going && now_ns >= h->look_ns)
        keeper_look(h);
    if (h->open && h->going)
        finish_going(h, now_ns);
    if (!h->open && now_ns >= h->retry_ns && !stopping(h))
        look_for_device(h, now_ns);
}

static void *run(void *arg) {
    struct fabric_host *h = arg;
    while (!stopping(h))
        turn(h);
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
    watch(h);
    return 0;
}

static void close_fds(struct fabric_host *h) {
    if (h->wake_fd >= 0)
        close(h->wake_fd);
    if (h->inotify_fd >= 0)
        close(h->inotify_fd);
}

int keeper_start(struct fabric_host *h, struct error *err) {
    int failed = open_fds(h, err);
    if (!failed)
        failed = keeper_adopt(h, err);
    if (failed) {
        close_fds(h);
        return failed;
    }
    failed = thread_start(&h->thread, "rdmad-keeper", run, h, NULL, err);
    if (failed) {
        close_device(h);
        close_fds(h);
        return failed;
    }
    return 0;
}

void keeper_stop(struct fabric_host *h) {
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    pthread_mutex_unlock(&h->lock);
    keeper_wake(h);
    pthread_join(h->thread, NULL);
    if (h->open)
        close_device(h);
    close_fds(h);
}
