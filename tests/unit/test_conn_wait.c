/* SPDX-License-Identifier: MIT */
/* A client of whose something is still to be done with waits, and is not forgotten; what it was
 * sent is not closed here. */
#include "daemon/ipc/conn.h"
#include "daemon/ipc/rota.h"
#include "tests/support/many_wait.h"
#include "tests/unit/porter_rig.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct event_base *base;
static struct porter *porter;
static struct rota *rota;
static struct conn *conn;
static unsigned packets, sent_fds;
static const char *closed_why;
static int client;

static void on_packet(void *user, const void *data, size_t size, int *fds, unsigned nfds) {
    (void)user, (void)data, (void)size, (void)fds, (void)nfds;
    packets++;
}

static void on_closed(void *user, const char *why) {
    (void)user;
    closed_why = why;
    conn = NULL;
}

static void on_sent_fd(void *user, int fd) {
    (void)user;
    cr_assert_eq(close(fd), 0);
    sent_fds++;
}

static const struct conn_events events = {
    .packet = on_packet, .closed = on_closed, .sent_fd = on_sent_fd};

static void set_up(void) {
    int pair[2];
    base = event_base_new();
    porter = porter_rig(base, NULL);
    rota = rota_new(base);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    client = pair[1];
    cr_assert_eq(conn_new(base, porter, rota, pair[0], 0, &events, NULL, &conn), 0);
}

static void tear_down(void) {
    if (conn)
        conn_close(conn);
    if (client >= 0)
        close(client);
    porter_free(porter);
    rota_free(rota);
    event_base_free(base);
}

TestSuite(conn_wait, .init = set_up, .fini = tear_down, .timeout = 60);

static void turn(void) {
    for (int i = 0; i < 20; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
}

Test(conn_wait, who_has_to_wait_is_not_read_from_until_each_wait_is_over) {
    cr_assert_eq(send(client, "1", 1, 0), 1);
    conn_wait(conn, true);
    conn_wait(conn, true);
    turn();
    cr_assert_eq(packets, 0);
    conn_wait(conn, false);
    turn();
    cr_assert_eq(packets, 0);
    conn_send(conn, "answers go on", 13, NULL, 0);
    turn();
    cr_assert_eq(packets, 0, "an answer lets it ask");
    conn_wait(conn, false);
    turn();
    cr_assert_eq(packets, 1);
}

Test(conn_wait, who_goes_while_he_has_to_wait_is_noticed) {
    conn_wait(conn, true);
    close(client);
    client = -1;
    turn();
    cr_assert_not_null(closed_why);
}

Test(conn_wait, who_goes_with_answers_unread_while_he_has_to_wait_is_noticed) {
    conn_send(conn, "never read", 10, NULL, 0);
    conn_wait(conn, true);
    turn();
    cr_assert_null(closed_why, "he who is there has gone: %s", closed_why);
    close(client);
    client = -1;
    turn();
    cr_assert_not_null(closed_why);
}

/* The client may have seen to it that closing it lasts. */
Test(conn_wait, a_descriptor_that_waited_is_given_back_once_the_client_has_it) {
    char buf[1024] = {0};
    int fds[2] = {STDIN_FILENO, STDIN_FILENO};
    for (int i = 0; i < 5000 && !conn_lags(conn); i++)
        conn_send(conn, buf, sizeof(buf), NULL, 0);
    conn_send(conn, "two", 3, fds, 2);
    for (int i = 0; i < 5000 && conn_lags(conn); i++) {
        cr_assert_eq(sent_fds, 0);
        recv(client, buf, sizeof(buf), MSG_DONTWAIT);
        turn();
    }
    cr_assert_eq(sent_fds, 2);
}

static unsigned received(void) {
    char byte;
    unsigned n = 0;
    while (recv(client, &byte, 1, MSG_DONTWAIT) == 1)
        n++;
    return n;
}

Test(conn_wait, at_whose_end_very_many_wait_is_sent_to_rarely_and_gets_all_of_it) {
    enum { MESSAGES = 12 }; /* its socket takes them all */
    struct many_wait many;
    unsigned got;
    cr_assert(many_wait_begin(&many, client), "%s", strerror(errno));
    for (int i = 0; i < MESSAGES; i++) {
        conn_send(conn, "x", 1, NULL, 0);
        turn();
    }
    got = received();
    cr_expect(got >= 2 && got < MESSAGES, "each was sent at once");
    many_wait_end(&many);
    for (int i = 0; i < 20000 && got < MESSAGES; i++) {
        turn();
        got += received();
        usleep(1000);
    }
    cr_expect_eq(got, MESSAGES);
}
