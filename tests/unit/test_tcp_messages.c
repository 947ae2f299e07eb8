/* SPDX-License-Identifier: MIT */
/*
 * SENDs over tcp: each is received once, whole, in order and behind the writes before it; what is
 * told of one that was canceled or lost is true; a peer that misbehaves hurts itself only.
 */
#include "tests/unit/tcp_raw.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define BIG ((size_t)256 << 10)
#define MANY 200u

static void expect_alive(struct pair *p) {
    struct top op;
    unsigned received = p->owner.received;
    send_prepare(p, &op, "alive", 5, 0, 0);
    cr_assert_eq(op_run(p, &op), RDMAD_OK);
    cr_assert_eq(p->owner.received, received + 1);
    cr_assert_eq(memcmp(p->owner.message, "alive", 5), 0);
    cr_assert_eq(p->lessee.lost, 0);
}

Test(tcp_messages, of_every_size_come_as_they_were_posted) {
    struct pair p;
    pair_open(&p, BIG);
    cr_assert(p.link->ordered && p.link->max_send >= FABRIC_SEND_MIN);
    random_fill(p.local, BIG, 1);
    const uint64_t most = p.link->max_send;
    const uint64_t sizes[] = {0, 1, 64, 2047, 2048, 2049, 4096, 16384, most - 200, most};
    uint8_t head[FABRIC_HEAD_MAX];
    random_fill(head, sizeof head, 2);
    for (unsigned i = 0; i < 3 * sizeof sizes / sizeof *sizes; i++) {
        const uint16_t heads[] = {0, 7, FABRIC_HEAD_MAX};
        uint64_t size = sizes[i / 3];
        uint16_t head_size = heads[i % 3];
        if (head_size > size)
            head_size = (uint16_t)size;
        struct top op;
        send_prepare(&p, &op, head, head_size, 3, size - head_size);
        cr_assert_eq(op_run(&p, &op), RDMAD_OK);
        cr_assert_eq(op.op.outcome, RDMAD_DONE);
        cr_assert_eq(p.owner.received, i + 1, "it is done and was not received");
        cr_assert(p.owner.from == LESSEE && p.owner.number == p.link->number);
        cr_assert_eq(p.owner.size, size);
        cr_assert_eq(memcmp(p.owner.message, head, head_size), 0);
        cr_assert_eq(memcmp(p.owner.message + head_size, p.local + 3, size - head_size), 0);
    }
    pair_close(&p);
}

Test(tcp_messages, memory_of_short_ones_is_free_at_once) {
    struct pair p;
    pair_open(&p, BIG);
    struct top op;
    char head[] = "head";
    memset(p.local, 'a', BIG);
    send_prepare(&p, &op, head, 4, 0, 4096);
    op_post(&p, &op);
    memset(head, 'b', sizeof head);
    memset(p.local, 'b', BIG);
    PAIR_UNTIL(&p, op.done);
    cr_assert_eq(memcmp(p.owner.message, "heada", 5), 0);
    cr_assert_null(memchr(p.owner.message, 'b', p.owner.size));
    pair_close(&p);
}

Test(tcp_messages, too_long_ones_and_other_kinds_are_refused_alone) {
    struct pair p;
    pair_open(&p, BIG);
    struct top op;
    send_prepare(&p, &op, "h", 1, 0, p.link->max_send);
    cr_assert_eq(op_run(&p, &op), RDMAD_E_LENGTH);
    cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    send_prepare(&p, &op, "h", 1, 0, 1);
    op.op.service = RDMAD_CHANNEL_DATAGRAM;
    cr_assert_eq(op_run(&p, &op), RDMAD_E_UNSUPPORTED);
    cr_assert_eq(p.owner.received, 0);
    expect_alive(&p);
    pair_close(&p);
}

Test(tcp_messages, where_nobody_receives_are_refused_alone) {
    struct pair p;
    pair_defaults(&p, BIG);
    p.owner.env.received = NULL;
    p.owner.env.landing = NULL;
    pair_start(&p);
    struct top op;
    send_prepare(&p, &op, "h", 1, 0, 10000);
    cr_assert_eq(op_run(&p, &op), RDMAD_E_UNSUPPORTED);
    cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, 8);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    pair_close(&p);
}

/* ---- order ------------------------------------------------------------------------------- */

static struct pair *ordered;

