/* SPDX-License-Identifier: MIT */
/*
 * Strangers get nothing, a hostile peer hurts itself only, a hostile target completes nothing that
 * was not done.
 */
#include "daemon/fabric/tcp/blob.h"
#include "tests/support/procs.h"
#include "tests/unit/tcp_raw.h"
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define BIG ((size_t)256 << 10)

static void turns(struct pair *p, unsigned n) {
    while (n-- > 0)
        pair_turn(p);
}

static struct fabric_blob offer_for(struct pair *p, uint64_t peer) {
    struct fabric_blob offer;
    struct error err = {0};
    cr_assert_eq(fabric_tcp.offer(p->owner.fabric, peer, false, &no_hello, &offer, &err), 0, "%s",
                 err.text);
    return offer;
}

static void expect_alive(struct pair *p) {
    struct top op;
    op_prepare(p, &op, RDMAD_OP_READ, 0, 0, 100000);
    cr_assert_eq(op_run(p, &op), RDMAD_OK);
}

/* Sends bytes as a stranger; true when the engine answered nothing and closed. */
static bool turned_away(struct pair *p, const void *bytes, size_t n) {
    struct fabric_blob offer = offer_for(p, LESSEE);
    int fd = raw_dial(raw_port(&offer));
    raw_send(p, fd, bytes, n);
    uint8_t byte;
    ssize_t got = -1;
    uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
    while (got < 0 && clock_now_ns() < until) {
        pair_turn(p);
        got = raw_recv_try(fd, &byte, 1);
        if (got < 0 && errno != EAGAIN)
            got = 0;
    }
    close(fd);
    return got == 0;
}

Test(tcp_hostile, a_wrong_hello_is_closed_without_a_word) {
    struct pair p;
    pair_open(&p, BIG);
    uint8_t hello[HELLO_BYTES];
    for (unsigned i = 0; i < 12; i++) {
        struct fabric_blob offer = offer_for(&p, LESSEE);
        hello_put(hello, raw_token(&offer));
        if (i < 8)
            hello[i] ^= 0x40; /* magic, version, reserved */
        else
            hello[8 + 4 * (i - 8)] ^= 1; /* the token */
        cr_assert(turned_away(&p, hello, sizeof hello), "byte %u", i);
        fabric_tcp.expel(p.owner.fabric, STRANGE);
    }
    random_fill(hello, sizeof hello, 3);
    cr_assert(turned_away(&p, hello, sizeof hello));
    pair_close(&p);
}

Test(tcp_hostile, sixteen_random_bytes_hold_nothing_for_long) {
    struct pair p;
    pair_open(&p, BIG);
    unsigned before = fd_count();
    struct fabric_blob offer = offer_for(&p, LESSEE);
    uint8_t bytes[16];
    random_fill(bytes, sizeof bytes, 4);
    int fd = raw_dial(raw_port(&offer));
    raw_send(&p, fd, bytes, sizeof bytes);
    turns(&p, 100);
    p.owner.skew_ns += 6 * NSEC_PER_SEC; /* beyond connect_timeout_ns */
    cr_assert(raw_closed(&p, fd));
    close(fd);
    expect_alive(&p);
    cr_assert_eq(fd_count(), before);
    pair_close(&p);
}

static unsigned watched(const struct side *s) {
    return epoll_watches(s->fabric->ops->wait_fd(s->fabric));
}

/* Whoever is forked has all descriptors until it calls exec, so they tell of events. */
Test(tcp_hostile, who_has_ended_is_not_called_while_a_child_has_its_descriptor) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_blob offer = offer_for(&p, STRANGE);
    unsigned owner = watched(&p.owner), lessee = watched(&p.lessee);
    int fd = raw_dial(raw_port(&offer));
    PAIR_UNTIL(&p, watched(&p.owner) == owner + 1);
    pid_t child = holder_fork();
    p.owner.skew_ns += 6 * NSEC_PER_SEC; /* beyond connect_timeout_ns */
    fabric_tcp.link_close(p.link);
    p.link = NULL;
    turns(&p, 100);
    cr_expect_eq(watched(&p.owner), owner);
    cr_expect_eq(watched(&p.lessee), lessee - 1);
    shutdown(fd, SHUT_WR); /* events for both, whose memory has gone */
    fabric_tcp.expel(p.owner.fabric, LESSEE);
    holder_end(child);
    turns(&p, 100);
    close(fd);
    pair_close(&p);
}

