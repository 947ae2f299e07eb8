/* SPDX-License-Identifier: MIT */
/*
 * SENDs with a payload that lands: it is received where the head's taker says and nowhere else, not
 * before all of it has come is it a message, and letting go of either end's memory is immediate.
 */
#include "tests/unit/tcp_raw.h"
#include <sys/mman.h>
#include <unistd.h>

#define BIG ((size_t)256 << 10)
#define LONG ((size_t)60000)

static void expect_alive(struct pair *p) {
    struct top op;
    unsigned received = p->owner.received;
    send_prepare(p, &op, "alive", 5, 0, 0);
    cr_assert_eq(op_run(p, &op), RDMAD_OK);
    cr_assert_eq(p->owner.received, received + 1);
    cr_assert_eq(p->lessee.lost, 0);
    p->owner.nowhere = false;
    send_prepare(p, &op, "long", 4, 0, LONG);
    cr_assert_eq(op_run(p, &op), RDMAD_OK);
    cr_assert_eq(p->owner.received, received + 2);
}

Test(tcp_long, lands_where_its_head_s_taker_says) {
    struct pair p;
    pair_open(&p, BIG);
    random_fill(p.local, BIG, 1);
    memset(p.memory, 0x55, BIG);
    p.owner.at = p.memory + 4099;
    const size_t sizes[] = {16385, 20000, 32768, 65000, FRAME_MAX_LONG - 4};
    struct top op;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        send_prepare(&p, &op, "head", 4, i, sizes[i]);
        cr_assert_eq(op_run(&p, &op), RDMAD_OK);
        cr_assert_eq(op.op.outcome, RDMAD_DONE);
        cr_assert_eq(p.owner.received, i + 1, "it is done and was not received");
        cr_assert(p.owner.landings == i + 1 && p.owner.from == LESSEE &&
                  p.owner.number == p.link->number);
        cr_assert(p.owner.size == sizes[i] + 4 && !memcmp(p.owner.message, "head", 4));
        cr_assert_eq(memcmp(p.memory + 4099, p.local + i, sizes[i]), 0);
        cr_assert_eq(p.memory[4098], 0x55);
        cr_assert_eq(p.memory[4099 + sizes[i]], 0x55);
    }
    pair_close(&p);
}

Test(tcp_long, that_nobody_wants_goes_nowhere) {
    struct pair p;
    pair_open(&p, BIG);
    struct top op;
    p.owner.nowhere = true;
    send_prepare(&p, &op, "head", 4, 0, LONG);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    cr_assert(p.owner.landings == 1 && p.owner.received == 0 && p.owner.lost_landings == 0);
    expect_alive(&p);
    pair_close(&p);
}

/* ---- by hand: as much of one as a test wants ----------------------------------------------- */

static struct frame long_frame(uint32_t op, uint32_t head, size_t payload) {
    return (struct frame){
        .type = FRAME_LONG, .op = op, .slot = head, .length = head + (uint32_t)payload};
}

/* A peer that has sent the head and some of the payload, which is 'x'. */
static int begin(struct pair *p, size_t some) {
    static uint8_t bytes[LONG];
    int fd = raw_dial_as(p, STRANGE);
    unsigned landings = p->owner.landings;
    struct frame f = long_frame(0, 4, LONG);
    memset(bytes, 'x', sizeof bytes);
    raw_frame(p, fd, &f);
    raw_send(p, fd, "head", 4);
    raw_send(p, fd, bytes, some);
    PAIR_UNTIL(p, p->owner.landings == landings + 1);
    for (unsigned i = 0; i < 50; i++)
        pair_turn(p);
    return fd;
}

static void finish(struct pair *p, int fd, size_t rest, uint8_t flags) {
    static uint8_t bytes[LONG];
    struct frame f = {.type = FRAME_END, .op = 0, .flags = flags};
    memset(bytes, 'y', sizeof bytes);
    raw_send(p, fd, bytes, rest);
    raw_frame(p, fd, &f);
}

Test(tcp_long, is_no_message_before_its_end) {
    struct pair p;
    pair_open(&p, BIG);
    p.owner.at = p.memory;
    int fd = begin(&p, LONG);
    cr_assert(p.owner.received == 0 && p.owner.under_way);
    cr_assert(p.memory[0] == 'x' && p.memory[LONG - 1] == 'x');
    finish(&p, fd, 0, FRAME_WHOLE);
    PAIR_UNTIL(&p, p.owner.received == 1);
    struct frame f = raw_answer(&p, fd);
    cr_assert(f.type == FRAME_ACK && f.op == 0 && f.length == 1);
    close(fd);
    pair_close(&p);
}