/* The message says which write was posted before it; all of that has been placed. */
static void check_order(struct side *s) {
    uint32_t i;
    memcpy(&i, s->message, sizeof i);
    cr_assert_eq(i, s->received - 1, "out of order");
    uint8_t byte = (uint8_t)(i + 1);
    for (size_t at = 0; at < BIG; at += 1021)
        cr_assert_eq(ordered->memory[at], byte, "received before the write");
    cr_assert_eq(ordered->memory[BIG - 1], byte);
}

Test(tcp_messages, come_in_order_and_after_the_writes_before_them) {
    struct pair p;
    pair_open(&p, BIG);
    ordered = &p;
    p.owner.then = check_order;
    static struct top writes[MANY], sends[MANY];
    uint8_t *source = malloc(MANY * BIG);
    for (uint32_t i = 0; i < MANY; i++) {
        memset(source + i * BIG, (uint8_t)(i + 1), BIG);
        op_prepare(&p, &writes[i], RDMAD_OP_WRITE, 0, 0, BIG);
        writes[i].op.local = source + i * BIG;
        send_prepare(&p, &sends[i], &i, sizeof i, 0, i % 3 ? 0 : 12000);
        op_post(&p, &writes[i]);
        op_post(&p, &sends[i]);
    }
    PAIR_UNTIL(&p, sends[MANY - 1].done);
    cr_assert_eq(p.owner.received, MANY);
    free(source);
    pair_close(&p);
}

Test(tcp_messages, a_flood_of_them_says_again_and_loses_none) {
    struct pair p;
    pair_defaults(&p, BIG);
    p.lessee.settings.max_inflight = 4096;
    pair_start(&p);
    enum { COUNT = 4000 };
    static struct top ops[COUNT];
    unsigned again = 0, posted = 0;
    for (uint32_t i = 0; i < COUNT;) {
        send_prepare(&p, &ops[i], &i, sizeof i, 0, i % 5 ? 16000 : 10);
        int rc = fabric_tcp.post(p.link, &ops[i].op);
        again += rc == RDMAD_E_AGAIN;
        posted += rc == 0;
        if (rc)
            pair_turn(&p);
        else
            i++;
    }
    PAIR_UNTIL(&p, p.lessee.completed == COUNT);
    cr_assert(again > 0 && posted == COUNT && p.owner.received == COUNT);
    cr_assert_eq(ops[COUNT - 1].op.outcome, RDMAD_DONE);
    pair_close(&p);
}

/* ---- the end of one before its answer ---------------------------------------------------- */

/* A link to a raw target instead of the owner. Returns the target's end. */
static int raw_target(struct pair *p, int *listener, struct fabric_blob *offer) {
    fabric_tcp.link_close(p->link);
    *listener = raw_listen(offer);
    cr_assert_eq(link_dial(p->lessee.fabric, "127.0.0.1", offer, &p->link, NULL), 0);
    return raw_accept_link(p, *listener);
}

Test(tcp_messages, canceled_before_it_was_sent_never_comes_and_after_is_unknown) {
    struct pair p;
    pair_open(&p, BIG);
    struct top op;
    for (unsigned i = 0; i < 4; i++) {
        unsigned received = p.owner.received;
        bool sent = i % 2;
        send_prepare(&p, &op, "h", 1, 0, i / 2 ? 10000 : 1);
        op_post(&p, &op);
        if (sent)
            fabric_tcp.poll(p.lessee.fabric);
        fabric_tcp.cancel(&op.op, RDMAD_E_TIMEOUT);
        cr_assert(op.done && op.op.status == RDMAD_E_TIMEOUT);
        cr_assert_eq(op.op.outcome, sent ? RDMAD_UNKNOWN : RDMAD_FAILED_UNTOUCHED);
        for (unsigned j = 0; j < 20; j++)
            pair_turn(&p);
        cr_assert_eq(p.owner.received, received + sent);
        expect_alive(&p);
    }
    pair_close(&p);
}

/* The target sleeps, so the socket fills; then the link ends. A slow reader finds all that is said
 * to be unknown, and nothing of what is said to be untouched. */
