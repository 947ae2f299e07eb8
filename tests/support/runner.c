/* SPDX-License-Identifier: MIT */
/*
 * runner.c - runs each case in a child and is strict about what the child leaves behind.
 *
 * The runner is a child subreaper: a daemon or client that a case forgot becomes the runner's child
 * when the case ends, and is then killed, counted and reported.
 */
#include "tests/support/runner.h"
#include "tests/support/harness.h"
#include "tests/support/procs.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77, ORPHANS_MS = 5000, LOOK_MS = 20, STILL_MS = 500 };

static void (*show_more)(void);

void on_check_failed(void (*show)(void)) {
    show_more = show;
}

/* As the daemons' logs tell it. */
static void print_time(void) {
    char text[16];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(text, sizeof(text), "%T", localtime(&now.tv_sec));
    fprintf(stderr, " (at %s.%03ld)\n", text, now.tv_nsec / 1000000);
}

_Noreturn void check_failed(const char *file, int line, const char *condition, const char *format,
                            ...) {
    va_list args;
    fflush(stdout);
    fprintf(stderr, "%s:%d: [%d] %s\n    ", file, line, (int)getpid(), condition);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    print_time();
    void (*show)(void) = show_more;
    show_more = NULL; /* for it may fail, too */
    if (show)
        show();
    fflush(stderr);
    _exit(1);
}

_Noreturn void skip(const char *format, ...) {
    va_list args;
    fputs("  skipped: ", stdout);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    _exit(EXIT_SKIPPED);
}

/* A number of the environment; instead when it is not there or out of bounds. */
static unsigned setting(const char *name, unsigned most, unsigned instead) {
    const char *text = getenv(name);
    unsigned long value = text ? strtoul(text, NULL, 10) : 0;
    return value >= 1 && value <= most ? (unsigned)value : instead;
}

unsigned test_scale(void) {
    return setting("RDMAD_TEST_SCALE", 1000, 1);
}

unsigned test_count(unsigned full) {
    uint64_t count = (uint64_t)full * test_scale() * setting("RDMAD_TEST_PERCENT", 100, 100) / 1000;
    return count ? (unsigned)count : 1;
}

unsigned test_patience(void) {
    return setting("RDMAD_TEST_PATIENCE", 100, 1);
}

bool test_local_route(void) {
    const char *text = getenv("RDMAD_TEST_ROUTES");
    return !text || strcmp(text, "link") != 0;
}

bool test_sanitized(void) {
    const char *text = getenv("RDMAD_SANITIZED");
    return text && *text;
}

/* ---- a case that does not end --------------------------------------------------------------- */

static unsigned whole_seconds(void) {
    return setting("RDMAD_TEST_SECONDS", 1000000, 0);
}

/* When this program has run for so long, by now_ms: a little before ctest ends it without a word.
 */
static uint64_t late_ms(void) {
    static uint64_t begun_ms;
    if (!begun_ms)
        begun_ms = now_ms();
    return whole_seconds() ? begun_ms + (uint64_t)whole_seconds() * 1000 : UINT64_MAX;
}

/* What it waits for is shown, as far as processes show it. */
static void end_late(pid_t of_case) {
    if (now_ms() < late_ms())
        return;
    printf("  FAILED: not over after %u s of the whole test; what runs still:\n", whole_seconds());
    fflush(stdout);
    process_show_tree(of_case, stderr);
    kill(of_case, SIGKILL);
}

/* ---- cases ---------------------------------------------------------------------------------- */

/* In the case's own process: the case, then the question whether it cleaned up. */
static _Noreturn void run_case(const struct test_case *c) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    c->run();
    pid_t left = waitpid(-1, NULL, WNOHANG);
    CHECK(left < 0 && errno == ECHILD, "%s returned with a child still unreaped", c->name);
    fflush(stdout);
    exit(0); /* not _exit: the leak checker runs at exit */
}

/* Kills and reaps one child that still runs; 0 when /proc names none. */
static unsigned kill_one(void) {
    char path[64];
    int pid = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    int n = fscanf(f, "%d", &pid);
    fclose(f);
    if (n != 1)
        return 0;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return 1;
}

