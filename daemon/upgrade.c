/* SPDX-License-Identifier: MIT */
/*
 * upgrade.c - a child that tries a start, a thread that waits for it.
 *
 * The child has a process group of its own, so that whatever it is (a script that hangs in another
 * program) ends with it. What it says goes into a pipe, of which as much is kept as a sentence has
 * room for.
 */
#include "daemon/upgrade.h"
#include "daemon/base/clock.h"
#include "daemon/base/list.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/thread.h"
#include "daemon/program_file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 100 /* whether it is given up */
#define END_MS 1000 /* after SIGKILL */
#define SAID_MAX 160u

struct upgrade {
    char **argv;
    char **env; /* of what is being checked; ours to free */
    struct mailbox *reply_to;
    char program[PATH_MAX];
    char given[PATH_MAX]; /* "": the program is tried as it is; else this, which becomes it */
    char tried[PATH_MAX]; /* the thread's */
    pthread_t thread;
    bool running;  /* there is a thread to join */
    bool given_up; /* atomic */
    struct mail mail;
    upgrade_checked *checked; /* NULL: nothing is being checked */
    void *arg;
    struct error result;
};

struct upgrade *upgrade_new(char **argv, struct mailbox *reply_to) {
    struct upgrade *u = calloc(1, sizeof(*u));
    if (!u)
        return NULL;
    u->argv = argv;
    u->reply_to = reply_to;
    if (readlink("/proc/self/exe", u->program, sizeof(u->program) - 1) < 0)
        snprintf(u->program, sizeof(u->program), "%s", argv[0]);
    return u;
}

const char *upgrade_program(const struct upgrade *u) {
    return u->program;
}

/* ---- the child ------------------------------------------------------------------------------ */

struct trial {
    const char *option; /* that it is tried with */
    uint64_t end_ns;    /* of all trials of a file */
    pid_t pid;
    int pidfd, out; /* out: what it says */
    char said[SAID_MAX + 1];
    size_t used;
};

/* For a terminal and a line of the log. */
static void trial_hear(struct trial *t) {
    char buf[512];
    ssize_t n = read(t->out, buf, sizeof(buf));
    for (ssize_t i = 0; i < n && t->used < SAID_MAX; i++) {
        if (buf[i] == '\n')
            buf[i] = ' ';
        bool plain = buf[i] >= 0x20 && buf[i] < 0x7f;
        t->said[t->used++] = (char)(plain ? buf[i] : '?');
    }
    if (n <= 0) {
        close(t->out);
        t->out = -1;
    }
}

