/* SPDX-License-Identifier: MIT */
#include "daemon/ipc/listener.h"
#include "daemon/base/log.h"
#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024
#define ACCEPTS_A_TURN 32u
/* How long accepting pauses when descriptors ran out. */
static const struct timeval breather = {.tv_usec = 100000};

struct listener {
    int fd;
    bool bound; /* by us: the path is ours to remove */
    struct sockaddr_un address;
    struct event *readable, *resume;
    void (*accepted)(void *user, int fd);
    void *user;
};

static void on_resume(evutil_socket_t fd, short what, void *user) {
    struct listener *l = user;
    (void)fd;
    (void)what;
    event_add(l->readable, NULL);
}

static void on_readable(evutil_socket_t fd, short what, void *user) {
    struct listener *l = user;
    (void)what;
    for (unsigned i = 0; i < ACCEPTS_A_TURN; i++) {
        int got = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (got >= 0) {
            l->accepted(l->user, got);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            LOG_LIMITED(WARNING, ("%s: cannot accept (%s), pausing; raise LimitNOFILE",
                                  l->address.sun_path, strerror(errno)));
            event_del(l->readable);
            event_add(l->resume, &breather);
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

/* Whether somebody answers on the path. */
static bool in_use(const struct listener *l, int type) {
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    int rc = connect(fd, (const struct sockaddr *)&l->address, sizeof(l->address));
    bool busy = rc == 0 || errno == EAGAIN; /* EAGAIN: alive with a full backlog */
    close(fd);
    return busy;
}

static int bind_path(struct listener *l, const struct listener_spec *spec, struct error *err) {
    const struct sockaddr *address = (const struct sockaddr *)&l->address;
    struct stat st;
    if (!lstat(spec->path, &st)) {
        if (!S_ISSOCK(st.st_mode))
            return error_set(err, RDMAD_E_EXISTS, "%s exists and is not a socket; move it away",
                             spec->path);
        if (in_use(l, spec->type))
            return error_set(err, RDMAD_E_BUSY,
                             "another process answers on %s; stop it, or use another --runtime-dir",
                             spec->path);
        unlink(spec->path);
    }
    l->fd = socket(AF_UNIX, spec->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "cannot make a socket for %s", spec->path);
    /* Nobody may connect before mode and group are right. */
    mode_t before = umask(0177);
    int rc = bind(l->fd, address, sizeof(l->address));
    umask(before);
    if (rc)
        return error_errno(err, RDMAD_E_SYSTEM, "cannot bind %s", spec->path);
    l->bound = true;
    if (spec->group != (gid_t)-1 && chown(spec->path, (uid_t)-1, spec->group))
        return error_errno(err, RDMAD_E_SYSTEM, "cannot give %s to its group", spec->path);
    if (chmod(spec->path, spec->mode))
        return error_errno(err, RDMAD_E_SYSTEM, "cannot set the mode of %s", spec->path);
    if (listen(l->fd, BACKLOG))
        return error_errno(err, RDMAD_E_SYSTEM, "cannot listen on %s", spec->path);
    return RDMAD_OK;
}

static int take_activated(struct listener *l, const struct listener_spec *spec, struct error *err) {
    int type = 0;
    socklen_t size = sizeof(type);
    l->fd = spec->activated;
    if (getsockopt(l->fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != spec->type)
        return error_set(err, RDMAD_E_CONFIG, "the socket passed for %s is not %s", spec->path,
                         spec->type == SOCK_SEQPACKET ? "ListenSequentialPacket="
                                                      : "ListenStream=");
    if (evutil_make_socket_nonblocking(l->fd) || evutil_make_socket_closeonexec(l->fd))
        return error_errno(err, RDMAD_E_SYSTEM, "cannot use the socket passed for %s", spec->path);
    return RDMAD_OK;
}

int listener_new(struct event_base *base, const struct listener_spec *spec,
                 void (*accepted)(void *user, int fd), void *user, struct listener **out,
                 struct error *err) {
    struct listener *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, RDMAD_E_NOMEM, "no memory to listen on %s", spec->path);
    l->fd = -1;
    l->accepted = accepted;
    l->user = user;
    l->address.sun_family = AF_UNIX;
    int rc;
    if ((size_t)snprintf(l->address.sun_path, sizeof(l->address.sun_path), "%s", spec->path) >=
        sizeof(l->address.sun_path))
        rc = error_set(err, RDMAD_E_CONFIG, "the path %s is longer than a socket's may be",
                       spec->path);
    else if (spec->activated >= 0)
        rc = take_activated(l, spec, err);
    else
        rc = bind_path(l, spec, err);
    if (!rc) {
        l->readable = event_new(base, l->fd, EV_READ | EV_PERSIST, on_readable, l);
        l->resume = event_new(base, -1, 0, on_resume, l);
        if (!l->readable || !l->resume || event_add(l->readable, NULL))
            rc = error_set(err, RDMAD_E_NOMEM, "no memory to listen on %s", spec->path);
    }
    if (rc) {
        listener_free(l);
        return rc;
    }
    *out = l;
    return RDMAD_OK;
}

void listener_pause(struct listener *l) {
    event_del(l->readable);
    event_del(l->resume);
}

void listener_free(struct listener *l) {
    if (l->readable)
        event_free(l->readable);
    if (l->resume)
        event_free(l->resume);
    if (l->fd >= 0)
        close(l->fd);
    if (l->bound)
        unlink(l->address.sun_path);
    free(l);
}
