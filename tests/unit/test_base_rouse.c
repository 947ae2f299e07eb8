/* SPDX-License-Identifier: MIT */
/*
 * A close that a stranger could make last is ended: where the kernel takes strangers' sockets apart
 * in the name of whoever closes one, and only there, somebody must be there to do it.
 */
#include "daemon/base/rouse.h"
#include "daemon/base/thread.h"
#include "tests/support/cargo.h"
#include "tests/support/harness.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINGER_S 60

static struct rouse *rouse_begin(void) {
    struct rouse *r;
    struct error err;
    CHECK(rouse_start(&r, &err) == 0, "%s", err.text);
    return r;
}

static pthread_t thread_begin(void *(*run)(void *), void *arg) {
    pthread_t thread;
    struct error err;
    CHECK(thread_start(&thread, "test", run, arg, NULL, &err) == 0, "%s", err.text);
    return thread;
}

static void expect_end(pthread_t thread, const char *what) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += TEST_PATIENCE_MS / 1000;
    CHECK(pthread_timedjoin_np(thread, NULL, &until) == 0, "%s", what);
}

static void *close_it(void *arg) {
    close(*(int *)arg);
    return NULL;
}

static void a_close_that_lingers_is_ended(void) {
    struct rouse *r = rouse_begin();
    int fd = cargo_lingering(LINGER_S);
    uint64_t before = now_ms();
    expect_end(thread_begin(close_it, &fd), "nobody rouses a thread whose close lingers");
    printf("  a close that would linger for %d s took %lu ms\n", LINGER_S,
           (unsigned long)(now_ms() - before));
    rouse_stop(r);
}

static void *sleep_well(void *arg) {
    struct pollfd none = {.fd = -1};
    *(int *)arg = poll(&none, 1, 500) == 0 ? 0 : errno;
    return NULL;
}

static void threads_that_wait_for_something_else_are_left_alone(void) {
    struct rouse *r = rouse_begin();
    int failed = -1;
    expect_end(thread_begin(sleep_well, &failed),
               "a thread that sleeps for half a second does not end");
    CHECK(failed == 0, "a thread that sleeps was disturbed: %s", strerror(failed));
    rouse_stop(r);
}

/* What the daemon does on this kernel, whichever it is. */
static void circles_that_strangers_left_hold_up_no_close(void) {
    bool needed = rouse_is_needed();
    struct rouse *r = needed ? rouse_begin() : NULL;
    uint64_t worst = 0;
    for (int i = 0; i < 5; i++) {
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        cargo_circle(cargo_lingering(LINGER_S));
        uint64_t before = now_ms();
        expect_end(thread_begin(close_it, &fd),
                   "the close of a socket waits for what a stranger left");
        if (now_ms() - before > worst)
            worst = now_ms() - before;
    }
    printf("  this kernel %s; the worst close of five took %lu ms\n",
           needed ? "takes strangers' sockets apart in whoever closes one"
                  : "has a thread for that",
           (unsigned long)worst);
    rouse_stop(r);
}

TEST_MAIN(CASE(a_close_that_lingers_is_ended),
          CASE(threads_that_wait_for_something_else_are_left_alone),
          CASE(circles_that_strangers_left_hold_up_no_close))