static int trial_spawn(struct trial *t, const char *program, char **argv, char **env, int out) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    sigemptyset(&none);
    if (posix_spawn_file_actions_init(&actions))
        return ENOMEM;
    if (posix_spawnattr_init(&attr)) {
        posix_spawn_file_actions_destroy(&actions);
        return ENOMEM;
    }
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    int failed = posix_spawn(&t->pid, program, &actions, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* The daemon's arguments, and one more. */
static int trial_start(struct trial *t, const struct upgrade *u) {
    char option[32];
    size_t n = 0;
    int pipe_fds[2];
    while (u->argv[n])
        n++;
    char **argv = calloc(n + 2, sizeof(*argv));
    if (!argv || pipe2(pipe_fds, O_CLOEXEC)) {
        int saved = argv ? errno : ENOMEM;
        free(argv);
        return saved;
    }
    memcpy(argv, u->argv, n * sizeof(*argv));
    snprintf(option, sizeof(option), "%s", t->option);
    argv[n] = option;
    int failed = trial_spawn(t, u->tried, argv, u->env, pipe_fds[1]);
    free(argv);
    close(pipe_fds[1]);
    t->out = pipe_fds[0];
    t->pidfd = failed ? -1 : pidfd_open(t->pid, 0);
    return failed;
}

/* Until it has ended, has taken too long or is given up. Returns whether it has ended. */
static bool trial_wait(struct trial *t, const struct upgrade *u) {
    bool ended = false;
    while (!ended && clock_now_ns() < t->end_ns &&
           !__atomic_load_n(&u->given_up, __ATOMIC_RELAXED)) {
        struct pollfd p[2] = {{.fd = t->pidfd, .events = POLLIN}, {.fd = t->out, .events = POLLIN}};
        poll(p, 2, LOOK_MS);
        if (p[1].revents)
            trial_hear(t);
        ended = p[0].revents != 0;
    }
    while (ended && t->out >= 0 && poll(&(struct pollfd){t->out, POLLIN, 0}, 1, 0) > 0 &&
           t->used < SAID_MAX)
        trial_hear(t);
    return ended;
}

/* It is told to go with all that it has started. False: it has not within END_MS, as what stands
 * still in the kernel cannot (a dead disk, a descriptor whose close a client holds up). Then nobody
 * waits for it. */
static bool trial_end(struct trial *t, int *status) {
    uint64_t end_ns = clock_now_ns() + END_MS * NSEC_PER_MSEC;
    bool ended;
    kill(-t->pid, SIGKILL);
    while (!(ended = waitpid(t->pid, status, WNOHANG) == t->pid) && clock_now_ns() < end_ns)
        poll(NULL, 0, 1);
    if (t->pidfd >= 0)
        close(t->pidfd);
    return ended;
}

static int trial_judge(const struct trial *t, const char *program, bool ended, int status,
                       struct error *err) {
    const char *said = t->used ? t->said : "it says nothing";
    if (!ended)
        return error_set(err, RDMAD_E_TIMEOUT,
                         "no upgrade: %.120s %s did not end in %u s, so this rdmad goes on: %.100s",
                         program, t->option, UPGRADE_CHECK_MS / 1000, said);
    if (WIFSIGNALED(status))
        return error_set(
            err, RDMAD_E_SYSTEM,
            "no upgrade: %.120s %s was ended by signal %d, so this rdmad goes on: %.100s", program,
            t->option, WTERMSIG(status), said);
    if (WEXITSTATUS(status))
        return error_set(err, RDMAD_E_CONFIG,
                         "no upgrade: %.80s %s ended with %d, so this rdmad goes on: %.160s",
                         program, t->option, WEXITSTATUS(status), said);
    return 0;
}

/* ---- the thread ----------------------------------------------------------------------------- */

static void upgrade_forget(struct upgrade *u) {
    free(u->env);
    u->env = NULL;
    u->checked = NULL;
}

static void upgrade_told(struct mail *mail) {
    struct upgrade *u = container_of(mail, struct upgrade, mail);
    upgrade_checked *checked = u->checked;
    pthread_join(u->thread, NULL);
    u->running = false;
    upgrade_forget(u);
    if (!u->result.code)
        memcpy(u->program, u->tried, sizeof(u->program));
    checked(u->arg, &u->result);
}

static int upgrade_try_with(struct upgrade *u, const char *option, struct trial *t) {
    *t = (struct trial){.option = option, .end_ns = t->end_ns, .pid = -1, .pidfd = -1, .out = -1};
    int rc = trial_start(t, u);
    if (rc) {
        rc = error_set(&u->result, RDMAD_E_SYSTEM,
                       "no upgrade: %.160s cannot be run, so this rdmad goes on: %s", u->tried,
                       strerror(rc));
    } else {
        int status = 0;
        bool ended = trial_wait(t, u), gone = trial_end(t, &status);
        rc = trial_judge(t, u->tried, ended && gone, status, &u->result);
    }
    if (t->out >= 0)
        close(t->out);
    return rc;
}

/* A program may end well because it does not know our arguments. */
static void upgrade_try(struct upgrade *u) {
    struct trial t = {.end_ns = clock_now_ns() + UPGRADE_CHECK_MS * NSEC_PER_MSEC};
    if (!upgrade_try_with(u, "--check-config", &t) && !upgrade_try_with(u, "--version", &t) &&
        strncmp(t.said, "rdmad ", strlen("rdmad ")) != 0)
        error_set(&u->result, RDMAD_E_CONFIG,
                  "no upgrade: %.80s is no rdmad, so this rdmad goes on: to --version %.160s",
                  u->tried, t.used ? t.said : "it says nothing");
}

static void *upgrade_run(void *arg) {
    struct upgrade *u = arg;
    if (!u->given[0])
        memcpy(u->tried, u->program, sizeof(u->tried));
    if (!u->given[0] || !program_file_check(u->given, u->tried, &u->result))
        upgrade_try(u);
    mailbox_post(u->reply_to, &u->mail, upgrade_told);
    return NULL;
}

int upgrade_check(struct upgrade *u, const char *program, char **env, upgrade_checked *checked,
                  void *arg, struct error *err) {
    if (u->checked) {
        free(env);
        return error_set(err, RDMAD_E_BUSY, "an upgrade is under way; wait for it");
    }
    u->env = env;
    snprintf(u->given, sizeof(u->given), "%s", program ? program : "");
    u->checked = checked;
    u->arg = arg;
    u->result = (struct error){0};
    int rc = thread_start(&u->thread, "rdmad-upgrade", upgrade_run, u, NULL, err);
    u->running = rc == 0;
    if (rc)
        upgrade_forget(u);
    return rc;
}

void upgrade_free(struct upgrade *u) {
    if (!u)
        return;
    __atomic_store_n(&u->given_up, true, __ATOMIC_RELAXED);
    while (u->running) /* it gives up soon, and posts; what that delivers joins it */
        if (!mailbox_drain(u->reply_to))
            poll(NULL, 0, 1);
    free(u);
}
