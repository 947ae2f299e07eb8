/* SPDX-License-Identifier: MIT */
/*
 * How links come up, and what is told when they do not or break.
 */
#include "tests/unit/tcp_raw.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define BIG ((size_t)256 << 10)

static struct fabric_link *open_link(struct pair *p, const struct fabric_blob *offer) {
    struct error err = {0};
    struct fabric_link *link;
    cr_assert_eq(link_dial(p->lessee.fabric, "127.0.0.1", offer, &link, &err), 0, "%s", err.text);
    return link;
}

static void drop_link(struct pair *p) {
    fabric_tcp.link_close(p->link);
    p->link = NULL;
}

Test(tcp_link, ops_posted_while_dialling_are_done_once_it_is_up) {
    struct pair p;
    pair_open(&p, BIG);
    drop_link(&p);
    struct fabric_blob offer;
    cr_assert_eq(fabric_tcp.offer(p.owner.fabric, LESSEE, false, &no_hello, &offer, NULL), 0);
    p.link = open_link(&p, &offer);
    struct top op;
    random_fill(p.local, BIG, 1);
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, BIG);
    cr_assert_eq(fabric_tcp.post(p.link, &op.op), 0);
    PAIR_UNTIL(&p, op.done);
    cr_assert_eq(op.op.status, RDMAD_OK);
    cr_assert_eq(memcmp(p.local, p.memory, BIG), 0);
    pair_close(&p);
}

Test(tcp_link, nobody_listening_is_told_with_the_address) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_blob offer;
    int listener = raw_listen(&offer);
    close(listener);
    drop_link(&p);
    struct error err = {0};
    int rc = link_dial(p.lessee.fabric, "127.0.0.1", &offer, &p.link, &err);
    if (rc == 0) {
        PAIR_UNTIL(&p, p.lessee.lost == 1);
        err = p.lessee.why;
    }
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", raw_port(&offer));
    cr_assert_eq(err.code, RDMAD_E_UNREACHABLE);
    cr_assert_not_null(strstr(err.text, address), "%s", err.text);
    cr_assert_not_null(strstr(err.text, "refused"), "%s", err.text);
    pair_close(&p);
}

Test(tcp_link, a_used_token_is_told_as_such) {
    struct pair p;
    pair_open(&p, BIG);
    drop_link(&p);
    struct fabric_blob offer;
    cr_assert_eq(fabric_tcp.offer(p.owner.fabric, LESSEE, false, &no_hello, &offer, NULL), 0);
    p.link = open_link(&p, &offer);
    PAIR_UNTIL(&p, p.lessee.up == 2);
    struct fabric_link *again = open_link(&p, &offer);
    PAIR_UNTIL(&p, p.lessee.lost == 1);
    cr_assert_eq(p.lessee.why.code, RDMAD_E_UNREACHABLE);
    cr_assert_not_null(strstr(p.lessee.why.text, "token"), "%s", p.lessee.why.text);
    fabric_tcp.link_close(again);
    pair_close(&p);
}

Test(tcp_link, who_never_welcomes_is_given_up_in_time) {
    struct pair p;
    pair_open(&p, BIG);
    drop_link(&p);
    struct fabric_blob offer;
    int listener = raw_listen(&offer);
    p.link = open_link(&p, &offer);
    struct top op;
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 64);
    op_post(&p, &op);
    for (unsigned i = 0; i < 50; i++)
        pair_turn(&p);
    uint64_t wake_ns;
    cr_assert(fabric_tcp.arm(p.lessee.fabric, &wake_ns));
    cr_assert(wake_ns <= clock_now_ns() + p.lessee.settings.connect_timeout_ns);
    cr_assert_eq(p.lessee.lost, 0);
    p.lessee.skew_ns = p.lessee.settings.connect_timeout_ns;
    PAIR_UNTIL(&p, p.lessee.lost == 1);
    cr_assert_eq(p.lessee.why.code, RDMAD_E_UNREACHABLE);
    cr_assert(op.done);
    cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    close(listener);
    pair_close(&p);
}

