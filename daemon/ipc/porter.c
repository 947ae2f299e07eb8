/* SPDX-License-Identifier: MIT */
/*
 * porter.c - a child process, a pair of sockets, a queue of what does not fit into them.
 *
 * The happy path: a request leaves with a reference to the visitor's descriptor, its answer finds
 * the visit by its number. A PING follows what was sent; its PONG tells that the porter's loop has
 * turned since. What is sent between the two gets a PING of its own after that PONG. So whenever
 * the porter has something to do, an answer of it is waited for.
 *
 * An END's (or CLOSE's) reference is in the pair before ours is closed; the porter drops it only
 * after GO, which is sent when ours is closed; and the pair is never closed while the daemon lives.
 * So the last reference is never dropped here.
 */
#include "daemon/ipc/porter.h"
#include "common/fdmsg.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"
#include "daemon/base/upper_fd.h"
#include "daemon/porter/messages.h"
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_S 5
#define RESTART_S 1
#define CROWD 256u
#define ANSWERS_A_TURN 32u
#define FAREWELL_MS 500
#define RETRY_MS 10
#define ASKED_LISTS 1024u /* clients may hold up very many closes */

struct process {
    struct list node; /* of killed */
    struct porter *porter;
    pid_t pid;
    int pidfd;
    struct event *ended;
};

struct porter {
    pthread_t owner; /* the control thread */
    struct event_base *base;
    struct porter_spec spec;
    int ours, theirs;
    struct process *process; /* NULL: none now */
    struct list killed;      /* not reaped yet: a thread of theirs cannot even die */
    struct event *readable, *writable, *retry, *restart, *overdue;
    struct list waiting;
    struct list asked[ASKED_LISTS]; /* by id: TAKEs and CLOSEs without an answer */
    unsigned nwaiting;
    uint64_t ids, started_ns, ping; /* ping: the last one's number */
    uint64_t overdue_ns;            /* when it should have answered */
    unsigned starts;
    bool crowded;
    bool watched; /* the last PING has no answer yet */
    bool unseen;  /* something was sent since the last PING */
    bool forgets_closes;
};

static void porter_flush(struct porter *p);

/* ---- the process ---------------------------------------------------------------------------- */

/* The end of the pair becomes PORTER_FD of the child; whatever else is open here is close-on-exec.
 */
