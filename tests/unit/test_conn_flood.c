/* SPDX-License-Identifier: MIT */
/* A client that says more than its user may in a pass of the loop is heard, in the next ones. */
#include "daemon/ipc/conn.h"
#include "daemon/ipc/rota.h"
#include "tests/unit/porter_rig.h"
#include <criterion/criterion.h>
#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned packets;
static const char *closed_why;

static void on_packet(void *user, const void *data, size_t size, int *fds, unsigned nfds) {
    (void)user, (void)data, (void)size, (void)fds, (void)nfds;
    packets++;
}

static void on_closed(void *user, const char *why) {
    (void)user;
    closed_why = why;
}

static const struct conn_events events = {.packet = on_packet, .closed = on_closed};

static void pass(struct event_base *base) {
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

Test(conn_flood, is_read_some_packets_a_pass_and_all_of_it_in_the_end) {
    enum { FLOOD = 150 };
    int pair[2];
    struct conn *conn;
    struct event_base *base = event_base_new();
    struct porter *porter = porter_rig(base, NULL);
    struct rota *rota = rota_new(base);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    cr_assert_eq(conn_new(base, porter, rota, pair[0], 0, &events, NULL, &conn), 0);

    for (unsigned i = 0; i < FLOOD; i++)
        cr_assert_eq(send(pair[1], "more", 4, MSG_DONTWAIT), 4);
    unsigned before = 0, passes = 0;
    while (packets < FLOOD) {
        pass(base);
        cr_assert_leq(packets - before, 2 * ROTA_PACKETS, "%u at once", packets - before);
        before = packets;
        cr_assert_lt(passes++, 1000u, "it is not listened to any more after %u", packets);
    }
    cr_assert_gt(passes, FLOOD / ROTA_PACKETS / 2);

    send(pair[1], "late", 4, 0);
    for (unsigned i = 0; i < FLOOD / 2; i++)
        send(pair[1], "last", 4, MSG_DONTWAIT);
    close(pair[1]);
    for (unsigned i = 0; i < 100; i++)
        pass(base);
    cr_assert_eq(packets, FLOOD + 1 + FLOOD / 2, "what was said before the end is heard");
    cr_assert_not_null(closed_why);
    porter_free(porter);
    rota_free(rota);
    event_base_free(base);
}