/* Reaps whatever a finished case left; returns how many had to be killed. Who ends with its parent,
 * as the porter's processes do, takes a moment to be gone: it puts down first what it was given. */
static unsigned reap_orphans(void) {
    unsigned running = 0, patience = ORPHANS_MS * test_patience();
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD)
            return running;
        if (pid == 0 && patience > 0) {
            patience--;
            usleep(1000);
        } else if (pid == 0 && kill_one())
            running++;
        else if (pid == 0)
            return running + 1; /* /proc does not name it; it dies with us */
    }
}

/* For how long at most this process was not run although it wanted to be: the machine was busy, or
 * stood still, as virtual ones do. */
static uint64_t stood_still_ms;

static void await_child(const sigset_t *sigchld) {
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000};
    uint64_t before = now_ms();
    sigtimedwait(sigchld, NULL, &look);
    uint64_t took = now_ms() - before;
    if (took > LOOK_MS && took - LOOK_MS > stood_still_ms)
        stood_still_ms = took - LOOK_MS;
}

/* Waits for the case. Meanwhile others end that it has left to us, as porters do whose daemons are
 * killed: a long case leaves more of them than the machine has process ids. */
static int reap_until(pid_t of_case, const sigset_t *sigchld) {
    int status = 0;
    for (pid_t pid = 0; pid != of_case;) {
        pid = waitpid(-1, &status, WNOHANG);
        if (pid == 0) {
            end_late(of_case);
            await_child(sigchld);
        }
        if (pid < 0 && errno != EINTR) {
            perror("waitpid");
            exit(1);
        }
    }
    return status;
}

static const char *describe(int status, char *buf, size_t size) {
    if (WIFSIGNALED(status))
        snprintf(buf, size, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(buf, size, "exit code %d", WEXITSTATUS(status));
    return buf;
}

/* 0: passed; EXIT_SKIPPED; -1: failed, and said so. */
static int run_and_judge(const struct test_case *c) {
    sigset_t sigchld, before;
    printf("* %s\n", c->name);
    fflush(stdout);
    sigemptyset(&sigchld);
    sigaddset(&sigchld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &sigchld, &before);
    stood_still_ms = 0;
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        return -1;
    }
    if (pid == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        run_case(c);
    }
    int status = reap_until(pid, &sigchld);
    sigprocmask(SIG_SETMASK, &before, NULL);
    unsigned orphans = reap_orphans();
    char why[96];
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED && !orphans)
        return EXIT_SKIPPED;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        printf("  FAILED: %s: %s\n", c->name, describe(status, why, sizeof(why)));
        if (stood_still_ms >= STILL_MS)
            printf("    meanwhile this machine ran nothing of this test for %" PRIu64 " ms\n",
                   stood_still_ms);
        return -1;
    }
    if (orphans) {
        printf("  FAILED: %s: left %u processes running\n", c->name, orphans);
        return -1;
    }
    return 0;
}

static int wanted(int argc, char **argv, const char *name) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return 1;
    return argc <= 1;
}

/* A case that was renamed must not be left out in silence by who asks for it by name. */
static bool are_known(int argc, char **argv, const struct test_case *cases, size_t count) {
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < count && strcmp(argv[i], cases[k].name) != 0)
            k++;
        if (k == count) {
            printf("there is no case %s\n", argv[i]);
            return false;
        }
    }
    return true;
}

int runner_main(int argc, char **argv, const struct test_case *cases, size_t count) {
    if (!are_known(argc, argv, cases, count))
        return 1;
    unsigned ran = 0, failed = 0, skipped = 0;
    (void)late_ms(); /* from now on */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (size_t i = 0; i < count && now_ms() < late_ms(); i++) {
        if (!wanted(argc, argv, cases[i].name))
            continue;
        ran++;
        int verdict = run_and_judge(&cases[i]);
        skipped += verdict == EXIT_SKIPPED;
        failed += verdict < 0;
    }
    printf("%u cases, %u failed, %u skipped\n", ran, failed, skipped);
    if (failed || ran == 0)
        return 1;
    return skipped == ran ? EXIT_SKIPPED : 0;
}