Test(tcp_link, who_answers_the_hello_with_something_else_is_no_target) {
    struct pair p;
    pair_open(&p, BIG);
    for (unsigned i = 0; i < WELCOME_BYTES; i++) {
        drop_link(&p);
        struct fabric_blob offer;
        int listener = raw_listen(&offer), fd = -1;
        p.link = open_link(&p, &offer);
        PAIR_UNTIL(&p, (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
        uint8_t welcome[WELCOME_BYTES];
        welcome_put(welcome);
        welcome[i] ^= 0x20;
        raw_send(&p, fd, welcome, sizeof welcome);
        PAIR_UNTIL(&p, p.lessee.lost == i + 1);
        cr_assert_eq(p.lessee.why.code, RDMAD_E_UNREACHABLE);
        cr_assert_eq(p.lessee.up, 1);
        close(fd);
        close(listener);
    }
    pair_close(&p);
}

/* What an old link still has under way cannot use what was opened for the next. */
Test(tcp_link, a_window_of_one_connection_is_none_of_another) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_link *old = p.link, *next = pair_dial(&p, LESSEE);
    struct fabric_window *window, *none;
    struct fabric_window_spec spec = p.spec;
    struct error err = {0};
    struct top op;
    cr_assert_neq(old->number, next->number);
    spec.via = next->number;
    cr_assert_eq(fabric_tcp.window_open(p.owner.fabric, &spec, &window, &p.key, &err), 0);
    const int opcodes[] = {RDMAD_OP_READ, RDMAD_OP_WRITE, RDMAD_OP_FADD};
    for (unsigned i = 0; i < 2 * 3; i++) {
        op_prepare(&p, &op, opcodes[i / 2], 0, 0, 8);
        p.link = i % 2 ? next : old;
        cr_assert_eq(op_run(&p, &op), i % 2 ? RDMAD_OK : RDMAD_E_NO_LEASE);
    }
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, BIG);
    p.link = old;
    cr_assert_eq(op_run(&p, &op), RDMAD_E_NO_LEASE);
    fabric_tcp.window_close(window, RDMAD_E_LEASE_RELEASED);

    uint64_t number = old->number;
    fabric_tcp.link_close(old);
    PAIR_UNTIL(&p, fabric_tcp.accepted(p.owner.fabric) == 1);
    p.link = next;
    for (unsigned i = 0; i < 3; i++) {
        spec.via = i == 0 ? number : i == 1 ? 1000 : next->number;
        spec.peer = i == 2 ? STRANGE : LESSEE;
        int rc = fabric_tcp.window_open(p.owner.fabric, &spec, &none, &p.key, &err);
        cr_assert_eq(rc, RDMAD_E_PEER_LOST, "case %u", i);
    }
    pair_close(&p);
}

/* The link is given up with a write half sent, and the peer is told before it is asked for more. */
Test(tcp_link, nothing_of_a_forgotten_connection_lands_any_more) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_link *next = pair_dial(&p, LESSEE);
    struct top op;
    memset(p.local, 'x', BIG);
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 64);
    op_post(&p, &op);
    fabric_tcp.poll(p.lessee.fabric);
    uint64_t number = p.link->number;
    fabric_tcp.link_close(p.link);
    cr_assert(op.done && op.op.outcome == RDMAD_UNKNOWN);
    fabric_tcp.forget(p.owner.fabric, STRANGE, number);
    fabric_tcp.forget(p.owner.fabric, LESSEE, number + 1000);
    cr_assert_eq(fabric_tcp.accepted(p.owner.fabric), 2);
    fabric_tcp.forget(p.owner.fabric, LESSEE, number);
    fabric_tcp.forget(p.owner.fabric, LESSEE, number);
    cr_assert_eq(fabric_tcp.accepted(p.owner.fabric), 1);
    p.link = next;
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, 64);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    cr_assert_null(memchr(p.memory, 'x', 64));

    struct fabric_blob offer;
    struct fabric_link *late;
    struct error err = {0};
    cr_assert_eq(fabric_tcp.offer(p.owner.fabric, LESSEE, false, &no_hello, &offer, &err), 0);
    cr_assert_eq(link_dial(p.lessee.fabric, "127.0.0.1", &offer, &late, &err), 0);
    fabric_tcp.forget(p.owner.fabric, LESSEE, late->number);
    PAIR_UNTIL(&p, p.lessee.lost == 1);
    cr_assert_eq(p.lessee.why.code, RDMAD_E_UNREACHABLE);
    fabric_tcp.link_close(late);
    pair_close(&p);
}