Test(tcp_hostile, a_slow_hello_is_taken_while_there_is_time) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_blob offer = offer_for(&p, LESSEE);
    uint8_t hello[HELLO_BYTES];
    hello_put(hello, raw_token(&offer));
    int fd = raw_dial(raw_port(&offer));
    for (unsigned i = 0; i < HELLO_BYTES; i++) {
        raw_send(&p, fd, hello + i, 1);
        turns(&p, 3);
    }
    raw_welcomed(&p, fd, &offer);
    close(fd);
    pair_close(&p);
}

Test(tcp_hostile, too_many_strangers_push_each_other_out_and_not_a_peer) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_blob offer = offer_for(&p, LESSEE);
    int fds[40];
    for (unsigned i = 0; i < 40; i++) {
        fds[i] = raw_dial(raw_port(&offer));
        turns(&p, 100);
    }
    unsigned open = 0;
    for (unsigned i = 0; i < 40; i++) {
        uint8_t byte;
        ssize_t got = raw_recv_try(fds[i], &byte, 1);
        open += got < 0 && errno == EAGAIN;
    }
    cr_assert_eq(open, p.owner.settings.max_strangers);
    int fd = raw_dial_as(&p, LESSEE);
    expect_alive(&p);
    close(fd);
    for (unsigned i = 0; i < 40; i++)
        close(fds[i]);
    pair_close(&p);
}

/* Encrypted: in clear the token is all that it has to show. */
Test(tcp_hostile, strangers_without_a_token_push_out_nobody_who_has_shown_one) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_blob offer = offer_for(&p, LESSEE);
    uint8_t hello[HELLO_BYTES];
    int fds[40], fd = raw_dial(raw_port(&offer));
    hello_put(hello, raw_token(&offer));
    raw_send(&p, fd, hello, sizeof hello);
    turns(&p, 100);
    for (unsigned i = 0; i < 40; i++) {
        fds[i] = raw_dial(raw_port(&offer));
        turns(&p, 20);
    }
    raw_welcomed(&p, fd, &offer);
    expect_alive(&p);
    close(fd);
    for (unsigned i = 0; i < 40; i++)
        close(fds[i]);
    pair_close(&p);
}

Test(tcp_hostile, a_token_opens_once_for_its_own_peer_and_in_time) {
    struct pair p;
    pair_open(&p, BIG);
    uint8_t hello[HELLO_BYTES];

    struct fabric_blob offer = offer_for(&p, LESSEE);
    hello_put(hello, raw_token(&offer));
    int fd = raw_dial(raw_port(&offer));
    raw_send(&p, fd, hello, sizeof hello);
    raw_welcomed(&p, fd, &offer);
    cr_assert(turned_away(&p, hello, sizeof hello), "a token was taken twice");
    close(fd);

    fd = raw_dial_as(&p, STRANGE); /* the lessee's key is nothing here */
    struct frame f = raw_request(&p.key, FRAME_READ, 0, 0, 8);
    raw_frame(&p, fd, &f);
    cr_assert_eq(raw_answer(&p, fd).status, RDMAD_E_NO_LEASE);
    close(fd);

    offer = offer_for(&p, LESSEE);
    hello_put(hello, raw_token(&offer));
    p.owner.skew_ns += p.owner.settings.token_ttl_ns;
    cr_assert(turned_away(&p, hello, sizeof hello), "an expired token was taken");
    pair_close(&p);
}

Test(tcp_hostile, a_key_with_one_wrong_bit_opens_nothing) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    uint32_t op = 0;
    for (unsigned bit = 0; bit < 64; bit++) {
        struct frame f = raw_request(&p.key, FRAME_READ, op++, 0, 8);
        f.key ^= UINT64_C(1) << bit;
        raw_frame(&p, fd, &f);
        cr_assert_eq(raw_answer(&p, fd).status, RDMAD_E_NO_LEASE, "bit %u", bit);
    }
    struct frame f = raw_request(&p.key, FRAME_READ, op, 0, 8);
    raw_frame(&p, fd, &f);
    cr_assert_eq(raw_answer(&p, fd).type, FRAME_DATA, "the key itself");
    close(fd);
    pair_close(&p);
}