static int porter_spawn(struct porter *p, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    char *const argv[] = {(char *)(uintptr_t) "rdmad-porter", (char *)(uintptr_t)PORTER_OPTION,
                          NULL};
    sigemptyset(&none);
    if (posix_spawn_file_actions_init(&actions))
        return ENOMEM;
    if (posix_spawnattr_init(&attr)) {
        posix_spawn_file_actions_destroy(&actions);
        return ENOMEM;
    }
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawn_file_actions_adddup2(&actions, p->theirs, PORTER_FD);
    int failed = posix_spawn(pid, p->spec.program, &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static void after(struct event *e, time_t seconds) {
    const struct timeval span = {.tv_sec = seconds};
    event_add(e, &span);
}

static void process_free(struct process *process) {
    list_remove(&process->node);
    if (process->ended)
        event_free(process->ended);
    if (process->pidfd >= 0)
        close(process->pidfd);
    free(process);
}

static void process_ended(evutil_socket_t fd, short what, void *arg);

static int porter_start(struct porter *p, struct error *err) {
    struct process *process = calloc(1, sizeof(*process));
    if (!process)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for the porter");
    *process = (struct process){.porter = p, .pidfd = -1};
    list_init(&process->node);
    int failed = porter_spawn(p, &process->pid);
    if (failed) {
        process_free(process);
        return error_set(err, RDMAD_E_SYSTEM, "cannot start the porter, %s: %s", p->spec.program,
                         strerror(failed));
    }
    p->started_ns = clock_now_ns();
    p->starts++;
    process->pidfd = pidfd_open(process->pid, 0); /* close-on-exec by itself */
    if (process->pidfd >= 0)
        process->ended = event_new(p->base, process->pidfd, EV_READ, process_ended, process);
    if (!process->ended || event_add(process->ended, NULL)) {
        int saved = errno;
        kill(process->pid, SIGKILL);
        waitpid(process->pid, NULL, 0); /* at once: it has done nothing yet */
        process_free(process);
        errno = saved;
        return error_errno(err, RDMAD_E_SYSTEM, "cannot watch the porter");
    }
    p->process = process;
    return 0;
}

/* What the porter was looking at is lost with it; what waits is for the next one. */
static void porter_lose_asked(struct porter *p) {
    struct list *node;
    for (unsigned i = 0; i < ASKED_LISTS; i++) {
        while ((node = list_pop(&p->asked[i]))) {
            struct porter_visit *v = list_entry(node, struct porter_visit, asked);
            if (v->closes)
                v->ended(v);
            else
                v->taken(v, NULL, 0, -1, 0);
        }
    }
}

/* Its process is no longer p's: it was reaped, or killed and is reaped when it has ended. */
static void porter_replace(struct porter *p, const char *why) {
    uint64_t age = clock_now_ns() - p->started_ns;
    LOG_LIMITED(WARNING, ("the porter %s; another one is started", why));
    p->process = NULL;
    p->watched = false;
    p->unseen = true; /* with what the next one finds in the pair */
    event_del(p->overdue);
    after(p->restart, age < RESTART_S * NSEC_PER_SEC ? RESTART_S : 0);
    porter_lose_asked(p);
}

static void process_ended(evutil_socket_t fd, short what, void *arg) {
    struct process *process = arg;
    struct porter *p = process->porter;
    int status;
    (void)fd, (void)what;
    if (waitpid(process->pid, &status, WNOHANG) != process->pid) {
        event_add(process->ended, NULL);
        return;
    }
    bool was_killed = process != p->process;
    process_free(process);
    if (!was_killed)
        porter_replace(p, "has ended");
}

static void porter_on_restart(evutil_socket_t fd, short what, void *arg) {
    struct porter *p = arg;
    struct error why;
    (void)fd, (void)what;
    if (porter_start(p, &why)) {
        LOG_LIMITED(ERR, ("%s", why.text));
        after(p->restart, RESTART_S);
        return;
    }
    porter_flush(p);
}

/* ---- out ------------------------------------------------------------------------------------ */

static void porter_tell_crowded(struct porter *p) {
    bool crowded = p->nwaiting >= CROWD || (p->crowded && p->nwaiting);
    if (crowded != p->crowded && p->spec.crowded)
        p->spec.crowded(p->spec.user, crowded);
    p->crowded = crowded;
}

/* The daemon closes its own then, and says that it has. */
static bool gives_last_reference(uint32_t ask) {
    return ask == PORTER_END || ask == PORTER_CLOSE;
}

/* 0, RDMAD_E_AGAIN, or RDMAD_E_SYSTEM: too many descriptors are on their way; also for later. */
static int porter_send(struct porter *p, uint32_t porter_ask_for, const struct porter_visit *v) {
    struct porter_request rq = {
        .ask = porter_ask_for, .user = v ? user_id_number(v->who) : 0, .id = v ? v->id : p->ping};
    bool with_fd = porter_ask_for == PORTER_TAKE || gives_last_reference(porter_ask_for);
    return rdmad_fdmsg_send(p->ours, &rq, sizeof(rq), with_fd ? &v->fd : NULL, with_fd);
}

/* A full pair has room again when the porter has taken something, which an event tells. Other
 * failures are not the pair's, and that event would come at once. */
static void porter_send_later(struct porter *p, int rc) {
    const struct timeval moment = {.tv_usec = RETRY_MS * 1000};
    if (rc == RDMAD_E_AGAIN)
        event_add(p->writable, NULL);
    else
        event_add(p->retry, &moment);
}

static void porter_await(struct porter *p) {
    p->overdue_ns = clock_now_ns() + ANSWER_S * NSEC_PER_SEC;
    after(p->overdue, ANSWER_S);
}

/* A PING that cannot be sent yet is sent later; if that takes too long the porter is replaced, too.
 */
static void porter_ping(struct porter *p) {
    if (p->watched || !p->unseen || !p->process)
        return;
    p->ping++;
    int rc = porter_send(p, PORTER_PING, NULL);
    if (rc) {
        if (!event_pending(p->overdue, EV_TIMEOUT, NULL))
            porter_await(p);
        porter_send_later(p, rc);
        return;
    }
    p->unseen = false;
    p->watched = true;
    porter_await(p);
}

/* A PONG to an earlier PING, perhaps of the porter before, tells nothing of what was sent after
 * that. */
static void porter_ponged(struct porter *p, uint64_t ping) {
    if (ping != p->ping)
        return;
    p->watched = false;
    event_del(p->overdue);
    porter_ping(p);
}

/* What was asked at the head of the queue is sent; an END or CLOSE stays there as its GO. */
static void porter_sent(struct porter *p, struct porter_visit *v) {
    p->unseen = true;
    if (gives_last_reference(v->ask)) {
        close(v->fd);
        v->fd = -1;
        v->ask = PORTER_GO;
        return;
    }
    list_remove(&v->waiting);
    if (!v->closes) {
        assert(p->nwaiting);
        p->nwaiting--;
    }
    if (v->ask == PORTER_TAKE || (v->closes && !p->forgets_closes))
        list_append(&p->asked[v->id % ASKED_LISTS], &v->asked);
    else
        v->ended(v);
}

static void porter_flush(struct porter *p) {
    struct list *node;
    while ((node = list_first(&p->waiting))) {
        struct porter_visit *v = list_entry(node, struct porter_visit, waiting);
        int rc = porter_send(p, v->ask, v);
        if (rc) {
            porter_send_later(p, rc);
            break;
        }
        porter_sent(p, v);
    }
    porter_ping(p);
    porter_tell_crowded(p);
}

static void porter_writable(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    porter_flush(arg);
}

static void porter_ask_for(struct porter *p, struct porter_visit *v, uint32_t what) {
    assert(thread_is(p->owner));
    v->ask = what;
    bool alone = list_empty(&p->waiting);
    list_append(&p->waiting, &v->waiting);
    p->nwaiting += !v->closes; /* those are charged to their users */
    if (alone)
        porter_flush(p);
    else
        porter_tell_crowded(p);
}

void porter_visit_init(struct porter *p, struct porter_visit *v, int fd, struct user_id who) {
    list_init(&v->waiting);
    list_init(&v->asked);
    v->id = ++p->ids;
    v->closes = false;
    v->fd = fd;
    v->who = who;
}

void porter_take(struct porter *p, struct porter_visit *v) {
    assert(v->fd >= 0 && v->taken && list_empty(&v->waiting) && list_empty(&v->asked));
    porter_ask_for(p, v, PORTER_TAKE);
}

void porter_end(struct porter *p, struct porter_visit *v) {
    assert(v->fd >= 0 && v->ended);
    list_remove(&v->asked);
    if (!list_empty(&v->waiting)) { /* its TAKE was not sent yet: END stands in its place */
        assert(v->ask == PORTER_TAKE);
        v->ask = PORTER_END;
        return;
    }
    porter_ask_for(p, v, PORTER_END);
}

void porter_close(struct porter *p, struct porter_visit *v) {
    assert(v->fd >= 0 && v->ended && list_empty(&v->waiting) && list_empty(&v->asked));
    v->closes = true;
    porter_ask_for(p, v, PORTER_CLOSE);
}

void porter_forget_closes(struct porter *p) {
    if (!p)
        return;
    p->forgets_closes = true;
    for (unsigned i = 0; i < ASKED_LISTS; i++) {
        list_for_each_safe (node, &p->asked[i]) {
            struct porter_visit *v = list_entry(node, struct porter_visit, asked);
            if (!v->closes)
                continue;
            list_remove(&v->asked);
            v->ended(v);
        }
    }
}

static void on_dropped(struct porter_visit *v) {
    free(v);
}

void porter_drop(struct porter *p, int fd, uint32_t line) {
    struct porter_visit *v = calloc(1, sizeof(*v));
    if (!v) {
        close(fd);
        return;
    }
    porter_visit_init(p, v, fd, (struct user_id){.uid = (uid_t)-1, .tenant = line});
    v->ended = on_dropped;
    porter_end(p, v);
}

/* ---- in ------------------------------------------------------------------------------------- */

static struct porter_visit *porter_asked(struct porter *p, uint64_t id) {
    list_for_each (node, &p->asked[id % ASKED_LISTS]) {
        struct porter_visit *v = list_entry(node, struct porter_visit, asked);
        if (v->id == id)
            return v;
    }
    return NULL;
}

/* An answer to a TAKE that is void: its memfd may be the last reference to its memory. */
static void porter_give_back(struct porter *p, int fd) {
    if (fd >= 0)
        porter_drop(p, fd, 0);
}

static void porter_heard(struct porter *p, const struct porter_answer *a, size_t size, int fd) {
    const size_t head = offsetof(struct porter_answer, data);
    if (size < head || size - head != a->size || a->size > sizeof(a->data)) {
        porter_give_back(p, fd);
        return;
    }
    if (a->word == PORTER_PONG) {
        porter_ponged(p, a->id);
        return;
    }
    struct porter_visit *v = porter_asked(p, a->id);
    if (!v) {
        porter_give_back(p, fd);
        return;
    }
    list_remove(&v->asked);
    if (v->closes)
        v->ended(v);
    else if (a->word == PORTER_TAKEN)
        v->taken(v, a->data, a->size, fd, a->nfds);
    else
        v->taken(v, NULL, 0, fd, 0);
}

/* Returns how many answers there were. */
static unsigned porter_read(struct porter *p) {
    unsigned n = 0;
    for (; n < ANSWERS_A_TURN; n++) {
        struct porter_answer a;
        size_t size = sizeof(a);
        unsigned nfds;
        int fd = -1;
        int rc = rdmad_fdmsg_recv(p->ours, &a, &size, &fd, 1, &nfds);
        if (rc == RDMAD_E_AGAIN || rc == RDMAD_E_SYSTEM)
            break;
        porter_heard(p, &a, size, nfds ? fd : rc == RDMAD_E_FDS ? PORTER_NO_PLACE : -1);
    }
    return n;
}

static void porter_readable(evutil_socket_t sock, short what, void *arg) {
    (void)sock, (void)what;
    porter_read(arg);
}

/* It may be this process that stood still, and finds the time over before it has looked. What there
 * is to read proves that the porter lives. A look that is late itself proves nothing, nor does one
 * that is early: the loop's own time was old. */
static void porter_on_overdue(evutil_socket_t fd, short what, void *arg) {
    struct porter *p = arg;
    (void)fd, (void)what;
    if (!p->process)
        return;
    uint64_t now_ns = clock_now_ns();
    bool late = now_ns > p->overdue_ns + NSEC_PER_SEC,
         early = now_ns + NSEC_PER_SEC < p->overdue_ns;
    if (porter_read(p) || late || early) {
        if (p->watched || p->unseen)
            porter_await(p);
        return;
    }
    kill(p->process->pid, SIGKILL);
    list_append(&p->killed, &p->process->node);
    porter_replace(p, "does not answer");
}

/* ---- begin and end -------------------------------------------------------------------------- */

static int porter_open_pair(struct porter *p, struct error *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return error_errno(err, RDMAD_E_SYSTEM, "cannot make the porter's sockets");
    p->ours = upper_fd(pair[0]);
    p->theirs = upper_fd(pair[1]);
    if (p->theirs == PORTER_FD) { /* dup2 onto itself would leave it close-on-exec */
        int fd = fcntl(p->theirs, F_DUPFD_CLOEXEC, PORTER_FD + 1);
        if (fd < 0)
            return error_errno(err, RDMAD_E_SYSTEM, "cannot make the porter's sockets");
        close(p->theirs);
        p->theirs = fd;
    }
    return 0;
}

int porter_new(struct event_base *base, const struct porter_spec *spec, struct porter **out,
               struct error *err) {
    struct porter *p = calloc(1, sizeof(*p));
    if (!p)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for the porter");
    *p = (struct porter){
        .owner = pthread_self(), .base = base, .spec = *spec, .ours = -1, .theirs = -1};
    list_init(&p->killed);
    list_init(&p->waiting);
    for (unsigned i = 0; i < ASKED_LISTS; i++)
        list_init(&p->asked[i]);
    int rc = porter_open_pair(p, err);
    if (!rc) {
        p->readable = event_new(base, p->ours, EV_READ | EV_PERSIST, porter_readable, p);
        p->writable = event_new(base, p->ours, EV_WRITE, porter_writable, p);
        p->retry = event_new(base, -1, 0, porter_writable, p);
        p->restart = event_new(base, -1, 0, porter_on_restart, p);
        p->overdue = event_new(base, -1, 0, porter_on_overdue, p);
        if (!p->readable || !p->writable || !p->retry || !p->restart || !p->overdue ||
            event_add(p->readable, NULL))
            rc = error_set(err, RDMAD_E_NOMEM, "out of memory for the porter");
    }
    if (!rc)
        rc = porter_start(p, err);
    if (rc) {
        porter_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

/* It ends when it has read all that was sent. Both ends stay open until the process ends: the last
 * references that are queued there are no less dangerous now. */
static void porter_farewell(struct porter *p) {
    struct process *process = p->process;
    shutdown(p->ours, SHUT_RDWR);
    if (!process)
        return;
    struct pollfd gone = {.fd = process->pidfd, .events = POLLIN};
    if (poll(&gone, 1, FAREWELL_MS) > 0)
        waitpid(process->pid, NULL, WNOHANG);
}

void porter_free(struct porter *p) {
    struct event *const events[] = {p->readable, p->writable, p->retry, p->restart, p->overdue};
    struct list *node;
    porter_forget_closes(p);
    if (p->ours >= 0) {
        porter_flush(p);
        porter_farewell(p);
    }
    while ((node = list_pop(&p->waiting))) {
        struct porter_visit *v = list_entry(node, struct porter_visit, waiting);
        v->ended(v);
    }
    if (p->process)
        process_free(p->process);
    while ((node = list_first(&p->killed)))
        process_free(list_entry(node, struct process, node));
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        if (events[i])
            event_free(events[i]);
    free(p);
}

pid_t porter_pid(const struct porter *p) {
    return p->process ? p->process->pid : 0;
}

unsigned porter_restarts(const struct porter *p) {
    return p->starts ? p->starts - 1 : 0;
}