Test(tcp_messages, of_a_link_that_ends_are_unknown_if_all_of_them_was_sent) {
    struct pair p;
    pair_defaults(&p, BIG);
    p.lessee.settings.max_inflight = 4096;
    pair_start(&p);
    struct fabric_blob offer;
    int listener, fd = raw_target(&p, &listener, &offer);
    enum { COUNT = 4000 };
    static struct top ops[COUNT];
    unsigned posted = 0, turns = 0, unknown = 0, come = 0;
    while (posted < COUNT && turns < 50) {
        send_prepare(&p, &ops[posted], &posted, sizeof posted, 0, 16000);
        if (fabric_tcp.post(p.link, &ops[posted].op)) {
            fabric_tcp.poll(p.lessee.fabric);
            turns++;
        } else {
            posted++;
        }
    }
    fabric_tcp.link_close(p.link);
    p.link = NULL;
    for (unsigned i = 0; i < posted; i++) {
        cr_assert(ops[i].done && ops[i].op.status == RDMAD_E_CANCELED);
        if (ops[i].op.outcome == RDMAD_UNKNOWN)
            cr_assert_eq(unknown++, i);
        else
            cr_assert_eq(ops[i].op.outcome, RDMAD_FAILED_UNTOUCHED);
    }
    cr_assert(unknown > 0 && unknown < posted);
    static uint8_t message[FRAME_BYTES + 4 + 16000];
    ssize_t n;
    for (size_t got = 0; (n = raw_recv_try(fd, message + got, sizeof message - got)) != 0;) {
        cr_assert(n > 0 || errno == EAGAIN);
        got += n > 0 ? (size_t)n : 0;
        if (got == sizeof message) {
            come++;
            got = 0;
        }
    }
    cr_assert_eq(come, unknown);
    close(fd);
    close(listener);
    pair_close(&p);
}

Test(tcp_messages, sent_and_unanswered_are_unknown_when_the_peer_is_lost) {
    struct pair p;
    pair_open(&p, BIG);
    struct top sent, unsent;
    send_prepare(&p, &sent, "1", 1, 0, 0);
    op_post(&p, &sent);
    fabric_tcp.poll(p.lessee.fabric);
    send_prepare(&p, &unsent, "2", 1, 0, 0);
    op_post(&p, &unsent);
    fabric_tcp.expel(p.owner.fabric, LESSEE);
    PAIR_UNTIL(&p, p.lessee.lost == 1);
    cr_assert(sent.done && sent.op.status == RDMAD_E_PEER_LOST);
    cr_assert_eq(sent.op.outcome, RDMAD_UNKNOWN);
    cr_assert(unsent.done && unsent.op.status == RDMAD_E_PEER_LOST);
    cr_assert_eq(p.owner.received, 0);
    pair_close(&p);
}

Test(tcp_messages, vanished_memory_fails_one_and_nothing_of_it_comes) {
    struct pair p;
    pair_defaults(&p, BIG);
    int fd = pair_halve(&p, &p.local);
    pair_start(&p);
    for (unsigned i = 0; i < 2; i++) {
        struct top op;
        send_prepare(&p, &op, "h", 1, BIG / 2 - 32, i ? 4000 : 64);
        cr_assert_eq(op_run(&p, &op), RDMAD_E_FAULT);
        cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
        cr_assert_eq(op.op.fault, (const void *)(p.local + BIG / 2));
        cr_assert(p.lessee.faults == i + 1 && p.owner.faults == 0);
        cr_assert_eq(p.owner.received, i);
        expect_alive(&p);
    }
    pair_close(&p);
    close(fd);
}

static struct pair *expelling;

static void expel_sender(struct side *s) {
    (void)s;
    fabric_tcp.expel(expelling->owner.fabric, LESSEE);
}

Test(tcp_messages, the_sender_may_be_expelled_from_within) {
    struct pair p;
    pair_open(&p, BIG);
    struct top ops[3];
    expelling = &p;
    p.owner.then = expel_sender;
    for (unsigned i = 0; i < 3; i++) {
        send_prepare(&p, &ops[i], "h", 1, 0, 0);
        op_post(&p, &ops[i]);
    }
    PAIR_UNTIL(&p, p.lessee.lost == 1);
    cr_assert_eq(p.owner.received, 1, "received after it was expelled");
    cr_assert(ops[0].op.outcome == RDMAD_UNKNOWN && ops[2].op.outcome == RDMAD_UNKNOWN);
    pair_close(&p);
}

