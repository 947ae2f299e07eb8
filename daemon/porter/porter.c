/* SPDX-License-Identifier: MIT */
/*
 * porter.c - the porter's loop: what the daemon asks is given to a process that may wait for it.
 *
 * The happy path: a user's TAKEs go to one worker, his CLOSEs to another, each forked when it is
 * needed and gone when it was idle for IDLE_MS; a worker has one task at a time, the others wait
 * here. ENDs are let go of in batches of one user. The process ends when the daemon does.
 *
 * Bounds: WORKERS_MAX workers; when all are busy users share them. A connection has one TAKE at a
 * time, which its END takes back, and what is to be closed is charged to its user until it is; so
 * what waits here is bounded by the sessions and rings that a user may have. This loop itself opens
 * and closes nothing but descriptors to which somebody else has a reference, so it waits for
 * nobody.
 */
#include "daemon/porter/porter.h"
#include "daemon/base/list.h"
#include "daemon/porter/child.h"
#include "daemon/porter/confine.h"
#include "daemon/porter/drop.h"
#include "daemon/porter/messages.h"
#include "daemon/porter/packet.h"
#include "daemon/porter/privileges.h"
#include "daemon/porter/worker.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS_MAX 128u
#define IDLE_MS 5000u
#define REQUESTS_A_TURN 60u

struct task {
    struct list node; /* in its worker's tasks */
    struct porter_request request;
    int fd;
};

struct porter_worker {
    pid_t pid; /* 0: there is none in this place */
    uint64_t user;
    uint32_t ask; /* PORTER_TAKE or PORTER_CLOSE: what it does */
    int end;      /* of the pair */
    bool busy;
    struct porter_request doing; /* the task under way */
    uint64_t idle_since_ms;
    struct list tasks;
};

static struct porter_worker workers[WORKERS_MAX];

static uint64_t porter_now_ms(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void porter_say(uint32_t word, uint64_t id) {
    struct porter_answer answer = {.word = word, .id = id};
    packet_send(PORTER_FD, &answer, offsetof(struct porter_answer, data), -1);
}

/* ---- workers -------------------------------------------------------------------------------- */

static bool worker_start(struct porter_worker *w) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return false;
    pid_t pid = child_fork((const int[]){PORTER_FD, pair[1]}, 2);
    if (pid == 0)
        worker_run(pair[1]);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return false;
    }
    *w = (struct porter_worker){.pid = pid, .end = pair[0], .idle_since_ms = porter_now_ms()};
    list_init(&w->tasks);
    return true;
}

/* Somebody else has a reference to its descriptor. */
static void task_free(struct task *t) {
    list_remove(&t->node);
    close(t->fd);
    free(t);
}

static void porter_say_lost(const struct porter_request *rq) {
    porter_say(rq->ask == PORTER_CLOSE ? PORTER_CLOSED : PORTER_LOST, rq->id);
}

/* No worker does it. What was to be closed has nobody else any more. */
static void task_give_up(struct task *t) {
    porter_say_lost(&t->request);
    if (t->request.ask == PORTER_CLOSE) {
        drop_fds(t->request.user, &t->fd, 1);
        list_remove(&t->node);
        free(t);
    } else {
        task_free(t);
    }
}

/* Its process ends with its end of the pair, or has ended. */
static void worker_end(struct porter_worker *w) {
    struct list *node;
    if (w->busy)
        porter_say_lost(&w->doing);
    while ((node = list_first(&w->tasks)))
        task_give_up(list_entry(node, struct task, node));
    close(w->end);
    *w = (struct porter_worker){0};
}

/* The user's for TAKEs, or that for CLOSEs. */
static struct porter_worker *worker_of(uint64_t user, uint32_t ask) {
    struct porter_worker *place = NULL, *idle = NULL;
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        struct porter_worker *w = &workers[i];
        if (w->pid && w->user == user && w->ask == ask)
            return w;
        if (!w->pid)
            place = w;
        else if (!w->busy)
            idle = w;
    }
    if (!place && !idle)
        return &workers[(user ^ user >> 32 ^ ask) % WORKERS_MAX];
    if (place && !worker_start(place))
        return NULL;
    struct porter_worker *w = place ? place : idle; /* which keeps nothing of the one before */
    w->user = user;
    w->ask = ask;
    return w;
}

/* False: its worker is gone, or cannot be told to go. */
static bool worker_give(struct porter_worker *w, struct task *t) {
    static const struct porter_request go = {.ask = PORTER_GO};
    w->doing = t->request;
    w->busy = packet_send(w->end, &t->request, sizeof(t->request), t->fd);
    if (!w->busy) {
        bool gone = errno == EPIPE || errno == ECONNRESET;
        task_give_up(t);
        return !gone;
    }
    task_free(t);
    return w->doing.ask != PORTER_CLOSE || packet_send(w->end, &go, sizeof(go), -1);
}

static void worker_next(struct porter_worker *w) {
    struct list *node;
    while (!w->busy && (node = list_first(&w->tasks))) {
        if (!worker_give(w, list_entry(node, struct task, node))) {
            worker_end(w);
            return;
        }
    }
}

static void worker_heard(struct porter_worker *w) {
    char byte;
    size_t size = sizeof(byte);
    int fd;
    if (!packet_recv(w->end, &byte, &size, &fd, false)) {
        worker_end(w);
        return;
    }
    if (!size)
        return;
    if (w->doing.ask == PORTER_CLOSE)
        porter_say(PORTER_CLOSED, w->doing.id);
    w->busy = false;
    w->idle_since_ms = porter_now_ms();
    worker_next(w);
}

/* ---- what the daemon asks ------------------------------------------------------------------- */