static uint64_t number_of_offer(struct fabric *f) {
    struct fabric_blob offer;
    struct error err = {0};
    struct invitation i;
    cr_assert_eq(fabric_tcp.offer(f, LESSEE, false, &no_hello, &offer, &err), 0, "%s", err.text);
    cr_assert(offer_read(&offer, &i));
    return i.number;
}

/* Who closes one names it by number, to all workers. */
Test(tcp_hostile, no_two_workers_give_their_connections_the_same_number) {
    struct pair p;
    pair_open(&p, BIG);
    uint64_t here[5], there[5];
    for (unsigned i = 0; i < 5; i++) {
        here[i] = number_of_offer(p.owner.fabric);
        there[i] = number_of_offer(p.lessee.fabric);
    }
    for (unsigned i = 0; i < 25; i++)
        cr_assert_neq(here[i / 5], there[i % 5], "both have %lu", (unsigned long)here[i / 5]);
    pair_close(&p);
}

Test(tcp_hostile, offers_are_bounded_and_expire) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_blob offer;
    struct error err = {0};
    unsigned made = 0;
    while (fabric_tcp.offer(p.owner.fabric, LESSEE, false, &no_hello, &offer, &err) == 0)
        cr_assert(++made < 1000, "no bound");
    cr_assert_eq(err.code, RDMAD_E_LIMIT);
    cr_assert_eq(fabric_tcp.offer(p.owner.fabric, STRANGE, false, &no_hello, &offer, &err), 0);
    p.owner.skew_ns += p.owner.settings.token_ttl_ns;
    cr_assert_eq(fabric_tcp.offer(p.owner.fabric, LESSEE, false, &no_hello, &offer, &err), 0);
    pair_close(&p);
}

/* ---- a peer with a token that misbehaves ------------------------------------------------- */

Test(tcp_hostile, a_request_no_engine_would_send_ends_that_connection_only) {
    struct pair p;
    pair_open(&p, BIG);
    struct frame good = raw_request(&p.key, FRAME_WRITE, 0, 0, 0);
    struct frame bad[10];
    for (unsigned i = 0; i < 10; i++)
        bad[i] = good;
    bad[0].type = 0;
    bad[1].type = FRAME_DATA;
    bad[2].type = FRAME_ACK;
    bad[3].type = 0xff;
    bad[4].length = BIG + 1;
    bad[5].length = UINT32_MAX;
    bad[6].flags = 1;
    bad[7].status = -1;
    bad[8].op = 1;
    bad[9].type = FRAME_VOID; /* and yet it names a window */
    for (unsigned i = 0; i < 10; i++) {
        int fd = raw_dial_as(&p, LESSEE);
        raw_frame(&p, fd, &bad[i]);
        cr_assert(raw_closed(&p, fd), "frame %u", i);
        close(fd);
        expect_alive(&p);
    }
    pair_close(&p);
}

Test(tcp_hostile, garbage_changes_nothing) {
    struct pair p;
    pair_open(&p, BIG);
    unsigned before = fd_count();
    uint8_t garbage[5000];
    for (unsigned i = 0; i < 100; i++) {
        int fd = raw_dial_as(&p, LESSEE);
        random_fill(garbage, sizeof garbage, i);
        garbage[0] = (uint8_t)(i % 8); /* often a real type */
        (void)raw_send_try(fd, garbage, sizeof garbage);
        cr_assert(raw_closed(&p, fd));
        close(fd);
    }
    for (unsigned i = 0; i < BIG; i++)
        cr_assert_eq(p.memory[i], 0);
    expect_alive(&p);
    turns(&p, 10);
    cr_assert_eq(fd_count(), before);
    pair_close(&p);
}

/* A bulky payload makes the next reads short; a message that is half there may be longer than they
 * are. */