Test(tcp_messages, one_that_asks_is_done_with_its_answer_and_no_other) {
    struct pair p;
    pair_open(&p, BIG);
    static struct top op[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        send_prepare(&p, &op[i], "ask", 3, 0, i % 3 ? 0 : 16384);
        op[i].op.asks = i % 2;
        op[i].op.value = 1;
        p.owner.word = UINT64_C(0x8877665544332211) + i;
        op_post(&p, &op[i]);
        if (i % 7 == 0)
            PAIR_UNTIL(&p, op[i].done);
    }
    PAIR_UNTIL(&p, op[MANY - 1].done);
    for (unsigned i = 0; i < MANY; i++) {
        cr_assert_eq(op[i].op.status, RDMAD_OK);
        if (i % 7 == 0)
            cr_assert_eq(op[i].op.value, i % 2 ? UINT64_C(0x8877665544332211) + i : UINT64_C(1),
                         "%u", i);
    }
    send_prepare(&p, &op[0], "h", 1, 0, 32768);
    op[0].op.asks = true;
    cr_assert_eq(op_run(&p, &op[0]), RDMAD_E_LENGTH, "longer ones are not for asking");
    pair_close(&p);
}

/* ---- rude peers -------------------------------------------------------------------------- */

static struct frame send_frame(uint32_t op, uint32_t length) {
    return (struct frame){.type = FRAME_SEND, .op = op, .length = length};
}

Test(tcp_messages, a_malformed_one_ends_that_connection_only) {
    struct pair p;
    pair_open(&p, BIG);
    struct frame bad[7];
    for (unsigned i = 0; i < 7; i++)
        bad[i] = send_frame(0, 8);
    bad[0].length = FRAME_MAX_SEND + 1;
    bad[1].length = UINT32_MAX;
    bad[2].offset = 8;
    bad[3].slot = 1;
    bad[4].key = 1;
    bad[5].flags = 2;
    bad[6].op = 1;
    for (unsigned i = 0; i < 7; i++) {
        int fd = raw_dial_as(&p, STRANGE);
        uint8_t zeros[64] = {0};
        unsigned received = p.owner.received;
        raw_frame(&p, fd, &bad[i]);
        if (bad[i].length <= sizeof zeros)
            (void)raw_send_try(fd, zeros, bad[i].length);
        cr_assert(raw_closed(&p, fd), "frame %u", i);
        close(fd);
        cr_assert_eq(p.owner.received, received, "frame %u", i);
        expect_alive(&p);
    }
    pair_close(&p);
}

/* Byte by byte, and behind a bulky write, after which little is read ahead. */
Test(tcp_messages, one_that_trickles_in_is_received_whole) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    uint8_t *bytes = malloc(BIG);
    random_fill(bytes, BIG, 4);
    struct frame f = raw_request(&p.key, FRAME_WRITE, 0, 0, BIG);
    raw_frame(&p, fd, &f);
    raw_send(&p, fd, bytes, BIG);
    f = send_frame(1, FRAME_MAX_SEND);
    raw_frame(&p, fd, &f);
    for (unsigned at = 0; at < FRAME_MAX_SEND; at++) {
        cr_assert_eq(p.owner.received, 0, "before it was whole");
        raw_send(&p, fd, bytes + at, 1);
    }
    PAIR_UNTIL(&p, p.owner.received == 1);
    cr_assert_eq(p.owner.size, FRAME_MAX_SEND);
    cr_assert_eq(memcmp(p.owner.message, bytes, FRAME_MAX_SEND), 0);
    f = raw_answer(&p, fd);
    cr_assert(f.type == FRAME_ACK && f.op == 0);
    if (f.length == 1)
        f = raw_answer(&p, fd);
    free(bytes);
    close(fd);
    pair_close(&p);
}

Test(tcp_messages, half_a_message_is_nobodys) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    struct frame f = send_frame(0, 5000);
    uint8_t bytes[4999] = {0};
    raw_frame(&p, fd, &f);
    raw_send(&p, fd, bytes, sizeof bytes);
    close(fd);
    for (unsigned i = 0; i < 100; i++)
        pair_turn(&p);
    cr_assert_eq(p.owner.received, 0);
    expect_alive(&p);
    pair_close(&p);
}

/* What lies in the socket is taken in turns, and each takes a bounded number. Bulky writes make the
 * kernel offer a wide window first. */
