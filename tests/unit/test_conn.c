/* SPDX-License-Identifier: MIT */
/*
 * A client's connection: packets arrive whole, descriptors never stay, and a client that does not
 * read costs a bounded amount and then its connection.
 */
#include "common/fdmsg.h"
#include "daemon/base/clock.h"
#include "daemon/ipc/conn.h"
#include "tests/support/harness.h"
#include "tests/unit/porter_rig.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdmad/wire.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct event_base *base;
static struct porter *porter;
static struct rota *rota;
static struct conn *conn;
static unsigned packets, last_nfds, drained, lost, unsent;
static size_t last_size;
static const char *closed_why;
static bool close_in_packet, close_when_drained, close_when_unsent, echo, keep;
static int client, kept = -1, last_fd = -1;

static void on_packet(void *user, const void *data, size_t size, int *fds, unsigned nfds) {
    cr_assert_eq(user, &packets);
    last_fd = nfds ? fds[0] : -1;
    if (keep && nfds) {
        kept = fds[0];
        fds[0] = -1;
    }
    packets++;
    last_size = size;
    last_nfds = nfds;
    if (echo)
        conn_send(conn, data, size, NULL, 0);
    if (close_in_packet) {
        conn_close(conn);
        conn = NULL;
    }
}

static void on_closed(void *user, const char *why) {
    cr_assert_eq(user, &packets);
    closed_why = why;
    conn = NULL;
}

static void on_drained(void *user) {
    cr_assert_eq(user, &packets);
    cr_assert_not(conn_lags(conn));
    drained++;
    if (close_when_drained) {
        conn_close(conn);
        conn = NULL;
    }
}

static void on_lost(void *user) {
    cr_assert_eq(user, &packets);
    lost++;
    conn_close(conn);
    conn = NULL;
}

/* As a failed request is answered. */
static void on_unsent(void *user, const void *data, size_t size, const char *why) {
    cr_assert_eq(user, &packets);
    cr_assert_eq(size, 6);
    cr_assert_eq(memcmp(data, "answer", 6), 0);
    cr_assert_not_null(strstr(why, "descriptor"), "%s", why);
    unsent++;
    if (close_when_unsent) {
        conn_close(conn);
        conn = NULL;
        return;
    }
    conn_send(conn, "sorry", 5, NULL, 0);
}

static const struct conn_events events = {on_packet, on_lost,    on_unsent,
                                          on_closed, on_drained, NULL};

static void set_up(void) {
    int pair[2];
    rota = rota_new(base = event_base_new());
    porter = porter_rig(base, NULL); /* first: for a moment it has what is open here, too */
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    client = pair[1];
    cr_assert_eq(conn_new(base, porter, rota, pair[0], 0, &events, NULL, &conn), 0);
    conn_set_user(conn, &packets);
}

