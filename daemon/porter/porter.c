/* SPDX-License-Identifier: MIT */
/*
 * porter.c - the porter's loop: what the daemon asks is given to a process that may wait for it.
 *
 * The happy path: TAKE goes to the worker of its user, forked when it is needed and gone when it
 * was idle for IDLE_MS; a worker has one task at a time, the others wait here. ENDs are let go of
 * in batches of one user. The process ends when the daemon does.
 *
 * Bounds: a worker for each of WORKERS_MAX users, beyond which they share. A connection has one
 * TAKE at a time, which its END takes back; so what waits here is bounded by the sessions that a
 * user may have. This loop itself opens and closes nothing but sockets to which somebody else has a
 * reference, so it waits for nobody.
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

#define WORKERS_MAX 64u
#define IDLE_MS 5000u
#define REQUESTS_A_TURN DROP_MAX

struct task {
    struct list node; /* in its worker's tasks */
    struct porter_request request;
    int sock;
};

struct porter_worker {
    pid_t pid; /* 0: there is none in this place */
    uint64_t user;
    int end; /* of the pair */
    bool busy;
    uint64_t id; /* of the task under way */
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

static bool worker_start(struct porter_worker *w, uint64_t user) {
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
    *w = (struct porter_worker){
        .pid = pid, .user = user, .end = pair[0], .idle_since_ms = porter_now_ms()};
    list_init(&w->tasks);
    return true;
}

static void task_free(struct task *t) {
    list_remove(&t->node);
    close(t->sock);
    free(t);
}

/* Its process ends with its end of the pair, or has ended. */
static void worker_end(struct porter_worker *w) {
    struct list *node;
    if (w->busy)
        porter_say(PORTER_LOST, w->id);
    while ((node = list_first(&w->tasks))) {
        struct task *t = list_entry(node, struct task, node);
        porter_say(PORTER_LOST, t->request.id);
        task_free(t);
    }
    close(w->end);
    *w = (struct porter_worker){0};
}

static struct porter_worker *worker_of(uint64_t user) {
    struct porter_worker *place = NULL;
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        if (workers[i].pid && workers[i].user == user)
            return &workers[i];
        if (!workers[i].pid)
            place = &workers[i];
    }
    if (!place)
        return &workers[(user ^ user >> 32) % WORKERS_MAX];
    return worker_start(place, user) ? place : NULL;
}

static void worker_next(struct porter_worker *w) {
    struct list *node = list_first(&w->tasks);
    if (w->busy || !node)
        return;
    struct task *t = list_entry(node, struct task, node);
    w->busy = packet_send(w->end, &t->request, sizeof(t->request), t->sock);
    w->id = t->request.id;
    if (!w->busy)
        porter_say(PORTER_LOST, w->id);
    task_free(t);
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
    w->busy = false;
    w->idle_since_ms = porter_now_ms();
    worker_next(w);
}

/* ---- what the daemon asks ------------------------------------------------------------------- */

static void daemon_asks_take(const struct porter_request *rq, int sock) {
    struct porter_worker *w = sock >= 0 ? worker_of(rq->user) : NULL;
    struct task *t = w ? malloc(sizeof(*t)) : NULL;
    if (!t) {
        porter_say(PORTER_LOST, rq->id);
        if (sock >= 0)
            close(sock);
        return;
    }
    *t = (struct task){.request = *rq, .sock = sock};
    list_append(&w->tasks, &t->node);
    worker_next(w);
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

struct batch {
    int fds[DROP_MAX];
    unsigned n;
    uint64_t user;
};

/* The descriptor of an END whose GO has not come yet: if the porter dropped it before the daemon
 * has, the daemon's would be the last reference. Nothing comes between an END and its GO. */
static int held = -1;
static uint64_t held_user;

static void batch_end(struct batch *b) {
    drop_fds(b->fds, b->n);
    b->n = 0;
}

static void daemon_asks_end(const struct porter_request *rq, int fd) {
    task_take_back(rq->id);
    held = fd;
    held_user = rq->user;
}

/* There is none if the END was read by the porter before this one. */
static void daemon_asks_go(struct batch *b) {
    if (held < 0)
        return;
    if (b->n == DROP_MAX || b->user != held_user)
        batch_end(b);
    b->user = held_user;
    b->fds[b->n++] = held;
    held = -1;
}

/* Returns false when the daemon is gone. */
static bool daemon_heard(void) {
    struct batch ends = {.n = 0};
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
        else if (rq.ask == PORTER_END)
            daemon_asks_end(&rq, fd);
        else if (rq.ask == PORTER_GO)
            daemon_asks_go(&ends);
        else
            porter_say(PORTER_PONG, rq.id);
    }
    batch_end(&ends);
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
