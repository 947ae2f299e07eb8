/* SPDX-License-Identifier: MIT */
/*
 * listener.c - bind, listen, accept.
 *
 * The socket file is made with mode 0600 at most, gets its owner and mode, and only then listens,
 * so nobody connects who will not be allowed to. A file that is in the way is a leftover when
 * connecting to it is refused; only then is it removed.
 *
 * A descriptor shortage would make the listening socket readable for ever. So one descriptor is
 * kept in reserve: it makes room for a client that is accepted only to be told so. While it is in
 * use accepting rests for REST_MS, and clients wait in the backlog.
 */
#include "daemon/ipc/listener.h"
#include "daemon/base/capable.h"
#include "daemon/base/log.h"
#include "daemon/base/upper_fd.h"
#include "daemon/ipc/kept.h"
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ACCEPTS_A_TURN 32
#define REST_MS 100
#define BACKLOG 4096

struct listener {
    int fd;
    struct event *readable, *rest_over;
    void (*accepted)(void *user, int fd), (*refused)(void *user, int fd);
    void *user;
    int reserve; /* -1: in use */
    bool paused, suspended;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "": not ours to remove */
    dev_t device;
    ino_t inode;
    char name[16]; /* under which it is kept: KEPT_NAME, or as systemd called it */
};

static int fill_address(struct sockaddr_un *a, const char *path, struct error *err) {
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof(a->sun_path))
        return error_set(err, RDMAD_E_CONFIG,
                         "%s: a socket's path may have %zu characters at most; choose a shorter "
                         "runtime directory",
                         path, sizeof(a->sun_path) - 1);
    memcpy(a->sun_path, path, n + 1);
    return 0;
}

/* The errno of a try to connect; 0: somebody answers. */
static int listener_ask(const struct sockaddr_un *a, int type) {
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    int said = connect(fd, (const struct sockaddr *)a, sizeof(*a)) ? errno : 0;
    close(fd);
    return said;
}

/* What a tenant has been given is not ours to ask or to change without CAP_DAC_OVERRIDE and
 * CAP_FOWNER, which a daemon in a container has not. */
static bool listener_take_path(const char *path) {
    return !lchown(path, geteuid(), (gid_t)-1);
}

static int listener_find_out(const struct sockaddr_un *a, int type, uid_t owner) {
    int said = listener_ask(a, type);
    if (said != EACCES || !listener_take_path(a->sun_path))
        return said;
    said = listener_ask(a, type);
    if (said != ECONNREFUSED && lchown(a->sun_path, owner, (gid_t)-1))
        LOG(WARNING, ("%s: cannot be given back to uid %u", a->sun_path, (unsigned)owner));
    return said;
}

/* Whether there is something at the path; then it is a socket. */
static int listener_look(const char *path, struct stat *st, bool *there, struct error *err) {
    *there = !lstat(path, st);
    if (!*there)
        return errno == ENOENT ? 0
                               : error_errno(err, RDMAD_E_SYSTEM, "%s: cannot be looked at", path);
    if (!S_ISSOCK(st->st_mode))
        return error_set(err, RDMAD_E_EXISTS, "%s: is in the way and is not a socket", path);
    return 0;
}

/* said: what listener_ask has of the socket at the path. 0: nobody listens, and it may go. */
static int listener_judge(const char *path, int said, uid_t owner, struct error *err) {
    if (said == 0 || said == EAGAIN || said == EPROTOTYPE)
        return error_set(err, RDMAD_E_EXISTS,
                         "%s: somebody answers there; is another rdmad running? Stop it or choose "
                         "another runtime directory",
                         path);
    errno = said;
    if (said != ECONNREFUSED)
        return error_errno(err, RDMAD_E_EXISTS,
                           "%s: is in the way, of uid %u, and whether somebody answers there is "
                           "not to be seen; remove it if no rdmad runs",
                           path, (unsigned)owner);
    return 0;
}

/* Makes way at the path, unless somebody answers there. */
static int remove_leftover(const struct sockaddr_un *a, int type, struct error *err) {
    struct stat st;
    const char *path = a->sun_path;
    bool there;
    int rc = listener_look(path, &st, &there, err);
    if (rc || !there)
        return rc;
    rc = listener_judge(path, listener_find_out(a, type, st.st_uid), st.st_uid, err);
    if (!rc && unlink(path) < 0)
        rc = error_errno(err, RDMAD_E_SYSTEM, "%s: the leftover cannot be removed", path);
    return rc;
}

static int cannot_bind(const char *path, struct error *err) {
    return error_errno(err, RDMAD_E_SYSTEM, "%s: cannot be bound", path);
}

