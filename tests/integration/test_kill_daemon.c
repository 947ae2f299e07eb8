/* SPDX-License-Identifier: MIT */
/*
 * test_kill_daemon.c - one daemon is killed in the middle of a transfer. Every op of the clients of
 * the other side ends with a typed outcome by its deadline, and after a restart things work again.
 */
#include "tests/support/transfer.h"

#include <signal.h>

/* The promise is deadline plus quiesce bound; a busy machine gets ten times the bound. */
static const unsigned end_ms = (unsigned)(TRANSFER_TIMEOUT_NS / 1000000) + TEST_PATIENCE_MS;

static void works(struct tdaemon *a, struct tdaemon *b) {
    struct owner o = owner_start(a);
    struct lessee l = lessee_start(b, o.uri, TRANSFER_STRICT);
    lessee_await_start(&l);
    lessee_finish(&l);
    client_kill(o.pid);
}

static void the_owners_daemon(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    works(a, b);
    for (unsigned i = 0; i < 3 * test_scale(); i++) {
        json_t *before = tdaemon_objects(b);
        json_object_del(before, "peers");
        json_object_del(before, "links");
        json_object_del(before, "lanes_in");
        json_object_del(before, "fds");
        struct owner o = owner_start(a);
        struct lessee l = lessee_start(b, o.uri, TRANSFER_TOLERANT);
        lessee_await_start(&l);
        sleep_ms((unsigned)(test_random() % 30));
        tdaemon_kill(a);
        lessee_expect_end(&l, end_ms);
        client_kill(o.pid);
        tdaemon_expect_objects(b, before);
        tdaemon_restart(a);
        works(a, b);
    }
    tdaemon_stop(b);
    tdaemon_stop(a);
}

static void the_lessees_daemon(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    works(a, b);
    for (unsigned i = 0; i < 3 * test_scale(); i++) {
        struct owner o = owner_start(a);
        json_t *with_owner = tdaemon_objects(a);
        json_object_del(with_owner, "peers");
        json_object_del(with_owner, "links");
        json_object_del(with_owner, "lanes_in");
        json_object_del(with_owner, "fds");
        struct lessee l = lessee_start(b, o.uri, TRANSFER_TOLERANT);
        lessee_await_start(&l);
        sleep_ms((unsigned)(test_random() % 30));
        tdaemon_kill(b);
        lessee_expect_end(&l, end_ms);         /* its own daemon is lost */
        tdaemon_expect_objects(a, with_owner); /* the attachment is gone, the lease is not */
        tdaemon_restart(b);
        struct lessee again = lessee_start(b, o.uri, TRANSFER_STRICT);
        lessee_await_start(&again);
        lessee_finish(&again);
        client_kill(o.pid);
    }
    tdaemon_stop(b);
    tdaemon_stop(a);
}

/* A daemon that is stopped by SIGSTOP answers nothing: ops end by their deadline all the same. */
static void a_daemon_that_hangs(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    struct owner o = owner_start(a);
    struct lessee l = lessee_start(b, o.uri, TRANSFER_TOLERANT);
    lessee_await_start(&l);
    kill(tdaemon_pid(a), SIGSTOP);
    lessee_expect_end(&l, end_ms);
    kill(tdaemon_pid(a), SIGCONT);
    client_kill(o.pid);
    tdaemon_stop(b);
    tdaemon_stop(a);
}

TEST_MAIN(CASE(the_owners_daemon), CASE(the_lessees_daemon), CASE(a_daemon_that_hangs))