Test(tcp_link, an_offer_of_another_version_is_refused) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_blob good, bad;
    struct fabric_link *link;
    cr_assert_eq(fabric_tcp.offer(p.owner.fabric, LESSEE, false, &no_hello, &good, NULL), 0);
    for (unsigned i = 0; i < 4; i++) {
        bad = good;
        if (i == 0)
            bad.size--;
        else if (i == 3)
            bad.bytes[2] = bad.bytes[3] = 0; /* port 0 */
        else
            bad.bytes[i - 1]++;
        struct error err = {0};
        cr_assert_eq(link_dial(p.lessee.fabric, "127.0.0.1", &bad, &link, &err), RDMAD_E_PROTOCOL);
    }
    cr_assert_eq(link_dial(p.lessee.fabric, "localhost", &good, &link, NULL), RDMAD_E_INVAL,
                 "a name was looked up");
    pair_close(&p);
}

Test(tcp_link, a_link_that_was_not_opened_takes_nothing_and_closes_like_any) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_link *link;
    struct fabric_blob hello, bad = {0};
    struct error err = {0};
    struct top op;
    unsigned before = fd_count();
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, 8);
    for (int fails = 0; fails < 2; fails++) {
        cr_assert_eq(fabric_tcp.link_new(p.lessee.fabric, NULL, false, &link, &hello, &err), 0);
        if (fails)
            cr_assert_eq(fabric_tcp.link_open(link, "127.0.0.1", &bad, &err), RDMAD_E_PROTOCOL);
        cr_assert_eq(fabric_tcp.post(link, &op.op), RDMAD_E_PEER_LOST);
        fabric_tcp.link_close(link);
        pair_turn(&p);
    }
    cr_assert_eq(p.lessee.lost, 0);
    cr_assert_eq(fd_count(), before);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    pair_close(&p);
}

Test(tcp_link, a_hello_of_another_fabric_is_told_what_to_do) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_blob hello = {.size = 40}, offer;
    struct error err = {0};
    cr_assert_eq(fabric_tcp.offer(p.owner.fabric, LESSEE, false, &hello, &offer, &err),
                 RDMAD_E_PROTOCOL);
    cr_assert_not_null(strstr(err.text, "\"fabric\""), "%s", err.text);
    pair_close(&p);
}

/* ---- breaking ---------------------------------------------------------------------------- */

Test(tcp_link, a_lost_link_tells_what_became_of_each_op) {
    struct pair p;
    pair_defaults(&p, BIG);
    p.lessee.settings.send_buffer_bytes = UINT64_C(1) << 40;
    pair_start(&p);
    drop_link(&p);
    struct fabric_blob offer;
    int listener = raw_listen(&offer);
    p.link = open_link(&p, &offer);
    int fd = raw_accept_link(&p, listener);
    static struct top ops[102];
    for (unsigned i = 0; i < 102; i++) {
        op_prepare(&p, &ops[i], i == 1 ? RDMAD_OP_READ : RDMAD_OP_WRITE, 0, 0, i < 2 ? 64 : BIG);
        cr_assert_eq(fabric_tcp.post(p.link, &ops[i].op), 0);
    }
    for (unsigned i = 0; i < 100; i++)
        pair_turn(&p);
    close(fd);
    PAIR_UNTIL(&p, p.lessee.lost == 1);
    cr_assert_eq(p.lessee.why.code, RDMAD_E_PEER_LOST);
    for (unsigned i = 0; i < 102; i++) {
        cr_assert(ops[i].done);
        cr_assert_eq(ops[i].op.status, RDMAD_E_PEER_LOST);
    }
    cr_assert_eq(ops[0].op.outcome, RDMAD_UNKNOWN);
    cr_assert_eq(ops[1].op.outcome, RDMAD_FAILED_PARTIAL);
    cr_assert_eq(ops[101].op.outcome, RDMAD_FAILED_UNTOUCHED);
    struct top late;
    op_prepare(&p, &late, RDMAD_OP_READ, 0, 0, 8);
    cr_assert_eq(fabric_tcp.post(p.link, &late.op), RDMAD_E_PEER_LOST);
    for (unsigned i = 0; i < 50; i++)
        pair_turn(&p);
    cr_assert_eq(p.lessee.lost, 1, "a loss was told twice");
    close(listener);
    pair_close(&p);
}