Test(tcp_messages, a_flood_of_empty_ones_ends_each_turn) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, LESSEE);
    enum { WRITES = 100, COUNT = 200000 };
    uint8_t *bytes = calloc(COUNT, FRAME_BYTES);
    for (uint32_t i = 0; i < WRITES; i++) {
        struct frame f = raw_request(&p.key, FRAME_WRITE, i, 0, BIG);
        raw_frame(&p, fd, &f);
        raw_send(&p, fd, bytes, BIG);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        struct frame f = send_frame(WRITES + i, 0);
        frame_put(bytes + (size_t)i * FRAME_BYTES, &f);
    }
    size_t sent = 0, most = 0, total = (size_t)COUNT * FRAME_BYTES;
    while (sent < total) {
        ssize_t n;
        while (sent < total && (n = raw_send_try(fd, bytes + sent, total - sent)) > 0)
            sent += (size_t)n;
        unsigned before = p.owner.received;
        fabric_tcp.poll(p.owner.fabric);
        if (p.owner.received - before > most)
            most = p.owner.received - before;
    }
    PAIR_UNTIL(&p, p.owner.received == COUNT);
    cr_assert(most < 16384, "%zu messages in one turn", most);
    free(bytes);
    close(fd);
    expect_alive(&p);
    pair_close(&p);
}

Test(tcp_messages, an_answer_that_fits_no_send_loses_the_link) {
    static const struct frame bad[] = {
        {.type = FRAME_DATA, .flags = FRAME_FINAL, .op = 0, .length = 1},
        {.type = FRAME_DATA, .flags = FRAME_FINAL, .op = 0, .length = 8},
        {.type = FRAME_STATUS, .op = 0, .status = 0},
        {.type = FRAME_ACK, .op = 0, .length = 2},
    };
    struct pair p;
    pair_open(&p, BIG);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct fabric_blob offer;
        int listener, fd = raw_target(&p, &listener, &offer);
        cr_assert_eq(p.link->number, RAW_NUMBER);
        struct top op;
        uint8_t got[FRAME_BYTES + 1], zeros[8] = {0};
        send_prepare(&p, &op, "h", 1, 0, 0);
        op_post(&p, &op);
        raw_recv(&p, fd, got, sizeof got);
        unsigned lost = p.lessee.lost;
        raw_frame(&p, fd, &bad[i]);
        (void)raw_send_try(fd, zeros, bad[i].type == FRAME_DATA ? bad[i].length : 0);
        PAIR_UNTIL(&p, p.lessee.lost == lost + 1);
        cr_assert_eq(p.lessee.why.code, RDMAD_E_PROTOCOL, "answer %u", i);
        cr_assert(op.done && op.op.outcome == RDMAD_UNKNOWN);
        close(fd);
        close(listener);
    }
    pair_close(&p);
}

/* ---- whose they are ---------------------------------------------------------------------- */

Test(tcp_messages, tell_by_which_connection_they_came) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_link *first = p.link;
    struct fabric_link *second = pair_dial(&p, LESSEE), *other = pair_dial(&p, STRANGE);
    cr_assert(first->number != second->number && second->number != other->number);
    struct top op;
    p.link = second;
    expect_alive(&p);
    cr_assert(p.owner.from == LESSEE && p.owner.number == second->number);
    p.link = other;
    send_prepare(&p, &op, "h", 1, 0, 0);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    cr_assert(p.owner.from == STRANGE && p.owner.number == other->number);
    p.link = first;
    expect_alive(&p);
    cr_assert_eq(p.owner.number, first->number);
    fabric_tcp.link_close(second);
    fabric_tcp.link_close(other);
    pair_close(&p);
}

/* ---- however the stream is cut ------------------------------------------------------------- */

#define FRAMES 40u
#define LONGEST ((size_t)80 << 10)

/* Requests of all kinds, one behind the other, and what the owner must make of them. */
struct stream {
    uint8_t *bytes, *answers, *model;
    size_t size, sent, answered;
    uint64_t seed;
    const uint8_t *messages[FRAMES]; /* of the stream, in order */
    uint32_t lengths[FRAMES];
    unsigned count;
};
static struct stream stream;

static uint32_t length_below(uint32_t most) {
    static const uint32_t near[] = {0, 1, 2048, 4064, 4096, 16384, 16640, 65536};
    uint32_t n = near[random_next(&stream.seed) % 8] + (uint32_t)random_next(&stream.seed) % 70;
    return random_next(&stream.seed) % 3 ? (uint32_t)random_next(&stream.seed) % (most + 1)
           : n < most                    ? n
                                         : most;
}