Test(tcp_hostile, half_a_message_behind_a_bulky_payload_is_read_on_within_the_buffer) {
    enum { SENT = FRAME_MAX_SEND, BULKY = 16 << 10 };
    static uint8_t bytes[2 * FRAME_BYTES + BULKY + SENT];
    const struct frame bulky = {.type = FRAME_VOID, .op = 0, .length = BULKY};
    const struct frame message = {.type = FRAME_SEND, .op = 1, .length = SENT};
    random_fill(bytes, sizeof bytes, 11);
    frame_put(bytes, &bulky);
    frame_put(bytes + FRAME_BYTES + BULKY, &message);
    const size_t there = FRAME_BYTES + BULKY;
    for (size_t half = 4096 - 1; half <= SENT; half += half < 4096 + 1 ? 1 : 3000) {
        struct pair p;
        pair_open(&p, BIG);
        int fd = raw_dial_as(&p, LESSEE);
        raw_largest_recv = 0;
        cr_assert_eq(raw_send_try(fd, bytes, there + half), (ssize_t)(there + half));
        turns(&p, 3);
        raw_send(&p, fd, bytes + there + half, sizeof bytes - there - half);
        PAIR_UNTIL(&p, p.owner.received == 1);
        cr_assert_eq(p.owner.size, SENT);
        cr_assert_arr_eq(p.owner.message, bytes + there + FRAME_BYTES, SENT);
        cr_assert_leq(raw_largest_recv, BIG, "a read of %zu bytes was asked for", raw_largest_recv);
        expect_alive(&p);
        close(fd);
        pair_close(&p);
    }
}

Test(tcp_hostile, reads_that_are_never_drained_cost_bounded_memory_and_nobody_else) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    uint64_t before = process_rss_bytes(getpid()), taken = 0;
    uint8_t bytes[FRAME_BYTES];
    unsigned refused = 0;
    for (uint32_t op = 0; refused < 2000;) {
        struct frame f = raw_request(&p.key, FRAME_READ, op, 0, op % 2 ? 2048 : BIG);
        frame_put(bytes, &f);
        ssize_t n = raw_send_try(fd, bytes, sizeof bytes);
        pair_turn(&p);
        if (n == (ssize_t)sizeof bytes) {
            taken += FRAME_BYTES;
            op++;
            refused = 0;
        } else {
            cr_assert(n < 0 && errno == EAGAIN, "half a header: make the test smarter");
            refused++;
        }
        cr_assert(taken < 64u << 20, "the engine reads on and on");
    }
    cr_assert(process_rss_bytes(getpid()) < before + (16u << 20));
    expect_alive(&p);
    close(fd);
    pair_close(&p);
}

Test(tcp_hostile, reads_not_drained_for_a_while_are_all_answered_later) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    random_fill(p.memory, BIG, 6);
    enum { READS = 3000 };
    static uint8_t requests[READS * FRAME_BYTES], data[2048];
    for (uint32_t op = 0; op < READS; op++) {
        struct frame f = raw_request(&p.key, FRAME_READ, op, op, sizeof data);
        frame_put(requests + (size_t)op * FRAME_BYTES, &f);
    }
    raw_send(&p, fd, requests, sizeof requests);
    turns(&p, 5000); /* long enough to go cold */
    for (uint32_t op = 0; op < READS; op++) {
        struct frame f = raw_answer(&p, fd);
        cr_assert_eq(f.type, FRAME_DATA);
        cr_assert_eq(f.op, op);
        raw_recv(&p, fd, data, sizeof data);
        cr_assert_eq(memcmp(data, p.memory + op, sizeof data), 0);
    }
    close(fd);
    pair_close(&p);
}

/* ---- a target that misbehaves ------------------------------------------------------------ */

/* A link to a raw target instead of the owner. Returns the target's end. */
static int raw_target(struct pair *p, int *listener) {
    fabric_tcp.link_close(p->link);
    struct fabric_blob offer;
    *listener = raw_listen(&offer);
    cr_assert_eq(link_dial(p->lessee.fabric, "127.0.0.1", &offer, &p->link, NULL), 0);
    return raw_accept_link(p, *listener);
}

