/* SPDX-License-Identifier: MIT */
/*
 * test_kill_daemon.c - one daemon is killed in the middle of a transfer. Every op of the clients of
 * the other side ends with a typed outcome by its deadline, and after a restart things work again.
 */
#include "tests/support/procs.h"
#include "tests/support/transfer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The promise is deadline plus quiesce bound; a busy machine gets ten times the bound. */
static unsigned end_ms(void) {
    return TRANSFER_TIMEOUT_MS + TEST_PATIENCE_MS;
}

static void works(struct tdaemon *a, struct tdaemon *b) {
    struct owner o = owner_start(a);
    struct lessee l = lessee_start(b, o.uri, TRANSFER_STRICT);
    lessee_await_start(&l);
    lessee_finish(&l);
    client_kill(o.pid);
}

static void the_owners_daemon(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    json_t *empty = tdaemon_objects_of_clients(b);
    works(a, b);
    for (unsigned i = 0; i < test_count(30); i++) {
        tdaemon_expect_objects(b, json_incref(empty));
        struct owner o = owner_start(a);
        struct lessee l = lessee_start(b, o.uri, TRANSFER_TOLERANT);
        lessee_await_start(&l);
        sleep_ms((unsigned)(test_random() % 30));
        tdaemon_kill(a);
        lessee_expect_end(&l, end_ms());
        client_kill(o.pid);
        tdaemon_expect_objects(b, json_incref(empty));
        tdaemon_restart(a);
        works(a, b);
    }
    json_decref(empty);
    tdaemon_stop(b);
    tdaemon_stop(a);
}

static void the_lessees_daemon(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    json_t *empty = tdaemon_objects_of_clients(a);
    works(a, b);
    for (unsigned i = 0; i < test_count(30); i++) {
        tdaemon_expect_objects(a, json_incref(empty));
        struct owner o = owner_start(a);
        json_t *with_owner = tdaemon_objects_of_clients(a);
        struct lessee l = lessee_start(b, o.uri, TRANSFER_TOLERANT);
        lessee_await_start(&l);
        sleep_ms((unsigned)(test_random() % 30));
        tdaemon_kill(b);
        lessee_expect_end(&l, end_ms());       /* its own daemon is lost */
        tdaemon_expect_objects(a, with_owner); /* the attachment is gone, the lease is not */
        tdaemon_restart(b);
        struct lessee again = lessee_start(b, o.uri, TRANSFER_STRICT);
        lessee_await_start(&again);
        lessee_finish(&again);
        client_kill(o.pid);
    }
    json_decref(empty);
    tdaemon_stop(b);
    tdaemon_stop(a);
}

/* A daemon that is stopped by SIGSTOP answers nothing: ops end by their deadline all the same. */
static void a_daemon_that_hangs(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    struct owner o = owner_start(a);
    struct lessee l = lessee_start(b, o.uri, TRANSFER_TOLERANT);
    lessee_await_start(&l);
    process_stop(tdaemon_pid(a));
    lessee_expect_end(&l, end_ms());
    process_go_on(tdaemon_pid(a));
    client_kill(o.pid);
    tdaemon_stop(b);
    tdaemon_stop(a);
}

/* Of the harness: what restarts at its port can count on it. */
static void the_port_stays_its_own_meanwhile(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at.sin_port = htons((uint16_t)atoi(strchr(tdaemon_listen(d), ':') + 1));
    for (unsigned i = 0; i < 2; i++) {
        tdaemon_kill(d);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 && errno == EADDRINUSE,
              "another socket got %s", tdaemon_listen(d));
        close(fd);
        tdaemon_restart(d);
    }
    tdaemon_stop(d);
}

TEST_MAIN(CASE(the_owners_daemon), CASE(the_lessees_daemon), CASE(a_daemon_that_hangs),
          CASE(the_port_stays_its_own_meanwhile))
