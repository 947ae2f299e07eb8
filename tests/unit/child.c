/* SPDX-License-Identifier: MIT */
#include "tests/unit/child.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void run(void (*body)(void), int to) {
    struct rlimit none = {0};

    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, SIG_DFL); /* Criterion's handler would have its own way */
    signal(SIGSEGV, SIG_DFL);
    dup2(to, STDERR_FILENO);
    alarm(15);
    body();
    _exit(0);
}

static void judge(void (*body)(void), int ends_by, const char *words) {
    char said[4096];
    size_t used = 0;
    ssize_t n;
    int pair[2], status;
    pid_t child;

    cr_assert_eq(pipe(pair), 0);
    child = fork();
    cr_assert_geq(child, 0);
    if (child == 0)
        run(body, pair[1]);
    close(pair[1]);
    while ((n = read(pair[0], said + used, sizeof(said) - 1 - used)) > 0)
        used += (size_t)n;
    said[used] = '\0';
    close(pair[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (ends_by)
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == ends_by,
                  "status 0x%x and not signal %d; it said: %s", status, ends_by, said);
    else
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status 0x%x; it said: %s", status,
                  said);
    if (words)
        cr_assert_not_null(strstr(said, words), "\"%s\" lacks \"%s\"", said, words);
}

void child_aborts(void (*body)(void), const char *words) {
    judge(body, SIGABRT, words);
}

void child_lives(void (*body)(void), const char *words) {
    judge(body, 0, words);
}

void child_dies(void (*body)(void), int signal, const char *words) {
    judge(body, signal, words);
}