static int no_group(const struct listener_spec *spec, struct error *err) {
    return error_errno(err, RDMAD_E_PERM, "%s: cannot be given to group %u", spec->path,
                       (unsigned)spec->group);
}

/* The file at the path is ours, with the owner and mode that it should have. */
static int listener_own_path(struct listener *l, const struct listener_spec *spec,
                             struct error *err) {
    struct stat st;
    snprintf(l->path, sizeof(l->path), "%s", spec->path);
    if (lstat(l->path, &st) < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "%s: vanished", spec->path);
    if (!S_ISSOCK(st.st_mode))
        return error_set(err, RDMAD_E_EXISTS, "%s: is not the socket any more", spec->path);
    l->device = st.st_dev;
    l->inode = st.st_ino;
    if (spec->group != (gid_t)-1 && st.st_gid != spec->group &&
        lchown(spec->path, (uid_t)-1, spec->group) < 0)
        return no_group(spec, err);
    if ((st.st_mode & 07777) != spec->mode && chmod(spec->path, spec->mode) < 0 &&
        (errno != EPERM || !listener_take_path(spec->path) || chmod(spec->path, spec->mode) < 0))
        return error_errno(err, RDMAD_E_SYSTEM, "%s: cannot get its mode", spec->path);
    return 0;
}

/* Of what we make beside path, as the kernel chooses it. */
static gid_t listener_usual_group(const char *path) {
    char dir[sizeof(((struct listener *)0)->path)];
    struct stat st;
    snprintf(dir, sizeof(dir), "%s", path);
    return !stat(dirname(dir), &st) && st.st_mode & S_ISGID ? st.st_gid : getegid();
}

/* The life before may have given it to another group than its file gets now. */
static int listener_keep_path(struct listener *l, const struct listener_spec *spec,
                              struct error *err) {
    struct listener_spec now = *spec;
    if (now.group == (gid_t)-1)
        now.group = listener_usual_group(spec->path);
    return listener_own_path(l, &now, err);
}