static void add_request(const struct pair *p, uint32_t op) {
    static const uint8_t types[] = {FRAME_SEND, FRAME_WRITE, FRAME_VOID, FRAME_READ};
    uint8_t type = types[random_next(&stream.seed) % 4];
    uint32_t length = length_below(type == FRAME_SEND ? FRAME_MAX_SEND : LONGEST);
    uint64_t at = random_next(&stream.seed) % (BIG - LONGEST);
    struct frame f = {.type = type, .op = op, .length = length};
    if (type == FRAME_WRITE || type == FRAME_READ)
        f = raw_request(&p->key, type, op, at, length);
    frame_put(stream.bytes + stream.size, &f);
    uint8_t *payload = stream.bytes + stream.size + FRAME_BYTES;
    stream.size += FRAME_BYTES + (type == FRAME_READ ? 0 : length);
    if (type != FRAME_READ)
        random_fill(payload, length, random_next(&stream.seed));
    if (type == FRAME_WRITE)
        memcpy(stream.model + at, payload, length);
    if (type == FRAME_SEND) {
        stream.messages[stream.count] = payload;
        stream.lengths[stream.count++] = length;
    }
}

static void is_next(struct side *s) {
    unsigned n = s->received - 1;
    cr_assert(n < stream.count && s->size == stream.lengths[n]);
    cr_assert_eq(memcmp(s->message, stream.messages[n], s->size), 0);
}

/* Some more of the requests, and whatever was answered. */
static void move(struct pair *p, int fd) {
    size_t left = stream.size - stream.sent, n = 1 + random_next(&stream.seed) % 40000;
    if (random_next(&stream.seed) % 4 == 0)
        n = 1 + n % 40;
    ssize_t sent = raw_send_try(fd, stream.bytes + stream.sent, n < left ? n : left);
    stream.sent += sent > 0 ? (size_t)sent : 0;
    for (unsigned turns = (unsigned)random_next(&stream.seed) % 3; turns > 0; turns--)
        pair_turn(p);
    ssize_t got = raw_recv_try(fd, stream.answers + stream.answered, 20000);
    cr_assert(got > 0 || (got < 0 && errno == EAGAIN), "it was closed");
    stream.answered += got > 0 ? (size_t)got : 0;
}

/* How many requests are answered, in order and well. */
static uint32_t answered(void) {
    uint32_t op = 0;
    for (size_t at = 0; at + FRAME_BYTES <= stream.answered; at += FRAME_BYTES) {
        struct frame f;
        frame_get(&f, stream.answers + at);
        cr_assert_eq(f.status, RDMAD_OK);
        cr_assert_eq(f.op, op);
        op += f.type == FRAME_ACK ? f.length : f.type == FRAME_STATUS || f.flags & FRAME_FINAL;
        at += f.type == FRAME_DATA ? f.length : 0;
        if (at + FRAME_BYTES > stream.answered)
            return 0;
    }
    return op;
}

Test(tcp_messages, among_other_requests_mean_the_same_however_the_stream_is_cut) {
    struct pair p;
    pair_open(&p, BIG);
    p.owner.then = is_next;
    stream.model = calloc(1, BIG);
    stream.bytes = malloc(FRAMES * (FRAME_BYTES + LONGEST));
    stream.answers = malloc(FRAMES * (2 * FRAME_BYTES + LONGEST) + 20000);
    for (uint64_t seed = 1; seed <= 100; seed++) {
        int fd = raw_dial_as(&p, LESSEE);
        stream.seed = seed;
        stream.size = stream.sent = stream.answered = 0;
        stream.count = p.owner.received = 0;
        for (uint32_t op = 0; op < FRAMES; op++)
            add_request(&p, op);
        PAIR_UNTIL(&p, (move(&p, fd), stream.sent == stream.size && answered() == FRAMES));
        cr_assert_eq(p.owner.received, stream.count);
        cr_assert_eq(memcmp(p.memory, stream.model, BIG), 0, "seed %lu", (unsigned long)seed);
        cr_assert_leq(raw_largest_recv, BIG, "more is read than there is room for");
        close(fd);
    }
    p.owner.then = NULL;
    free(stream.model);
    free(stream.bytes);
    free(stream.answers);
    pair_close(&p);
}
