/* SPDX-License-Identifier: MIT */
/* A thread that cannot be started says why, whatever errno was. */
#include "daemon/base/thread.h"
#include "tests/support/runner.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>

static int answer;
static unsigned asked;

/* Found before the C library's. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg) {
    (void)thread, (void)attr, (void)run, (void)arg;
    asked++;
    errno = ENOENT; /* of something else */
    return answer;
}

static void *nothing(void *arg) {
    return arg;
}

static void a_thread_that_cannot_be_started_says_why(void) {
    static const int code[] = {EAGAIN, EPERM, ENOMEM};
    for (unsigned i = 0; i < sizeof(code) / sizeof(*code); i++) {
        pthread_t thread;
        struct error err = {0};
        answer = code[i];
        CHECK(thread_start(&thread, "rdmad-test", nothing, NULL, &err) == RDMAD_E_SYSTEM, "%d",
              err.code);
        CHECK(strstr(err.text, strerror(code[i])) && strstr(err.text, "rdmad-test"), "%s",
              err.text);
    }
    CHECK(asked == 3, "%u", asked);
}

TEST_MAIN(CASE(a_thread_that_cannot_be_started_says_why))
