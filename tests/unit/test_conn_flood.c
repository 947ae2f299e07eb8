/* SPDX-License-Identifier: MIT */
/* A client that says more than its user may in a pass of the loop is heard, in the next ones; also
 * when it has gone meanwhile. */
#include "common/fdmsg.h"
#include "daemon/base/clock.h"
#include "daemon/ipc/conn.h"
#include "daemon/ipc/rota.h"
#include "tests/unit/porter_rig.h"
#include <criterion/criterion.h>
#include <event2/event.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FLOOD = 150 };

static struct event_base *base;
static struct porter *porter;
static struct rota *rota;
static struct conn *conn;
static int client;
static unsigned packets;
static uint64_t rest_ns;
static bool answers;
static const char *closed_why;

static void on_packet(void *user, const void *data, size_t size, int *fds, unsigned nfds) {
    (void)user, (void)fds, (void)nfds;
    packets++;
    if (answers)
        conn_send(conn, data, size, NULL, 0);
    if (rest_ns)
        conn_rest(conn, rest_ns);
}

static void on_closed(void *user, const char *why) {
    (void)user;
    closed_why = why;
}

static const struct conn_events events = {.packet = on_packet, .closed = on_closed};

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
    if (!closed_why)
        conn_close(conn);
    if (client >= 0)
        close(client);
    porter_free(porter);
    rota_free(rota);
    event_base_free(base);
}

TestSuite(conn_flood, .init = set_up, .fini = tear_down, .timeout = 60);

static void pass(void) {
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

static void client_says(unsigned times) {
    for (unsigned i = 0; i < times; i++)
        cr_assert_eq(send(client, "more", 4, MSG_DONTWAIT), 4);
}

/* As the library leaves: nothing is read any more of what has come. */
static void client_goes(void) {
    shutdown(client, SHUT_RDWR);
    close(client);
    client = -1;
}

static void expect_all_read(unsigned count) {
    for (unsigned i = 0; i < 20000 && !closed_why; i++) {
        unsigned before = packets;
        pass();
        cr_assert_leq(packets - before, 2 * ROTA_PACKETS, "%u at once", packets - before);
        usleep(100);
    }
    cr_expect_eq(packets, count, "it heard %u of %u: %s", packets, count, closed_why);
    cr_expect_not_null(closed_why);
}

Test(conn_flood, is_read_some_packets_a_pass_and_all_of_it_in_the_end) {
    client_says(FLOOD);
    unsigned before = 0, passes = 0;
    while (packets < FLOOD) {
        pass();
        cr_assert_leq(packets - before, 2 * ROTA_PACKETS, "%u at once", packets - before);
        before = packets;
        cr_assert_lt(passes++, 1000u, "it is not listened to any more after %u", packets);
    }
    cr_assert_gt(passes, FLOOD / ROTA_PACKETS / 2);

    send(client, "late", 4, 0);
    for (unsigned i = 0; i < FLOOD / 2; i++)
        send(client, "last", 4, MSG_DONTWAIT);
    close(client);
    client = -1;
    for (unsigned i = 0; i < 100; i++)
        pass();
    cr_assert_eq(packets, FLOOD + 1 + FLOOD / 2, "what was said before the end is heard");
    cr_assert_not_null(closed_why);
}

Test(conn_flood, who_goes_without_his_answers_is_heard_to_the_end) {
    answers = true;
    client_says(FLOOD);
    client_goes();
    expect_all_read(FLOOD);
}

Test(conn_flood, who_has_left_answers_unread_is_heard_to_the_end) {
    answers = true;
    client_says(5);
    while (packets < 5)
        pass();
    client_says(FLOOD);
    client_goes(); /* of which the kernel tells us as of an error, once */
    expect_all_read(FLOOD + 5);
}

Test(conn_flood, who_goes_while_answers_wait_for_him_is_heard_to_the_end) {
    char buf[1024] = {0};
    int fd = STDIN_FILENO;
    while (!conn_lags(conn))
        conn_send(conn, buf, sizeof(buf), &fd, 1);
    client_says(FLOOD);
    client_goes();
    expect_all_read(FLOOD);
}

/* In the place of libc's. The client may go between a look at a packet and its receive. */
static bool goes_after_look;

ssize_t recvmsg(int fd, struct msghdr *msg, int flags) {
    if (goes_after_look && !(flags & MSG_PEEK)) {
        goes_after_look = false;
        client_goes();
    }
    return syscall(SYS_recvmsg, fd, msg, flags);
}

Test(conn_flood, who_leaves_answers_unread_between_look_and_receive_is_heard_to_the_end) {
    answers = true;
    client_says(5);
    while (packets < 5)
        pass();
    client_says(FLOOD);
    goes_after_look = true;
    expect_all_read(FLOOD + 5);
    cr_expect(!goes_after_look);
}

static void goes_while_he_rests(void) {
    rest_ns = 3600 * NSEC_PER_SEC;
    client_says(FLOOD);
    while (!packets)
        pass();
    for (unsigned i = 0; i < 10; i++)
        pass();
    cr_expect_eq(packets, 1, "he did not rest");
    client_goes();
    expect_all_read(FLOOD);
}

Test(conn_flood, who_goes_while_he_has_to_rest_is_heard_to_the_end_without_a_rest) {
    goes_while_he_rests();
}

Test(conn_flood, so_is_who_has_left_answers_unread) {
    answers = true;
    goes_while_he_rests();
}

static void overflow(evutil_socket_t fd, short what, void *arg) {
    char buf[1024] = {0};
    (void)fd, (void)what, (void)arg;
    while (conn_send(conn, buf, sizeof(buf), NULL, 0))
        ;
}

/* All in one pass: first too much is for him, then his end is seen. */
Test(conn_flood, who_goes_while_too_much_is_for_him_ends) {
    struct event *first = event_new(base, -1, 0, overflow, NULL);
    char buf[1024] = {0};
    while (!conn_lags(conn))
        conn_send(conn, buf, sizeof(buf), NULL, 0);
    conn_rest(conn, NSEC_PER_SEC / 1000);
    event_active(first, EV_TIMEOUT, 1);
    shutdown(client, SHUT_RDWR);
    for (unsigned i = 0; i < 100 && !closed_why; i++)
        pass();
    cr_expect_not_null(closed_why);
    event_free(first);
}

Test(conn_flood, who_listens_no_more_is_not_heard_for_ever) {
    answers = true;
    client_says(1);
    shutdown(client, SHUT_RD);
    for (unsigned i = 0; i < 1000 && !closed_why; i++) {
        send(client, "more", 4, MSG_DONTWAIT | MSG_NOSIGNAL);
        pass();
    }
    cr_expect_not_null(closed_why);
}

/* It would wait for the porter. */
Test(conn_flood, who_has_gone_is_heard_up_to_a_descriptor) {
    int fd = STDIN_FILENO;
    answers = true;
    client_says(FLOOD);
    cr_assert_eq(rdmad_fdmsg_send(client, "fd", 2, &fd, 1), 0);
    client_says(1);
    client_goes();
    expect_all_read(FLOOD);
}
