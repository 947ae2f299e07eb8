/* SPDX-License-Identifier: MIT */
/*
 * metrics_door.c - a connection reads its request, writes its answer, and is over.
 *
 * What comes by a Unix socket may bring descriptors, so everything is received as
 * ipc/client_socket.h has it.
 */
#include "daemon/ctl/metrics_door.h"
#include "daemon/base/log.h"
#include "daemon/base/upper_fd.h"
#include "daemon/config/metrics_at.h"
#include "daemon/ctl/handlers.h"
#include "daemon/ctl/metrics.h"
#include "daemon/ctl/metrics_http.h"
#include "daemon/ipc/client_socket.h"
#include "daemon/ipc/listener.h"
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 16
#define REST_US 100000 /* when there is no descriptor */
#define RETRY_S 2      /* when the port is somebody else's */
#define PATH_SIZE 112u /* more than a socket's path may have */
#define WHERE_MAX 448u

/* One of a port, or one of a path: what is not its own is -1, or NULL. */
struct door {
    struct metrics *metrics;
    int fd;                     /* of a port */
    struct sockaddr_storage at; /* where that is, or will be */
    socklen_t at_size;
    struct event *accepts;     /* of fd */
    struct event *again;       /* it could not accept, or not listen, and tries again later */
    struct listener *listener; /* of a path */
    struct list conns;
    unsigned nconns;
};

struct metrics {
    struct state *state;
    struct metrics_source source;
    struct door port, local;
    char where[WHERE_MAX];
};

struct metrics_conn {
    struct door *door;
    struct list node;
    struct client_socket *sock;
    struct event *readable, *writable, *over;
    struct evbuffer *output;
    size_t used;
    char request[METRICS_REQUEST_MAX];
};

/* ---- a connection --------------------------------------------------------------------------- */

/* Nobody else is let in while all places are taken. */
static void let_in(struct door *d) {
    bool room = d->nconns < METRICS_CONNS;
    if (d->listener)
        listener_suspend(d->listener, !room);
    if (d->accepts && room)
        event_add(d->accepts, NULL);
    else if (d->accepts)
        event_del(d->accepts);
}

static void event_drop(struct event *e) {
    if (e)
        event_free(e);
}

static void conn_drop(struct metrics_conn *c) {
    struct door *d = c->door;
    event_drop(c->readable);
    event_drop(c->writable);
    event_drop(c->over);
    if (c->output)
        evbuffer_free(c->output);
    client_socket_close(c->sock);
    list_remove(&c->node);
    d->nconns--;
    free(c);
    let_in(d);
}

static void on_writable(evutil_socket_t fd, short what, void *arg) {
    struct metrics_conn *c = arg;
    (void)what;
    int n = evbuffer_write(c->output, fd);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0 || !evbuffer_get_length(c->output))
        conn_drop(c);
}

static void on_over(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    conn_drop(arg);
}

static void text_written(const void *bytes, size_t size, void *text) {
    (void)bytes, (void)size;
    metrics_text_put(text);
}

/* False: out of memory. */
static bool answer_with(struct metrics_conn *c, enum metrics_answer answer, bool openmetrics,
                        struct metrics_text *text) {
    const char *no = metrics_http_body(answer);
    char head[512];
    size_t size =
        metrics_http_head(answer, openmetrics, text ? text->size : strlen(no), head, sizeof(head));
    if (evbuffer_add(c->output, head, size)) {
        metrics_text_put(text);
        return false;
    }
    if (!text)
        return !evbuffer_add(c->output, no, strlen(no));
    if (!evbuffer_add_reference(c->output, text->bytes, text->size, text_written, text))
        return true;
    metrics_text_put(text);
    return false;
}

static void conn_answer(struct metrics_conn *c, enum metrics_answer answer, bool openmetrics) {
    struct metrics_text *text = NULL;
    event_del(c->readable);
    if (answer == METRICS_OK) {
        text = metrics_source_kept(&c->door->metrics->source, openmetrics);
        answer = text ? METRICS_OK : METRICS_FULL;
    }
    if (!answer_with(c, answer, openmetrics, text) || event_add(c->writable, NULL))
        conn_drop(c);
}

static void on_readable(evutil_socket_t fd, short what, void *arg) {
    struct metrics_conn *c = arg;
    size_t size = sizeof(c->request) - c->used;
    bool openmetrics;
    (void)fd, (void)what;
    int rc = client_socket_read(c->sock, c->request + c->used, &size);
    if (rc == RDMAD_E_AGAIN)
        return;
    if (rc || !size) {
        conn_drop(c);
        return;
    }
    c->used += size;
    enum metrics_answer answer = metrics_http_judge(c->request, c->used, &openmetrics);
    if (answer != METRICS_MORE)
        conn_answer(c, answer, openmetrics);
}