static void turn(void) {
    for (int i = 0; i < 20; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
}

/* The porter's answers take their time. */
static void turn_until(const unsigned *what, unsigned count) {
    for (unsigned i = 0; i < 20000 && *what < count; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
    cr_assert_eq(*what, count);
    turn();
}

static void tear_down(void) {
    if (conn)
        conn_close(conn);
    close(client);
    porter_free(porter);
    rota_free(rota);
    event_base_free(base);
}

TestSuite(conn, .init = set_up, .fini = tear_down);

Test(conn, who_the_client_is_comes_from_the_kernel) {
    const struct conn_peer *p = conn_peer(conn);
    cr_assert_eq(p->uid, geteuid());
    cr_assert_eq(p->gid, getegid());
    cr_assert_eq(p->pid, getpid());
    cr_assert_eq(p->ngroups, (unsigned)getgroups(0, NULL));
}

Test(conn, packets_arrive_one_by_one_and_go_out_with_their_descriptors) {
    char buf[64];
    int fds[4], null_fd = STDIN_FILENO;
    size_t size = sizeof(buf);
    unsigned nfds;
    send(client, "abc", 3, 0);
    send(client, "defgh", 5, 0);
    turn();
    cr_assert_eq(packets, 2);
    cr_assert_eq(last_size, 5);
    conn_send(conn, "answer", 6, &null_fd, 1);
    cr_assert_eq(rdmad_fdmsg_recv(client, buf, &size, fds, 4, &nfds), 0);
    cr_assert_eq(size, 6);
    cr_assert_eq(nfds, 1);
    close(fds[0]);
}

Test(conn, a_packet_that_is_too_long_is_seen_to_be_so) {
    static char big[RDMAD_MSG_MAX * 2];
    send(client, big, sizeof(big), 0);
    send(client, big, RDMAD_MSG_MAX, 0);
    turn();
    cr_assert_eq(packets, 2);
    cr_assert_eq(last_size, RDMAD_MSG_MAX);
    send(client, big, RDMAD_MSG_MAX + 1, 0);
    turn();
    cr_assert_eq(last_size, RDMAD_MSG_MAX + 1);
}

static int some_memfd(void) {
    int fd = memfd_create("test", MFD_CLOEXEC);
    cr_assert_geq(fd, 0);
    return fd;
}

Test(conn, descriptors_that_come_are_counted_and_never_here) {
    int fds[4] = {0, 0, 0, 0};
    unsigned before = open_fds(0);
    cr_assert_eq(rdmad_fdmsg_send(client, "xyz", 3, fds, 3), 0);
    turn_until(&packets, 1);
    cr_assert_eq(last_nfds, 3);
    cr_assert_eq(last_size, 3);
    cr_assert_eq(last_fd, -1);
    cr_assert_eq(open_fds(0), before);
}

Test(conn, one_descriptor_is_handed_on_if_it_is_of_a_memfd) {
    int file = STDIN_FILENO, memfd = some_memfd();
    unsigned before = open_fds(0);
    cr_assert_eq(rdmad_fdmsg_send(client, "x", 1, &file, 1), 0);
    turn_until(&packets, 1);
    cr_assert_eq(last_nfds, 1);
    cr_assert_eq(last_fd, -1);
    cr_assert_eq(rdmad_fdmsg_send(client, "x", 1, &memfd, 1), 0);
    turn_until(&packets, 2);
    cr_assert_geq(last_fd, 0);
    cr_assert_eq(open_fds(0), before, "whom nobody kept is closed");
    keep = true;
    cr_assert_eq(rdmad_fdmsg_send(client, "x", 1, &memfd, 1), 0);
    turn_until(&packets, 3);
    cr_assert_eq(open_fds(0), before + 1);
    cr_assert_geq(fcntl(kept, F_GET_SEALS), 0);
    cr_assert_eq(close(kept), 0);
}

Test(conn, packets_with_and_without_descriptors_keep_their_order) {
    static const char *const texts[] = {"a", "bb", "ccc", "dddd", "eeeee", "ffffff"};
    int fd = some_memfd();
    for (unsigned i = 0; i < 6; i++)
        cr_assert_eq(rdmad_fdmsg_send(client, texts[i], i + 1, &fd, i % 2), 0);
    for (unsigned i = 0; i < 6; i++) {
        unsigned before = packets;
        for (unsigned n = 0; n < 100000 && packets == before; n++) {
            event_base_loop(base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
            usleep(100);
        }
        cr_assert_geq(packets, before + 1);
    }
    turn();
    cr_assert_eq(packets, 6);
    cr_assert_eq(last_size, 6);
    cr_assert_eq(last_nfds, 1);
}

#define LINGER_S 60

/* A socket whose peer does not take what was written to it, and whose close waits for that. */
static int lingering_socket(void) {
    static char much[65536];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger wait = {.l_onoff = 1, .l_linger = LINGER_S};
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    cr_assert_eq(listen(listener, 1), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    while (send(fd, much, sizeof(much), MSG_DONTWAIT) > 0)
        ;
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)), 0);
    return fd; /* the listener stays: its queue is the other end */
}

/* A socket that is closed with the last reference to it, and with it what is queued in it. */
static int socket_full_of(int fd) {
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
    cr_assert_eq(rdmad_fdmsg_send(pair[0], "x", 1, &fd, 1), 0);
    close(pair[0]);
    close(fd);
    return pair[1];
}

static time_t seconds(void) {
    return (time_t)(clock_now_ns() / NSEC_PER_SEC);
}

Test(conn, a_descriptor_whose_close_waits_holds_up_nobody) {
    time_t before = seconds();
    for (int i = 0; i < 2; i++) {
        int fd = lingering_socket();
        if (i)
            fd = socket_full_of(fd);
        cr_assert_eq(rdmad_fdmsg_send(client, "x", 1, &fd, 1), 0);
        close(fd);
    }
    turn_until(&packets, 2);
    cr_expect_lt(seconds() - before, LINGER_S / 2);
}

Test(conn, nor_does_one_in_a_packet_that_nobody_read) {
    time_t before = seconds();
    unsigned fds_before = open_fds(0);
    int fd = lingering_socket();
    cr_assert_eq(send(client, "", 0, 0), 0); /* which ends the connection */
    cr_assert_eq(send(client, "", 0, 0), 0);
    cr_assert_eq(rdmad_fdmsg_send(client, "x", 1, &fd, 1), 0);
    close(fd);
    turn();
    cr_expect_null(conn);
    cr_expect_eq(packets, 0);
    cr_expect_lt(seconds() - before, LINGER_S / 2);
    cr_expect_eq(open_fds(0), fds_before, "the listener, less the connection");
}

Test(conn, who_goes_while_the_porter_looks_is_not_called_back) {
    int fd = some_memfd();
    unsigned before = open_fds(0);
    cr_assert_eq(rdmad_fdmsg_send(client, "x", 1, &fd, 1), 0);
    event_base_loop(base, EVLOOP_NONBLOCK); /* sees it, and hands it over */
    cr_assert_eq(packets, 0);
    conn_close(conn);
    conn = NULL;
    for (int i = 0; i < 20000 && (i < 200 || open_fds(0) > before - 1); i++) {
        turn();
        usleep(1000);
    }
    cr_expect_eq(packets, 0);
    cr_expect_null(closed_why);
    cr_expect_eq(open_fds(0), before - 1, "its socket is closed, and no memfd is left");
}

Test(conn, who_goes_while_the_porter_takes_its_time_is_noticed) {
    int fd = some_memfd();
    porter_stop(porter_pid(porter));
    cr_assert_eq(rdmad_fdmsg_send(client, "x", 1, &fd, 1), 0);
    turn();
    cr_assert_null(closed_why);
    close(client);
    client = -1;
    turn();
    cr_expect_str_eq(closed_why, "the client closed its socket");
    kill(porter_pid(porter), SIGCONT);
}

static void kill_porter(void) {
    pid_t pid = porter_pid(porter);
    cr_assert_gt(pid, 0);
    cr_assert_eq(kill(pid, SIGKILL), 0);
    for (int i = 0; i < 20000 && (porter_pid(porter) == pid || !porter_pid(porter)); i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
    cr_assert_neq(porter_pid(porter), pid);
}

Test(conn, a_porter_that_was_killed_is_replaced_and_sessions_go_on) {
    int fd = some_memfd();
    for (unsigned i = 0; i < 3; i++) {
        kill_porter();
        cr_assert_eq(porter_restarts(porter), i + 1);
        cr_assert_eq(rdmad_fdmsg_send(client, "x", 1, &fd, 1), 0);
        turn_until(&packets, i + 1);
        cr_assert_geq(last_fd, 0);
    }
}

Test(conn, a_packet_that_a_porter_took_along_is_told_of_as_lost) {
    int fd = some_memfd();
    porter_stop(porter_pid(porter));
    cr_assert_eq(rdmad_fdmsg_send(client, "x", 1, &fd, 1), 0);
    event_base_loop(base, EVLOOP_NONBLOCK);
    kill(porter_pid(porter), SIGKILL);
    turn_until(&lost, 1);
    cr_expect_eq(packets, 0);
}

/* One that hangs is no better: it is asked, and replaced when it does not answer. */
Test(conn, a_porter_that_hangs_is_replaced, .timeout = 30) {
    int fd = some_memfd();
    pid_t before = porter_pid(porter);
    porter_stop(before);
    cr_assert_eq(rdmad_fdmsg_send(client, "x", 1, &fd, 1), 0);
    for (int i = 0; i < 15000 && !lost; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
    cr_expect_eq(lost, 1);
    for (int i = 0; i < 5000 && !porter_pid(porter); i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
    cr_expect_neq(porter_pid(porter), before);
    for (int i = 0; i < 5000 && kill(before, 0) == 0; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
    cr_expect_eq(kill(before, 0), -1, "it is reaped");
}

/* More than fdmsg would send: by hand. */
static void send_many_fds(unsigned count) {
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 64)];
        struct cmsghdr align;
    } control;
    int fds[64] = {0};
    struct iovec iov = {"x", 1};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
    cr_assert_eq(sendmsg(client, &m, 0), 1);
}

Test(conn, more_descriptors_than_a_message_may_have_are_counted_as_more) {
    unsigned before = open_fds(0);
    send_many_fds(5);
    turn_until(&packets, 1);
    cr_assert_eq(last_nfds, RDMAD_MSG_MAX_FDS + 1);
    send_many_fds(60);
    turn_until(&packets, 2);
    cr_assert_eq(last_nfds, RDMAD_MSG_MAX_FDS + 1);
    cr_assert_eq(open_fds(0), before);
}

/* ---- descriptors that cannot be passed on ---------------------------------------------------- */

static int in_flight[2];

/* The kernel lets a user without privileges have as many on their way as files open. */
static void use_up_what_may_be_in_flight(void) {
    const struct rlimit low = {64, 64};
    int fds[4] = {0, 0, 0, 0}, rc;
    uid_t own = 60000 + (uid_t)getpid() % 5000; /* nobody else's, whose would count as well */
    if (getuid() == 0)
        cr_assert_eq(setresuid(own, own, own), 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, in_flight), 0);
    for (int i = 0; (rc = rdmad_fdmsg_send(in_flight[0], "x", 1, fds, 4)) == 0; i++)
        cr_assert_lt(i, 100, "more than it may have are in flight");
    cr_assert_eq(rc, RDMAD_E_SYSTEM);
    cr_assert_eq(errno, ETOOMANYREFS);
}

static void expect_client_hears(const char *text) {
    char buf[64] = "";
    ssize_t n = recv(client, buf, sizeof(buf) - 1, MSG_DONTWAIT);
    cr_expect_eq(n, (ssize_t)strlen(text));
    cr_expect_str_eq(buf, text);
}

Test(conn, descriptors_that_cannot_be_passed_end_their_request_and_no_more) {
    int null_fd = STDIN_FILENO;
    use_up_what_may_be_in_flight();
    unsigned before = open_fds(0);
    conn_send(conn, "answer", 6, &null_fd, 1);
    cr_expect_eq(unsent, 0, "conn_send calls nothing back");
    turn();
    cr_expect_eq(unsent, 1);
    cr_expect_null(closed_why, "%s", closed_why);
    expect_client_hears("sorry");
    cr_expect_eq(open_fds(0), before);
    close(in_flight[0]);
    close(in_flight[1]);
    conn_send(conn, "answer", 6, &null_fd, 1);
    turn();
    cr_expect_eq(unsent, 1);
    expect_client_hears("answer");
    send(client, "abc", 3, 0);
    turn();
    cr_expect_eq(packets, 1, "it is still read from");
}

/* Packets that went before it fill the socket; those behind it keep their order. */
Test(conn, nor_do_those_that_waited_for_the_client) {
    static char much[2048];
    int null_fd = STDIN_FILENO;
    while (!conn_lags(conn))
        conn_send(conn, much, sizeof(much), NULL, 0);
    unsigned before = open_fds(0);
    conn_send(conn, "answer", 6, &null_fd, 1);
    conn_send(conn, "after", 5, NULL, 0);
    cr_assert_eq(open_fds(0), before + 1);
    use_up_what_may_be_in_flight();
    for (int i = 0; i < 2000 && !unsent; i++) {
        cr_assert_gt(recv(client, much, sizeof(much), MSG_DONTWAIT), 5);
        turn();
    }
    while (recv(client, much, 1, MSG_PEEK | MSG_TRUNC) == sizeof(much))
        recv(client, much, sizeof(much), 0);
    cr_expect_eq(unsent, 1);
    cr_expect_null(closed_why, "%s", closed_why);
    expect_client_hears("after");
    expect_client_hears("sorry");
    cr_expect_eq(open_fds(0), before + 2, "those of the full pair, less the one that waited");
}

Test(conn, closing_from_inside_such_a_failure_is_safe) {
    int null_fd = STDIN_FILENO;
    use_up_what_may_be_in_flight();
    close_when_unsent = true;
    conn_send(conn, "answer", 6, &null_fd, 1);
    conn_send(conn, "answer", 6, &null_fd, 1);
    turn();
    cr_expect_eq(unsent, 1);
    cr_expect_null(closed_why);
}

Test(conn, what_is_behind_such_a_packet_is_sent_before_closing) {
    int null_fd = STDIN_FILENO;
    use_up_what_may_be_in_flight();
    conn_send(conn, "answer", 6, &null_fd, 1);
    conn_send(conn, "bye", 3, NULL, 0);
    conn_close(conn);
    conn = NULL;
    expect_client_hears("bye");
    cr_expect_eq(unsent, 0, "closing calls nothing back");
}

Test(conn, end_of_file_is_told_once) {
    close(client);
    client = -1;
    turn();
    cr_assert_str_eq(closed_why, "the client closed its socket");
    cr_assert_null(conn);
}

Test(conn, closing_from_inside_a_packet_is_safe) {
    close_in_packet = true;
    send(client, "a", 1, 0);
    send(client, "b", 1, 0);
    turn();
    cr_assert_eq(packets, 1);
    cr_assert_null(closed_why, "closing from above calls nothing back");
}

Test(conn, a_client_that_does_not_take_its_answers_is_not_read_from) {
    char buf[1024] = {0};
    unsigned sent = 0;
    echo = true;
    for (int round = 0; round < 2000; round++) {
        sent += send(client, buf, sizeof(buf), MSG_DONTWAIT) > 0;
        turn();
    }
    cr_assert_null(closed_why);
    cr_assert_lt(packets, sent, "it reads on although the answers wait");

    unsigned got = 0; /* and goes on as soon as they are taken */
    for (int quiet = 0; quiet < 3;) {
        turn();
        if (recv(client, buf, sizeof(buf), MSG_DONTWAIT) > 0) {
            got++;
            quiet = 0;
        } else {
            quiet++;
        }
    }
    cr_assert_eq(got, sent);
}

Test(conn, a_client_that_lets_its_queue_overflow_is_closed_and_costs_no_descriptors) {
    char buf[1024] = {0};
    int fds[1] = {STDIN_FILENO};
    unsigned before = open_fds(0);
    for (int i = 0; i < 5000; i++)
        conn_send(conn, buf, sizeof(buf), fds, 1);
    cr_assert_leq(open_fds(0), before + 64, "descriptors that wait are bounded");
    cr_assert_null(closed_why, "nothing is called back from inside conn_send");
    turn();
    cr_assert_str_eq(closed_why, "the client does not read what it is sent");
    cr_assert_eq(open_fds(0), before - 1, "its own socket is closed");
}

/* Fills the socket until packets wait, then reads them all. */
static void lag_and_catch_up(void) {
    char buf[1024] = {0};
    for (int i = 0; i < 5000 && !conn_lags(conn); i++)
        conn_send(conn, buf, sizeof(buf), NULL, 0);
    cr_assert(conn_lags(conn));
    turn();
    cr_assert_eq(drained, 0, "nothing was read yet");
    for (int i = 0; i < 5000 && conn && conn_lags(conn); i++) {
        recv(client, buf, sizeof(buf), MSG_DONTWAIT);
        turn();
    }
    cr_assert_eq(drained, 1);
}

Test(conn, a_client_that_lagged_and_reads_again_is_told_of_once) {
    lag_and_catch_up();
    turn();
    cr_assert_eq(drained, 1);
    conn_send(conn, "more", 4, NULL, 0);
    cr_assert_not(conn_lags(conn));
}

Test(conn, closing_from_inside_drained_is_safe) {
    close_when_drained = true;
    lag_and_catch_up();
    cr_assert_null(conn);
    cr_assert_null(closed_why);
}

Test(conn, what_the_socket_takes_is_sent_before_closing) {
    char buf[16];
    conn_send(conn, "bye", 3, NULL, 0);
    conn_close(conn);
    conn = NULL;
    cr_assert_eq(recv(client, buf, sizeof(buf), 0), 3);
    cr_assert_eq(recv(client, buf, sizeof(buf), 0), 0);
}

Test(conn, a_client_that_vanished_is_reported_after_a_send_fails) {
    close(client);
    client = -1;
    conn_send(conn, "x", 1, NULL, 0);
    cr_assert_null(closed_why);
    turn();
    cr_assert_not_null(closed_why);
}
