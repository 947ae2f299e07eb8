/* SPDX-License-Identifier: MIT */
/*
 * closing.c - memory to a registration thread, all else to the porter.
 */
#include "daemon/state/closing.h"
#include "daemon/ipc/conn.h"
#include "daemon/state/session.h"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void closing_run(struct offload_job *job) {
    close(container_of(job, struct closing, job)->fd);
}

static void closing_done(struct offload_job *job) {
    const struct closing *c = container_of(job, struct closing, job);
    c->closed(c->arg);
}

static void closing_ended(struct porter_visit *v) {
    const struct closing *c = container_of(v, struct closing, visit);
    c->closed(c->arg);
}

/* What has seals is a memfd. No epoll takes one. */
static bool is_memory(int fd) {
    return fcntl(fd, F_GET_SEALS) >= 0;
}

void closing_begin(struct closing *c, struct session *s, int fd, void (*closed)(void *arg),
                   void *arg) {
    struct porter *porter = s->state->porter;
    *c = (struct closing){.fd = fd, .closed = closed, .arg = arg};
    if (!porter || is_memory(fd)) {
        session_post(s, &c->job, closing_run, closing_done);
        return;
    }
    porter_visit_init(porter, &c->visit, fd, session_user_id(s));
    c->visit.ended = closing_ended;
    porter_close(porter, &c->visit);
}

struct fd_closing {
    struct closing closing;
    struct session *session; /* held */
    bool waits;              /* nothing is read until it is done */
};

static void session_fd_closed(void *arg) {
    struct fd_closing *m = arg;
    struct session *s = m->session;
    if (m->waits && s->conn)
        conn_wait(s->conn, false);
    free(m);
    session_release(s);
}

/* Without memory for that it is closed here. */
static void close_fd(struct session *s, int fd, bool wait) {
    struct fd_closing *m = malloc(sizeof(*m));
    if (!m) {
        close(fd);
        return;
    }
    session_hold(s);
    m->session = s;
    m->waits = wait && s->conn;
    if (m->waits)
        conn_wait(s->conn, true);
    closing_begin(&m->closing, s, fd, session_fd_closed, m);
}

void session_close_fd(struct session *s, int fd) {
    close_fd(s, fd, true);
}

void session_close_one_fd(struct session *s, int fd) {
    close_fd(s, fd, false);
}