static void on_door_accepted(void *user, int fd) {
    struct door *d = user;
    struct state *st = d->metrics->state;
    struct event_base *base = st->base;
    struct metrics_conn *c = calloc(1, sizeof(*c));
    if (!c) {
        close(fd);
        return;
    }
    c->door = d;
    c->sock = client_socket_new(st->porter, fd, (struct user_id){.uid = (uid_t)-1});
    if (!c->sock) {
        free(c);
        return;
    }
    list_append(&d->conns, &c->node);
    d->nconns++;
    c->output = evbuffer_new();
    c->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
    c->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
    c->over = evtimer_new(base, on_over, c);
    const struct timeval most = {.tv_sec = METRICS_SECONDS};
    if (!c->output || !c->readable || !c->writable || !c->over || event_add(c->over, &most) ||
        event_add(c->readable, NULL)) {
        conn_drop(c);
        return;
    }
    let_in(d);
}

/* ---- where they are -------------------------------------------------------------------------- */

static void on_connected(evutil_socket_t fd, short what, void *arg) {
    struct door *d = arg;
    (void)what;
    int conn = upper_fd(accept4((int)fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (conn >= 0)
        on_door_accepted(d, conn);
    else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        const struct timeval rest = {.tv_usec = REST_US};
        LOG_LIMITED(WARNING, ("metrics.listen: nobody is let in: %s", strerror(errno)));
        event_del(d->accepts);
        event_add(d->again, &rest);
    }
}

/* Says in where that metrics are there, too. */
static void add_place(struct metrics *m, const char *place) {
    size_t n = strlen(m->where);
    snprintf(m->where + n, sizeof(m->where) - n, "%s%s", n ? ", " : "", place);
}

/* -1: errno tells why. */
static int port_socket(const struct sockaddr *at, socklen_t size) {
    int on = 1, fd = upper_fd(socket(at->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0 ||
        (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) && !bind(fd, at, size)))
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int port_bind(struct door *d) {
    int fd = port_socket((const struct sockaddr *)&d->at, d->at_size);
    if (fd >= 0 && !listen(fd, BACKLOG)) {
        d->fd = fd;
        return 0;
    }
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

static int port_serve(struct door *d, struct error *err) {
    char host[RDMAD_HOST_MAX + 1], service[8], place[RDMAD_HOST_MAX + 16];
    socklen_t size = sizeof(d->at);
    getsockname(d->fd, (struct sockaddr *)&d->at, &size);
    getnameinfo((struct sockaddr *)&d->at, size, host, sizeof(host), service, sizeof(service),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(place, sizeof(place), strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, service);
    d->accepts = event_new(d->metrics->state->base, d->fd, EV_READ | EV_PERSIST, on_connected, d);
    if (!d->accepts || event_add(d->accepts, NULL))
        return error_set(err, RDMAD_E_NOMEM, "out of memory for metrics.listen");
    add_place(d->metrics, place);
    LOG(NOTICE, ("metrics: GET /metrics is answered at %s", place));
    return 0;
}

static void port_wait(struct door *d) {
    const struct timeval span = {.tv_sec = RETRY_S};
    event_add(d->again, &span);
}

static void on_again(evutil_socket_t fd, short what, void *arg) {
    struct door *d = arg;
    struct error err;
    (void)fd, (void)what;
    if (d->fd >= 0)
        let_in(d);
    else if (port_bind(d))
        port_wait(d);
    else if (port_serve(d, &err))
        LOG(WARNING, ("%s", err.text));
}

/* Somebody has the port, or the machine has not got the address yet: no reason to serve nobody. */
static bool may_pass(int error) {
    return error == EADDRINUSE || error == EADDRNOTAVAIL;
}

/* An address: nothing is looked up. */
static int port_address(const struct metrics_at *where, struct sockaddr_storage *at,
                        socklen_t *size, struct error *err) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *ai = NULL;
    char number[8];
    snprintf(number, sizeof(number), "%u", (unsigned)where->port);
    if (getaddrinfo(where->host, number, &hints, &ai))
        return error_set(err, RDMAD_E_CONFIG, "metrics.listen: %s is no address", where->host);
    memcpy(at, ai->ai_addr, ai->ai_addrlen);
    *size = ai->ai_addrlen;
    freeaddrinfo(ai);
    return 0;
}

static int port_refused(const struct metrics_at *where, struct error *err) {
    return error_errno(err, RDMAD_E_CONFIG, "metrics.listen: cannot listen on %s port %u",
                       where->host, (unsigned)where->port);
}

static int listen_at(struct door *d, const struct metrics_at *where, struct error *err) {
    int rc = port_address(where, &d->at, &d->at_size, err);
    if (rc)
        return rc;
    d->again = evtimer_new(d->metrics->state->base, on_again, d);
    if (!d->again)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for metrics.listen");
    if (!port_bind(d))
        return port_serve(d, err);
    if (!may_pass(errno))
        return port_refused(where, err);
    LOG(WARNING, ("metrics.listen: cannot listen on %s port %u: %s; until that changes, which is "
                  "looked at every %d s, metrics are not answered there",
                  where->host, (unsigned)where->port, strerror(errno), RETRY_S));
    port_wait(d);
    return 0;
}

static struct listener_spec local_spec(const struct state *st, char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%s/metrics.sock", st->config->runtime_dir);
    return (struct listener_spec){
        .path = path, .type = SOCK_STREAM, .mode = 0660, .group = (gid_t)-1, .activated = -1};
}

static int listen_locally(struct door *d, struct error *err) {
    struct state *st = d->metrics->state;
    char path[PATH_SIZE];
    const struct listener_spec spec = local_spec(st, path);
    add_place(d->metrics, path);
    int rc = listener_new(st->base, &spec, on_door_accepted, d, &d->listener, err);
    if (!rc)
        LOG(NOTICE, ("metrics: GET /metrics is answered at %s", path));
    return rc;
}

static int metrics_at_of(const struct state *st, struct metrics_at *at, struct error *err) {
    const char *text = st->config->metrics_listen, *wrong = metrics_at_parse(text, at);
    return wrong ? error_set(err, RDMAD_E_CONFIG, "metrics.listen \"%s\": %s", text, wrong) : 0;
}

static int check_port(const struct metrics_at *where, struct error *err) {
    struct sockaddr_storage at;
    socklen_t size;
    int rc = port_address(where, &at, &size, err);
    if (rc)
        return rc;
    int fd = port_socket((const struct sockaddr *)&at, size);
    if (fd >= 0)
        close(fd);
    return fd >= 0 || may_pass(errno) ? 0 : port_refused(where, err);
}

int metrics_check(const struct state *st, struct error *err) {
    struct metrics_at at;
    char path[PATH_SIZE];
    struct listener_spec spec = local_spec(st, path);
    spec.kept = st->kept;
    int rc = metrics_at_of(st, &at, err);
    if (!rc && *at.host)
        rc = check_port(&at, err);
    return rc || !at.local ? rc : listener_check(&spec, err);
}

static int metrics_listen(struct metrics *m, struct error *err) {
    struct metrics_at at;
    int rc = metrics_at_of(m->state, &at, err);
    if (!rc && *at.host)
        rc = listen_at(&m->port, &at, err);
    if (!rc && at.local)
        rc = listen_locally(&m->local, err);
    return rc;
}

static void door_init(struct door *d, struct metrics *m) {
    d->metrics = m;
    d->fd = -1;
    list_init(&d->conns);
}

int metrics_new(struct state *st, struct metrics **out, struct error *err) {
    struct metrics *m = calloc(1, sizeof(*m));
    if (!m)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for metrics");
    m->state = st;
    door_init(&m->port, m);
    door_init(&m->local, m);
    int rc = metrics_source_init(&m->source, st, err);
    if (!rc)
        rc = metrics_listen(m, err);
    if (rc) {
        metrics_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

const char *metrics_where(const struct metrics *m) {
    return m->where;
}

void metrics_tell(const struct metrics *m, struct kept *kept) {
    if (m->local.listener)
        (void)listener_tell(m->local.listener, kept);
}

void ctl_metrics(struct ctl_call *call, const json_t *params) {
    const char *format = rpc_text(params, "format");
    struct metrics *m = ctl_state(call)->metrics;
    struct error why;
    bool prometheus = format && !strcmp(format, "prometheus");
    if (format && !prometheus && strcmp(format, "openmetrics") != 0) {
        error_set(&why, RDMAD_E_INVAL, "no format \"%.60s\": it is openmetrics or prometheus",
                  format);
        ctl_fail(call, &why);
        return;
    }
    struct metrics_text *text = metrics_source_now(&m->source, !prometheus);
    ctl_reply(call, text ? json_pack("{s:s#}", "text", text->bytes, text->size) : NULL);
    metrics_text_put(text);
}

static void door_close(struct door *d) {
    event_drop(d->accepts);
    event_drop(d->again);
    d->accepts = NULL;
    if (d->listener)
        listener_free(d->listener);
    d->listener = NULL;
    list_for_each_safe (node, &d->conns)
        conn_drop(list_entry(node, struct metrics_conn, node));
    if (d->fd >= 0)
        close(d->fd);
}

void metrics_free(struct metrics *m) {
    if (!m)
        return;
    door_close(&m->port);
    door_close(&m->local);
    metrics_source_fini(&m->source);
    free(m);
}
