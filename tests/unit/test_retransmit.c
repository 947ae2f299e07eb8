/* SPDX-License-Identifier: MIT */
/*
 * What TCP has lost is sent again soon, also after a long loss, and a connection is not broken for
 * a silence that its daemon bears: the kernel is asked what was set.
 */
#include "daemon/base/upper_fd.h"
#include "daemon/peer/control/transport.h"
#include "tests/unit/tcp_pair.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef TCP_RTO_MAX_MS /* linux/tcp.h; glibc has it later */
#define TCP_RTO_MAX_MS 44
#endif
#define MINUTE_MS 60000

static int tcp_option(int fd, int name) {
    int value = 0;
    socklen_t size = sizeof(value);
    cr_assert_eq(getsockopt(fd, IPPROTO_TCP, name, &value, &size), 0, "%s", strerror(errno));
    return value;
}

static int socket_new(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    return fd;
}

static void need_bound(void) {
    int value, fd = socket_new();
    socklen_t size = sizeof(value);
    int rc = getsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &value, &size);
    close(fd);
    if (rc)
        cr_skip_test("this kernel's TCP has no bound for its pauses: Linux 6.15 has it");
}

TestSuite(retransmit, .init = need_bound);

static void expect_borne(uint64_t silence_ms, int pause_ms, int broken_ms) {
    struct transport_calls none = {0};
    struct event_base *base = event_base_new();
    int fd = socket_new();
    struct transport *t = transport_new(base, fd);
    cr_assert(t);
    cr_expect_eq(tcp_option(fd, TCP_USER_TIMEOUT), 0, "a dial is tried for as long as it was");
    transport_begin(t, false, &none, NULL);
    transport_bear_silence(t, silence_ms);
    cr_expect_eq(tcp_option(fd, TCP_RTO_MAX_MS), pause_ms);
    cr_expect_eq(tcp_option(fd, TCP_USER_TIMEOUT), broken_ms);
    transport_close(t);
    event_base_free(base);
}

Test(retransmit, what_daemons_say_is_sent_again_while_their_silence_is_borne) {
    expect_borne(600, 1000, 2 * MINUTE_MS);
    expect_borne(10000, 1000, 2 * MINUTE_MS);
    expect_borne(60000, 6000, 2 * MINUTE_MS);
    expect_borne(60 * MINUTE_MS, 2 * MINUTE_MS, 60 * MINUTE_MS);
}

static bool is_connected(int fd) {
    struct sockaddr_storage peer;
    socklen_t size = sizeof(peer);
    return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.ss_family != AF_UNIX;
}

Test(retransmit, what_ops_carry_is_sent_again_while_silence_is_borne) {
    struct pair p;
    unsigned ends = 0;
    pair_open(&p, 4096);
    for (int fd = 3; fd < upper_fd_least() + 100; fd++) {
        if (!is_connected(fd))
            continue;
        ends++;
        cr_expect_eq(tcp_option(fd, TCP_RTO_MAX_MS), MINUTE_MS / 10);
        cr_expect_eq(tcp_option(fd, TCP_USER_TIMEOUT), MINUTE_MS);
    }
    cr_expect_eq(ends, 2, "%u", ends);
    pair_close(&p);
}