Test(tcp_hostile, an_answer_that_fits_no_request_loses_the_link_and_completes_nothing) {
    /* Outstanding: op 0 a READ of 64, op 1 a WRITE of 64. */
    static const struct frame bad[] = {
        {.type = 0},
        {.type = FRAME_WRITE},
        {.type = 0xff},
        {.type = FRAME_ACK, .op = 0, .length = 1},    /* a READ needs data */
        {.type = FRAME_ACK, .op = 0, .length = 0},    /* nothing */
        {.type = FRAME_ACK, .op = 0, .length = 3},    /* more than asked */
        {.type = FRAME_ACK, .op = 1, .length = 1},    /* out of order */
        {.type = FRAME_STATUS, .op = 0, .status = 0}, /* success without data */
        {.type = FRAME_STATUS, .op = 0, .status = 1}, /* no such status */
        {.type = FRAME_STATUS, .op = 0, .status = -1000},
        {.type = FRAME_STATUS, .op = 0, .status = RDMAD_E_DAEMON_LOST}, /* nor this */
        {.type = FRAME_STATUS, .op = 7, .status = -15},                 /* unknown op */
        {.type = FRAME_STATUS, .op = 0, .status = -15, .length = 4},
        {.type = FRAME_STATUS, .op = 0, .status = -15, .flags = 0x80},
        {.type = FRAME_STATUS, .op = 0, .status = -15, .key = 1},
        {.type = FRAME_DATA, .op = 0, .length = 63}, /* not what was asked */
        {.type = FRAME_DATA, .op = 0, .length = 65},
        {.type = FRAME_DATA, .op = 0, .length = BIG},
        {.type = FRAME_DATA, .op = 0, .length = UINT32_MAX},
        {.type = FRAME_DATA, .op = 1, .length = 64}, /* a WRITE gets none */
    };
    struct pair p;
    pair_open(&p, BIG);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int listener, fd = raw_target(&p, &listener);
        struct top ops[2];
        op_prepare(&p, &ops[0], RDMAD_OP_READ, 0, 0, 64);
        op_prepare(&p, &ops[1], RDMAD_OP_WRITE, 64, 0, 64);
        op_post(&p, &ops[0]);
        op_post(&p, &ops[1]);
        uint8_t requests[FRAME_BYTES * 2 + 64], zeros[128] = {0};
        raw_recv(&p, fd, requests, sizeof requests);
        unsigned lost = p.lessee.lost;
        raw_frame(&p, fd, &bad[i]);
        (void)raw_send_try(fd, zeros, sizeof zeros);
        PAIR_UNTIL(&p, p.lessee.lost == lost + 1);
        cr_assert_eq(p.lessee.why.code, RDMAD_E_PROTOCOL, "answer %zu", i);
        for (unsigned j = 0; j < 2; j++) {
            cr_assert(ops[j].done);
            cr_assert_eq(ops[j].op.status, RDMAD_E_PEER_LOST);
        }
        cr_assert_eq(fabric_tcp.post(p.link, &ops[0].op), RDMAD_E_PEER_LOST);
        close(fd);
        close(listener);
    }
    pair_close(&p);
}

Test(tcp_hostile, a_write_acknowledged_before_it_was_sent_is_not_believed) {
    struct pair p;
    pair_defaults(&p, BIG);
    p.lessee.settings.send_buffer_bytes = UINT64_C(1) << 40;
    pair_start(&p);
    int listener, fd = raw_target(&p, &listener);
    static struct top ops[100];
    for (unsigned i = 0; i < 100; i++) {
        op_prepare(&p, &ops[i], RDMAD_OP_WRITE, 0, 0, BIG);
        cr_assert_eq(fabric_tcp.post(p.link, &ops[i].op), 0);
    }
    turns(&p, 100);
    struct frame f = {.type = FRAME_ACK, .op = 0, .length = 100};
    raw_frame(&p, fd, &f);
    PAIR_UNTIL(&p, p.lessee.lost == 1);
    cr_assert_eq(p.lessee.why.code, RDMAD_E_PROTOCOL);
    cr_assert_eq(ops[99].op.status, RDMAD_E_PEER_LOST);
    cr_assert_eq(ops[99].op.outcome, RDMAD_FAILED_UNTOUCHED);
    close(fd);
    close(listener);
    pair_close(&p);
}

Test(tcp_hostile, answers_of_garbage_lose_the_link_and_spare_memory) {
    struct pair p;
    pair_open(&p, BIG);
    memset(p.local, 0x12, BIG);
    for (unsigned i = 0; i < 100; i++) {
        int listener, fd = raw_target(&p, &listener);
        struct top op;
        op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 5000);
        op_post(&p, &op);
        uint8_t garbage[3000];
        random_fill(garbage, sizeof garbage, i);
        garbage[0] = (uint8_t)(i % 8);
        unsigned lost = p.lessee.lost;
        (void)raw_send_try(fd, garbage, sizeof garbage);
        PAIR_UNTIL(&p, p.lessee.lost == lost + 1);
        cr_assert(op.done);
        for (unsigned j = 0; j < BIG; j++)
            cr_assert_eq(p.local[j], 0x12);
        close(fd);
        close(listener);
    }
    pair_close(&p);
}