Test(tcp_long, whose_end_says_that_it_is_none_is_none) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = begin(&p, 1000);
    finish(&p, fd, LONG - 1000, 0);
    PAIR_UNTIL(&p, !p.owner.under_way);
    cr_assert(p.owner.received == 0 && p.owner.landed == RDMAD_E_PEER_LOST);
    struct frame f = raw_answer(&p, fd);
    cr_assert(f.type == FRAME_ACK && f.op == 0);
    p.owner.at = NULL;
    expect_alive(&p);
    close(fd);
    pair_close(&p);
}

Test(tcp_long, is_abandoned_at_once) {
    for (size_t some = 0; some <= LONG; some += LONG / 4) {
        struct pair p;
        pair_open(&p, BIG);
        p.owner.at = p.memory;
        int fd = begin(&p, some);
        fabric_tcp.abandon(&p.owner.landing);
        p.owner.under_way = false;
        memset(p.memory, 0x55, BIG);
        finish(&p, fd, LONG - some, FRAME_WHOLE);
        struct frame f = raw_answer(&p, fd); /* the connection lives */
        cr_assert(f.type == FRAME_ACK && f.op == 0);
        for (size_t i = 0; i < LONG; i++)
            cr_assert_eq(p.memory[i], 0x55, "written after it was abandoned");
        cr_assert(p.owner.received == 0 && p.owner.lost_landings == 0);
        p.owner.at = NULL;
        expect_alive(&p);
        close(fd);
        pair_close(&p);
    }
}

Test(tcp_long, of_a_connection_that_breaks_is_none) {
    for (unsigned how = 0; how < 3; how++) {
        struct pair p;
        pair_open(&p, BIG);
        int fd = begin(&p, how ? 1000 : LONG);
        if (how == 1)
            fabric_tcp.expel(p.owner.fabric, STRANGE);
        else
            close(fd);
        PAIR_UNTIL(&p, !p.owner.under_way);
        cr_assert(p.owner.received == 0 && p.owner.landed == RDMAD_E_PEER_LOST);
        if (how == 1)
            close(fd);
        expect_alive(&p);
        pair_close(&p);
    }
}

Test(tcp_long, malformed_ends_that_connection_only) {
    struct pair p;
    pair_open(&p, BIG);
    struct frame bad[12];
    for (unsigned i = 0; i < 12; i++)
        bad[i] = long_frame(0, 8, 8);
    bad[0].slot = FRAME_MAX_HEAD + 1;
    bad[0].length = 2 * FRAME_MAX_HEAD;
    bad[1].slot = 16; /* no payload */
    bad[2].slot = UINT32_MAX;
    bad[3].length = FRAME_MAX_LONG + 1;
    bad[4].length = UINT32_MAX;
    bad[5].key = 1;
    bad[6].offset = 1;
    bad[7].flags = FRAME_WHOLE;
    bad[8].op = 1;
    bad[9] = (struct frame){.type = FRAME_END, .flags = FRAME_WHOLE}; /* of nothing */
    bad[10] = (struct frame){.type = FRAME_END, .length = 8};
    bad[11] = (struct frame){.type = FRAME_END, .flags = 2};
    for (unsigned i = 0; i < 12; i++) {
        int fd = raw_dial_as(&p, STRANGE);
        uint8_t zeros[64] = {0};
        unsigned landings = p.owner.landings;
        raw_frame(&p, fd, &bad[i]);
        (void)raw_send_try(fd, zeros, 16);
        cr_assert(raw_closed(&p, fd), "frame %u", i);
        close(fd);
        cr_assert_eq(p.owner.landings, landings, "frame %u", i);
        expect_alive(&p);
    }
    pair_close(&p);
}

/* Whatever comes instead of its END, the connection ends and it was no message. */
Test(tcp_long, is_followed_by_nothing_but_its_end) {
    struct pair p;
    pair_open(&p, BIG);
    const struct frame bad[] = {{.type = FRAME_SEND, .op = 1},
                                {.type = FRAME_VOID, .op = 1, .length = 100000},
                                {.type = FRAME_LONG, .op = 1, .slot = 4, .length = 50000},
                                {.type = FRAME_END, .op = 1, .flags = FRAME_WHOLE}};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        int fd = begin(&p, LONG);
        unsigned lost = p.owner.lost_landings, received = p.owner.received;
        raw_frame(&p, fd, &bad[i]);
        (void)raw_send_try(fd, "head", 4);
        cr_assert(raw_closed(&p, fd), "frame %u", i);
        cr_assert(p.owner.lost_landings == lost + 1 && p.owner.received == received);
        close(fd);
        expect_alive(&p);
    }
    pair_close(&p);
}

/* The END ends one message, not two. */
Test(tcp_long, has_one_end) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = begin(&p, LONG);
    finish(&p, fd, 0, FRAME_WHOLE);
    PAIR_UNTIL(&p, p.owner.received == 1);
    finish(&p, fd, 0, FRAME_WHOLE);
    cr_assert(raw_closed(&p, fd));
    cr_assert_eq(p.owner.received, 1);
    close(fd);
    pair_close(&p);
}

