/* SPDX-License-Identifier: MIT */
/* rdmactl's patience, with timers that go off when the test says so. */
#include "rdmactl/cli.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct cli cli = {.dir = "/nowhere"};

static struct sigevent asked;

/* The system's, for patience.c. */
int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict timer) {
    (void)clock;
    *timer = NULL;
    asked = *event;
    return 0;
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *restrict at,
                  struct itimerspec *restrict before) {
    (void)timer, (void)flags, (void)at, (void)before;
    return 0;
}

int timer_delete(timer_t timer) {
    (void)timer;
    return 0;
}

static void goes_off(const struct sigevent *event) {
    event->sigev_notify_function(event->sigev_value);
}

Test(patience, an_alarm_that_comes_late_does_not_end_the_next_wait) {
    patience_begin("do the first thing", 1000);
    struct sigevent first = asked;
    patience_end();
    goes_off(&first); /* between two waits */
    patience_begin("do the second thing", 1000);
    goes_off(&first);
    patience_end();
}

Test(patience, an_alarm_in_time_ends_the_program, .exit_code = 1) {
    patience_begin("do the first thing", 1000);
    patience_end();
    patience_begin("do the second thing", 1000);
    goes_off(&asked);
}

/* A process of its own runs it; returns its exit code and what it has said. */
static int said_by(void (*run)(void), char out[1024], char err[1024]) {
    int o[2], e[2], status;
    cr_assert(!pipe(o) && !pipe(e));
    pid_t pid = fork();
    if (pid == 0) {
        dup2(o[1], STDOUT_FILENO);
        dup2(e[1], STDERR_FILENO);
        run();
        _exit(100);
    }
    close(o[1]);
    close(e[1]);
    waitpid(pid, &status, 0);
    ssize_t had = read(o[0], out, 1023), told = read(e[0], err, 1023);
    close(o[0]);
    close(e[0]);
    cr_assert(had >= 0 && told >= 0 && WIFEXITED(status), "status %d", status);
    out[had] = err[told] = '\0';
    return WEXITSTATUS(status);
}

static void is_late(void) {
    patience_begin("do something", 1000);
    goes_off(&asked);
}

static void is_late_after_the_document(void) {
    cli.json = true;
    cli_print_json(json_object());
    is_late();
}

static void is_late_when_done(void) {
    cli.json = true;
    cli_print_json(json_object());
    patience_done();
    is_late();
}

static void is_late_without_a_document(void) {
    cli.json = true;
    is_late();
}

Test(patience, an_error_behind_the_document_of_j_is_no_second_one) {
    char out[1024], err[1024];
    cr_expect_eq(said_by(is_late_without_a_document, out, err), EXIT_FAILED);
    cr_expect(strstr(out, "RDMAD_E_TIMEOUT") && !*err, "%s and %s", out, err);
    cr_expect_eq(said_by(is_late_after_the_document, out, err), EXIT_FAILED);
    cr_expect_str_eq(out, "{\"schema\":1}\n", "more than one document: %s", out);
    cr_expect(strstr(err, "rdmactl: rdmad in /nowhere does not answer"), "%s", err);
}

Test(patience, what_was_done_is_good_although_the_daemon_takes_nothing_back) {
    char out[1024], err[1024];
    cr_expect_eq(said_by(is_late_when_done, out, err), EXIT_GOOD, "it failed");
    cr_expect_str_eq(out, "{\"schema\":1}\n", "more than one document: %s", out);
    cr_expect(strstr(err, "does not answer"), "%s", err);
}