Test(tcp_link, a_silent_target_is_lost_while_it_owes_an_answer_and_only_then) {
    struct pair p;
    pair_open(&p, BIG);
    struct top op;
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 64);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    p.lessee.skew_ns += 10 * p.lessee.settings.dead_peer_ns;
    for (unsigned i = 0; i < 50; i++)
        pair_turn(&p);
    cr_assert_eq(p.lessee.lost, 0, "an idle link was lost");

    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 64);
    op_post(&p, &op);
    fabric_tcp.poll(p.lessee.fabric);
    uint64_t wake_ns;
    cr_assert(fabric_tcp.arm(p.lessee.fabric, &wake_ns));
    uint64_t now_ns = p.lessee.env.now_ns(&p.lessee);
    cr_assert(wake_ns <= now_ns + p.lessee.settings.dead_peer_ns);
    p.lessee.skew_ns += p.lessee.settings.dead_peer_ns - NSEC_PER_SEC;
    fabric_tcp.poll(p.lessee.fabric);
    cr_assert_not(op.done);
    p.lessee.skew_ns += NSEC_PER_SEC;
    fabric_tcp.poll(p.lessee.fabric);
    cr_assert(op.done);
    cr_assert_eq(op.op.status, RDMAD_E_PEER_LOST);
    cr_assert_eq(op.op.outcome, RDMAD_UNKNOWN);
    cr_assert_eq(p.lessee.lost, 1);
    cr_assert_not_null(strstr(p.lessee.why.text, "silent"), "%s", p.lessee.why.text);
    pair_close(&p);
}

Test(tcp_link, what_came_in_time_counts_though_it_is_looked_at_late) {
    struct pair p;
    pair_open(&p, BIG);
    struct top op;
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, 64);
    op_post(&p, &op);
    fabric_tcp.poll(p.lessee.fabric);
    for (unsigned i = 0; i < 50; i++)
        fabric_tcp.poll(p.owner.fabric);
    p.lessee.skew_ns += 10 * p.lessee.settings.dead_peer_ns; /* a stopped process, say */
    PAIR_UNTIL(&p, op.done);
    cr_assert_eq(op.op.status, RDMAD_OK);
    cr_assert_eq(p.lessee.lost, 0);

    drop_link(&p);
    struct fabric_blob offer;
    cr_assert_eq(fabric_tcp.offer(p.owner.fabric, LESSEE, false, &no_hello, &offer, NULL), 0);
    p.link = open_link(&p, &offer);
    for (unsigned flights = pair_encrypts() ? 2 : 1; flights > 0; flights--) {
        fabric_tcp.poll(p.lessee.fabric);
        for (unsigned i = 0; i < 50; i++)
            fabric_tcp.poll(p.owner.fabric);
    }
    p.lessee.skew_ns += p.lessee.settings.connect_timeout_ns;
    PAIR_UNTIL(&p, p.lessee.up + p.lessee.lost == 2);
    cr_assert_eq(p.lessee.lost, 0, "%s", p.lessee.why.text);
    pair_close(&p);
}

Test(tcp_link, links_of_one_instance_fail_apart) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_blob offer;
    int listener = raw_listen(&offer);
    struct fabric_link *other = open_link(&p, &offer);
    int fd = raw_accept_link(&p, listener);
    close(fd);
    PAIR_UNTIL(&p, p.lessee.lost == 1);
    struct top op;
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, BIG);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    fabric_tcp.link_close(other);
    close(listener);
    pair_close(&p);
}

Test(tcp_link, both_directions_work_between_two_instances) {
    struct pair p;
    pair_open(&p, BIG);
    struct error err = {0};
    struct fabric_blob offer, key;
    struct fabric_window *w;
    struct fabric_link *back;
    struct fabric_window_spec spec = p.spec;
    spec.peer = 3;
    spec.base = p.local;
    cr_assert_eq(fabric_tcp.offer(p.lessee.fabric, 3, false, &no_hello, &offer, &err), 0);
    cr_assert_eq(fabric_tcp.window_open(p.lessee.fabric, &spec, &w, &key, &err), 0);
    cr_assert_eq(link_dial(p.owner.fabric, "127.0.0.1", &offer, &back, &err), 0);
    random_fill(p.local, BIG, 9);
    struct top op, there;
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, BIG);
    op.op.local = p.memory;
    op.op.key = &key;
    op_prepare(&p, &there, RDMAD_OP_WRITE, 0, 0, 0);
    cr_assert_eq(fabric_tcp.post(back, &op.op), 0);
    op_post(&p, &there);
    PAIR_UNTIL(&p, op.done && there.done);
    cr_assert_eq(op.op.status, RDMAD_OK);
    cr_assert_eq(memcmp(p.memory, p.local, BIG), 0);
    fabric_tcp.link_close(back);
    fabric_tcp.window_close(w, RDMAD_E_LEASE_RELEASED);
    pair_close(&p);
}