Test(tcp_long, comes_as_it_is_however_it_trickles_in) {
    struct pair p;
    pair_open(&p, BIG);
    static uint8_t bytes[5000];
    random_fill(bytes, sizeof bytes, 3);
    int fd = raw_dial_as(&p, STRANGE);
    struct frame f = long_frame(0, 200, 4800), end = {.type = FRAME_END, .flags = FRAME_WHOLE};
    uint8_t header[FRAME_BYTES];
    frame_put(header, &f);
    for (unsigned i = 0; i < FRAME_BYTES; i++)
        raw_send(&p, fd, header + i, 1);
    for (unsigned i = 0; i < sizeof bytes; i++) {
        raw_send(&p, fd, bytes + i, 1);
        pair_turn(&p);
        cr_assert_eq(p.owner.landings, i >= 199);
    }
    frame_put(header, &end);
    for (unsigned i = 0; i < FRAME_BYTES; i++) {
        cr_assert_eq(p.owner.received, 0);
        raw_send(&p, fd, header + i, 1);
        pair_turn(&p);
    }
    PAIR_UNTIL(&p, p.owner.received == 1);
    cr_assert_eq(memcmp(p.owner.message, bytes, sizeof bytes), 0);
    close(fd);
    pair_close(&p);
}

/* ---- the sender lets go --------------------------------------------------------------------- */

static void expect_intact(struct side *s) {
    cr_assert_null(memchr(s->message, 'b', s->size), "read after it was canceled");
    cr_assert_null(memchr(s->message, 0, s->size), "a cut one was received");
}

/* The target sleeps until the socket is full, so that some LONG is half sent. */
Test(tcp_long, canceled_half_sent_is_received_by_nobody) {
    struct pair p;
    pair_defaults(&p, BIG);
    p.lessee.settings.max_inflight = 4096;
    pair_start(&p);
    enum { COUNT = 400 };
    static struct top ops[COUNT];
    unsigned posted = 0, unknown = 0;
    memset(p.local, 'a', BIG);
    for (unsigned full = 0; posted < COUNT && full < 20;) {
        send_prepare(&p, &ops[posted], "h", 1, 0, LONG);
        if (fabric_tcp.post(p.link, &ops[posted].op)) {
            fabric_tcp.poll(p.lessee.fabric);
            full++;
        } else {
            posted++;
        }
    }
    for (unsigned i = posted; i-- > 0;) {
        fabric_tcp.cancel(&ops[i].op, RDMAD_E_TIMEOUT);
        cr_assert(ops[i].done && ops[i].op.status == RDMAD_E_TIMEOUT);
        unknown += ops[i].op.outcome == RDMAD_UNKNOWN;
        cr_assert(ops[i].op.outcome == RDMAD_UNKNOWN || unknown == 0);
    }
    cr_assert(unknown > 0 && unknown < posted);
    memset(p.local, 'b', BIG);
    p.owner.then = expect_intact;
    for (unsigned i = 0; i < 2000; i++)
        pair_turn(&p);
    p.owner.then = NULL;
    cr_assert_eq(p.owner.received, unknown);
    cr_assert_eq(p.owner.lost_landings, 1, "the one that was half sent");
    expect_alive(&p);
    pair_close(&p);
}

Test(tcp_long, whose_source_vanishes_fails_and_is_received_by_nobody) {
    struct pair p;
    pair_defaults(&p, BIG);
    int fd = pair_halve(&p, &p.local);
    pair_start(&p);
    struct top op, behind;
    send_prepare(&p, &op, "h", 1, BIG / 2 - 20000, LONG);
    op_post(&p, &op);
    send_prepare(&p, &behind, "behind", 6, 0, LONG);
    cr_assert_eq(op_run(&p, &behind), RDMAD_OK);
    cr_assert(op.done && op.op.status == RDMAD_E_FAULT);
    cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert(p.lessee.faults == 1 && p.owner.faults == 0);
    cr_assert_eq(p.owner.received, 1);
    expect_alive(&p);
    pair_close(&p);
    close(fd);
}

Test(tcp_long, whose_landing_vanishes_fails_there_alone) {
    struct pair p;
    pair_defaults(&p, BIG);
    int fd = pair_halve(&p, &p.memory);
    pair_start(&p);
    struct top op;
    p.owner.at = p.memory + BIG / 2 - 20000;
    send_prepare(&p, &op, "h", 1, 0, LONG);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    cr_assert(p.owner.faults == 1 && p.lessee.faults == 0);
    cr_assert(p.owner.received == 0 && p.owner.landed == RDMAD_E_FAULT);
    p.owner.at = NULL;
    expect_alive(&p);
    pair_close(&p);
    close(fd);
}