static int listener_bind(struct listener *l, const struct listener_spec *spec, struct error *err) {
    struct sockaddr_un a;
    int rc = fill_address(&a, spec->path, err);
    if (rc || (rc = remove_leftover(&a, spec->type, err)))
        return rc;
    /* The mode of an unbound socket is what its file is created with. */
    if (fchmod(l->fd, 0600) < 0 || bind(l->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        return cannot_bind(spec->path, err);
    if ((rc = listener_own_path(l, spec, err)))
        return rc;
    if (listen(l->fd, BACKLOG) < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "%s: cannot listen", spec->path);
    return 0;
}

/* Of one who is not let in by the file's mode that cannot be told without taking it from him. */
static int listener_check_path(const struct sockaddr_un *a, int type, struct error *err) {
    struct stat st;
    char dir[sizeof(a->sun_path)];
    bool there;
    int rc = listener_look(a->sun_path, &st, &there, err);
    if (rc)
        return rc;
    memcpy(dir, a->sun_path, sizeof(dir));
    if (eaccess(dirname(dir), W_OK | X_OK))
        return cannot_bind(a->sun_path, err);
    int said = there ? listener_ask(a, type) : ECONNREFUSED;
    return said == EACCES ? 0 : listener_judge(a->sun_path, said, st.st_uid, err);
}

int listener_check(const struct listener_spec *spec, struct error *err) {
    struct sockaddr_un a;
    struct stat st;
    bool there;
    int rc = fill_address(&a, spec->path, err);
    const char *name = kept_name(spec->kept, spec->path);
    if (rc || (name && strcmp(name, KEPT_NAME) != 0)) /* the service manager's is as it is */
        return rc;
    if (!spec->kept)
        return listener_look(spec->path, &st, &there, err);
    if (!name && (rc = listener_check_path(&a, spec->type, err)))
        return rc;
    errno = EPERM;
    return spec->group == (gid_t)-1 || capable_of_group(spec->group) ? 0 : no_group(spec, err);
}

static int socket_option(int fd, int option) {
    int value = -1;
    socklen_t size = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0 ? -1 : value;
}

/* Takes a socket that systemd made for us, after looking that it is what we would have made. */
static int listener_take(struct listener *l, const struct listener_spec *spec, struct error *err) {
    if (socket_option(l->fd, SO_DOMAIN) != AF_UNIX || socket_option(l->fd, SO_TYPE) != spec->type ||
        socket_option(l->fd, SO_ACCEPTCONN) != 1)
        return error_set(err, RDMAD_E_CONFIG,
                         "the socket passed for %s is not a listening Unix %s socket; check "
                         "rdmad.socket",
                         spec->path, spec->type == SOCK_STREAM ? "stream" : "seqpacket");
    if (fcntl(l->fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(l->fd, F_SETFL, O_NONBLOCK) < 0)
        return error_errno(err, RDMAD_E_SYSTEM, "the socket passed for %s", spec->path);
    return 0;
}

static void listener_rest(struct listener *l) {
    const struct timeval span = {.tv_usec = REST_MS * 1000};
    LOG_LIMITED(WARNING, ("accepting pauses for %d ms: %s", REST_MS, strerror(errno)));
    event_del(l->readable);
    event_add(l->rest_over, &span);
}

static void listener_keep_reserve(struct listener *l) {
    if (l->reserve < 0)
        l->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void listener_rest_over(evutil_socket_t fd, short what, void *arg) {
    struct listener *l = arg;
    (void)fd, (void)what;
    listener_keep_reserve(l);
    if (!l->paused && !l->suspended)
        event_add(l->readable, NULL);
}

static bool is_short(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

static int listener_accept(const struct listener *l) {
    return upper_fd(accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

/* Refuses the client that has waited longest. False: it cannot be done now. */
static bool listener_refuse(struct listener *l) {
    int saved = errno;
    if (l->reserve < 0 || !l->refused)
        return false;
    close(l->reserve);
    l->reserve = -1;
    int client = listener_accept(l);
    if (client >= 0)
        l->refused(l->user, client);
    listener_keep_reserve(l);
    errno = saved;
    return client >= 0;
}

static void listener_readable(evutil_socket_t fd, short what, void *arg) {
    struct listener *l = arg;
    (void)fd, (void)what;
    for (int i = 0; i < ACCEPTS_A_TURN && !l->paused && !l->suspended; i++) {
        int client = listener_accept(l);
        if (client >= 0) {
            l->accepted(l->user, client);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR || (is_short(errno) && listener_refuse(l)))
            continue;
        if (is_short(errno))
            listener_rest(l);
        break;
    }
}

int listener_new(struct event_base *base, const struct listener_spec *spec,
                 void (*accepted)(void *user, int fd), void *user, struct listener **out,
                 struct error *err) {
    int rc;
    struct listener *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a listener");
    *l = (struct listener){
        .fd = -1, .accepted = accepted, .refused = spec->refused, .user = user, .reserve = -1};
    if ((l->fd = spec->activated) >= 0) {
        rc = listener_take(l, spec, err);
    } else if ((l->fd = kept_take(spec->kept, spec->path)) >= 0) {
        rc = listener_take(l, spec, err);
        if (!rc)
            rc = listener_keep_path(l, spec, err);
    } else if ((l->fd = socket(AF_UNIX, spec->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0) {
        rc = error_errno(err, RDMAD_E_SYSTEM, "cannot create a socket");
    } else {
        rc = listener_bind(l, spec, err);
    }
    const char *file = strrchr(spec->path, '/');
    snprintf(l->name, sizeof(l->name), "%s", *l->path || !file ? KEPT_NAME : file + 1);
    listener_keep_reserve(l);
    if (!rc) {
        l->fd = upper_fd(l->fd);
        l->readable = event_new(base, l->fd, EV_READ | EV_PERSIST, listener_readable, l);
        l->rest_over = event_new(base, -1, 0, listener_rest_over, l);
        if (!l->readable || !l->rest_over || event_add(l->readable, NULL))
            rc = error_set(err, RDMAD_E_NOMEM, "out of memory for a listener");
    }
    if (rc) {
        listener_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

void listener_pause(struct listener *l) {
    l->paused = true;
    event_del(l->readable);
}

void listener_suspend(struct listener *l, bool on) {
    l->suspended = on;
    if (on)
        event_del(l->readable);
    else if (!l->paused)
        event_add(l->readable, NULL);
}

/* Another daemon's may stand at the path by now. */
static bool listener_path_is_ours(const struct listener *l) {
    struct stat st;
    return *l->path && !lstat(l->path, &st) && st.st_dev == l->device && st.st_ino == l->inode;
}

bool listener_tell(const struct listener *l, struct kept *kept) {
    return (!*l->path || listener_path_is_ours(l)) && kept_add(kept, l->fd, l->name);
}

bool listener_keep(struct listener *l, struct kept *kept) {
    if (!listener_tell(l, kept))
        return false;
    l->path[0] = '\0';
    return true;
}

void listener_free(struct listener *l) {
    if (!l)
        return;
    if (l->readable)
        event_free(l->readable);
    if (l->rest_over)
        event_free(l->rest_over);
    if (listener_path_is_ours(l))
        unlink(l->path);
    if (l->reserve >= 0)
        close(l->reserve);
    free(l); /* and not l->fd: see listener.h */
}