Test(tcp_link, an_address_that_cannot_be_listened_on_is_an_error_with_the_address) {
    struct pair p;
    pair_defaults(&p, BIG);
    struct error err = {0};
    struct sockaddr_in taken = {.sin_family = AF_INET};
    socklen_t size = sizeof taken;
    int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(inet_pton(AF_INET, "127.0.0.7", &taken.sin_addr) == 1 &&
              bind(other, (struct sockaddr *)&taken, size) == 0 && listen(other, 1) == 0 &&
              getsockname(other, (struct sockaddr *)&taken, &size) == 0);
    snprintf(p.owner.settings.listen_host, sizeof p.owner.settings.listen_host, "127.0.0.7");
    p.owner.settings.data_port = ntohs(taken.sin_port);
    unsigned before = fd_count();
    cr_assert_eq(fabric_tcp.open(&p.owner.env, &p.owner.fabric, &err), RDMAD_E_SYSTEM);
    cr_assert_not_null(strstr(err.text, "127.0.0.7"), "%s", err.text);
    cr_assert_eq(fd_count(), before);
    close(other);
}

Test(tcp_link, ipv6_works_as_well) {
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (probe < 0 || bind(probe, (struct sockaddr *)&loopback, sizeof loopback))
        cr_skip_test("no IPv6 here");
    close(probe);
    struct pair p;
    pair_open(&p, BIG);
    struct side six = p.owner;
    snprintf(six.settings.listen_host, sizeof six.settings.listen_host, "::1");
    six.env.user = &six;
    six.env.settings = &six.settings;
    side_open(&six);
    struct error err = {0};
    struct fabric_blob offer;
    struct fabric_link *link;
    cr_assert_eq(fabric_tcp.offer(six.fabric, LESSEE, false, &no_hello, &offer, &err), 0);
    cr_assert_eq(link_dial(p.lessee.fabric, "::1", &offer, &link, &err), 0, "%s", err.text);
    uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
    while (p.lessee.up < 2 && clock_now_ns() < until) {
        pair_turn(&p);
        fabric_tcp.poll(six.fabric);
    }
    cr_assert_eq(p.lessee.up, 2);
    side_close(&six);
    PAIR_UNTIL(&p, p.lessee.lost == 1);
    cr_assert_not_null(strstr(p.lessee.why.text, "[::1]:"), "%s", p.lessee.why.text);
    fabric_tcp.link_close(link);
    pair_close(&p);
}

/* A connection's own descriptors are of the one process that the test is. */
Test(tcp_link, the_last_descriptors_are_not_for_data_connections) {
    struct pair p;
    struct error err = {0};
    struct fabric_blob offer;
    struct fabric_link *link = NULL;
    unsigned before;
    pair_open(&p, 4096);
    before = p.lessee.lost;
    p.owner.settings.descriptors = 3; /* it has more already */
    cr_assert_eq(p.owner.fabric->ops->offer(p.owner.fabric, LESSEE, false, &no_hello, &offer, &err),
                 0);
    cr_assert_eq(link_dial(p.lessee.fabric, "127.0.0.1", &offer, &link, &err), 0, "%s", err.text);
    PAIR_UNTIL(&p, p.lessee.lost == before + 1);
    p.lessee.fabric->ops->link_close(link);
    p.lessee.settings.descriptors = 3;
    cr_assert_eq(p.owner.fabric->ops->offer(p.owner.fabric, LESSEE, false, &no_hello, &offer, &err),
                 0);
    cr_expect_eq(link_dial(p.lessee.fabric, "127.0.0.1", &offer, &link, &err), RDMAD_E_SYSTEM);
    cr_expect_not_null(strstr(err.text, "Too many open files"), "%s", err.text);
    pair_close(&p);
}