/* False: there is no worker for it. */
static bool task_give(const struct porter_request *rq, int fd) {
    struct porter_worker *w = fd >= 0 ? worker_of(rq->user, rq->ask) : NULL;
    struct task *t = w ? malloc(sizeof(*t)) : NULL;
    if (!t)
        return false;
    *t = (struct task){.request = *rq, .fd = fd};
    list_append(&w->tasks, &t->node);
    worker_next(w);
    return true;
}

static void daemon_asks_take(const struct porter_request *rq, int sock) {
    if (task_give(rq, sock))
        return;
    porter_say(PORTER_LOST, rq->id);
    if (sock >= 0)
        close(sock);
}

static void task_take_back(uint64_t id) {
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        if (!workers[i].pid)
            continue;
        list_for_each_safe (node, &workers[i].tasks) {
            struct task *t = list_entry(node, struct task, node);
            if (t->request.id == id)
                task_free(t);
        }
    }
}

/* What is let go of in this turn, of one user. */
struct ends {
    int fds[REQUESTS_A_TURN];
    unsigned n;
    uint64_t user;
};

static void ends_drop(struct ends *b) {
    if (b->n)
        drop_fds(b->user, b->fds, b->n);
    b->n = 0;
}

static void ends_add(struct ends *b, uint64_t user, int fd) {
    if (b->user != user)
        ends_drop(b);
    b->user = user;
    b->fds[b->n++] = fd;
}

/* The descriptor of an END or CLOSE whose GO has not come yet: if the porter let go of it before
 * the daemon has, the daemon's would be the last reference. Nothing comes between the two. */
static int held = -1;
static struct porter_request held_for;

static void daemon_asks_end(const struct porter_request *rq, int fd) {
    if (rq->ask == PORTER_END)
        task_take_back(rq->id);
    held = fd;
    held_for = *rq;
}

/* There is none if the porter before this one has read what it is the GO of. */
static void daemon_asks_go(const struct porter_request *rq, struct ends *b) {
    int fd = held;
    held = -1;
    if (fd < 0)
        porter_say(PORTER_CLOSED, rq->id);
    else if (held_for.ask == PORTER_END)
        ends_add(b, held_for.user, fd);
    else if (!task_give(&held_for, fd)) {
        ends_add(b, held_for.user, fd);
        porter_say(PORTER_CLOSED, rq->id);
    }
}

/* Returns false when the daemon is gone. */
static bool daemon_heard(void) {
    struct ends ends = {.n = 0};
    bool there = true;
    for (unsigned i = 0; i < REQUESTS_A_TURN && there; i++) {
        struct porter_request rq;
        size_t size = sizeof(rq);
        int fd;
        there = packet_recv(PORTER_FD, &rq, &size, &fd, false);
        if (!size)
            break;
        if (rq.ask == PORTER_TAKE)
            daemon_asks_take(&rq, fd);
        else if (rq.ask == PORTER_END || rq.ask == PORTER_CLOSE)
            daemon_asks_end(&rq, fd);
        else if (rq.ask == PORTER_GO)
            daemon_asks_go(&rq, &ends);
        else
            porter_say(PORTER_PONG, rq.id);
    }
    ends_drop(&ends);
    return there;
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void porter_reap(void) {
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        drop_ended(pid);
}

/* Sends idle workers away. Returns for how long the loop may sleep. */
static int porter_send_away(void) {
    uint64_t now = porter_now_ms();
    int sleep_ms = -1;
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        struct porter_worker *w = &workers[i];
        if (!w->pid || w->busy)
            continue;
        if (now - w->idle_since_ms >= IDLE_MS)
            worker_end(w);
        else
            sleep_ms = IDLE_MS;
    }
    return sleep_ms;
}

static void porter_child_ended(int sig) {
    (void)sig; /* interrupts poll */
}

static void porter_turns(void) {
    struct pollfd fds[1 + WORKERS_MAX];
    struct porter_worker *of[1 + WORKERS_MAX];
    sigset_t chld, none;
    sigemptyset(&none);
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    for (;;) {
        int sleep_ms = porter_send_away();
        struct timespec sleep = {.tv_sec = sleep_ms / 1000};
        nfds_t n = 1;
        fds[0] = (struct pollfd){.fd = PORTER_FD, .events = POLLIN};
        for (unsigned i = 0; i < WORKERS_MAX; i++)
            if (workers[i].pid) {
                of[n] = &workers[i];
                fds[n++] = (struct pollfd){.fd = workers[i].end, .events = POLLIN};
            }
        int ready = ppoll(fds, n, sleep_ms < 0 ? NULL : &sleep, &none);
        porter_reap();
        if (ready <= 0)
            continue;
        for (nfds_t i = 1; i < n; i++)
            if (fds[i].revents)
                worker_heard(of[i]);
        if (fds[0].revents && !daemon_heard())
            return;
    }
}

int porter_run(int argc, char **argv) {
    struct sigaction on_child = {.sa_handler = porter_child_ended};
    int type;
    socklen_t size = sizeof(type);
    if (getsockopt(PORTER_FD, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_SEQPACKET) {
        fputs("rdmad " PORTER_OPTION " is what rdmad starts for itself\n", stderr);
        return 2;
    }
    close_range(PORTER_FD + 1, ~0u, 0);
    /* The daemon decides when to stop, and needs us until it has. */
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigaction(SIGCHLD, &on_child, NULL);
    if (!privileges_drop(argc, argv))
        return 1;
    prctl(PR_SET_NAME, "rdmad-porter");
    if (!confine_process() && errno)
        perror("rdmad-porter runs without a filter of system calls");
    porter_turns();
    _exit(0); /* nothing is closed one by one that could wait */
}
