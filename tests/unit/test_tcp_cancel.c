/* SPDX-License-Identifier: MIT */
/*
 * cancel and link_close let go of memory at once and tell truly what became of the op; memory that
 * vanishes fails its op and nothing else.
 */
#include "tests/unit/tcp_raw.h"
#include <sys/mman.h>
#include <unistd.h>

#define BIG ((size_t)256 << 10)
#define MANY 64u

static void cancel(struct top *op) {
    fabric_tcp.cancel(&op->op, RDMAD_E_TIMEOUT);
    cr_assert(op->done, "cancel did not complete the op");
    cr_assert_eq(op->op.status, RDMAD_E_TIMEOUT);
}

/* The link still works and has nothing left over. */
static void expect_alive(struct pair *p) {
    struct top op;
    op_prepare(p, &op, RDMAD_OP_READ, 0, 0, 8);
    cr_assert_eq(op_run(p, &op), RDMAD_OK);
    cr_assert_eq(p->lessee.lost, 0);
}

Test(tcp_cancel, what_was_not_sent_never_happens) {
    struct pair p;
    pair_open(&p, BIG);
    static const uint64_t sizes[] = {0, 64, 2048, 2049, BIG};
    for (unsigned i = 0; i < 10; i++) {
        int opcode = i % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE;
        struct top op;
        memset(p.local, 0x44, BIG);
        op_prepare(&p, &op, opcode, 0, 0, sizes[i / 2]);
        op_post(&p, &op);
        cancel(&op);
        cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
        expect_alive(&p);
        cr_assert_eq(p.memory[0], 0);
        cr_assert_eq(p.memory[BIG - 1], 0);
        cr_assert_eq(p.local[BIG - 1], 0x44);
    }
    pair_close(&p);
}

/* Writes fill the socket while the target sleeps; then all are canceled and their memory reused. */
Test(tcp_cancel, every_stage_of_a_write_has_its_outcome) {
    struct pair p;
    pair_defaults(&p, MANY * BIG);
    p.lessee.settings.send_buffer_bytes = UINT64_C(1) << 40;
    pair_start(&p);
    static struct top ops[MANY];
    random_fill(p.local, p.bytes, 5);
    uint8_t *sent = malloc(p.bytes);
    memcpy(sent, p.local, p.bytes);
    for (unsigned i = 0; i < MANY; i++) {
        op_prepare(&p, &ops[i], RDMAD_OP_WRITE, i * BIG, i * BIG, BIG);
        cr_assert_eq(fabric_tcp.post(p.link, &ops[i].op), 0);
    }
    for (unsigned i = 0; i < 50; i++)
        fabric_tcp.poll(p.lessee.fabric);
    unsigned seen[4] = {0};
    int last = RDMAD_UNKNOWN; /* sent, then half sent, then not sent */
    for (unsigned i = 0; i < MANY; i++) {
        cancel(&ops[i]);
        seen[ops[i].op.outcome]++;
        cr_assert(ops[i].op.outcome <= last);
        last = ops[i].op.outcome;
    }
    cr_assert(seen[RDMAD_UNKNOWN] > 0 && seen[RDMAD_FAILED_UNTOUCHED] > 0);
    cr_assert(seen[RDMAD_FAILED_PARTIAL] <= 1);
    memset(p.local, 0, p.bytes);
    expect_alive(&p);
    for (unsigned i = 0; i < MANY; i++) {
        bool untouched = ops[i].op.outcome == RDMAD_FAILED_UNTOUCHED;
        for (unsigned j = 0; untouched && j < BIG; j++)
            cr_assert_eq(p.memory[i * BIG + j], 0);
        if (!untouched) /* unknown to the caller, but it ends as it began */
            cr_assert_eq(memcmp(p.memory + i * BIG, sent + i * BIG, BIG), 0, "op %u", i);
    }
    free(sent);
    pair_close(&p);
}

Test(tcp_cancel, a_canceled_read_never_writes_again) {
    struct pair p;
    pair_open(&p, 16 * BIG);
    unsigned untouched = 0;
    for (unsigned round = 0; round < 40; round++) {
        struct top ops[16];
        memset(p.memory, 0x55, p.bytes);
        memset(p.local, 0, p.bytes);
        for (unsigned i = 0; i < 16; i++) {
            op_prepare(&p, &ops[i], RDMAD_OP_READ, i * BIG, i * BIG, round % 4 ? BIG : 2000);
            op_post(&p, &ops[i]);
        }
        fabric_tcp.poll(p.lessee.fabric);
        for (unsigned i = 0; i < round % 3; i++)
            pair_turn(&p);
        for (unsigned i = 0; i < 16; i++) {
            if (ops[i].done)
                continue;
            cancel(&ops[i]);
            untouched += ops[i].op.outcome == RDMAD_FAILED_UNTOUCHED;
            if (ops[i].op.outcome == RDMAD_FAILED_UNTOUCHED)
                cr_assert_null(memchr(ops[i].op.local, 0x55, ops[i].op.length));
        }
        memset(p.local, 0x66, p.bytes);
        expect_alive(&p);
        memset(p.local, 0x66, 8); /* the living read's own */
        cr_assert_null(memchr(p.local, 0x55, p.bytes), "round %u", round);
    }
    cr_assert(untouched > 0);
    pair_close(&p);
}

/* The target answers half of a READ and stalls. */
Test(tcp_cancel, a_read_of_which_some_has_come_is_partial) {
    struct pair p;
    pair_open(&p, BIG);
    fabric_tcp.link_close(p.link);
    struct fabric_blob offer;
    int listener = raw_listen(&offer);
    cr_assert_eq(link_dial(p.lessee.fabric, "127.0.0.1", &offer, &p.link, NULL), 0);
    int fd = raw_accept_link(&p, listener);
    struct top op;
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, BIG);
    op_post(&p, &op);
    struct frame request = raw_answer(&p, fd);
    uint8_t *data = malloc(BIG);
    memset(data, 0x55, BIG);
    struct frame f = {.type = FRAME_DATA, .op = request.op, .length = BIG};
    raw_frame(&p, fd, &f);
    raw_send(&p, fd, data, 1000);
    PAIR_UNTIL(&p, p.local[999] == 0x55);
    cancel(&op);
    cr_assert_eq(op.op.outcome, RDMAD_FAILED_PARTIAL);
    memset(p.local, 0, BIG);
    raw_send(&p, fd, data, BIG - 1000);
    f = (struct frame){.type = FRAME_STATUS, .op = request.op};
    raw_frame(&p, fd, &f);
    for (unsigned i = 0; i < 100; i++)
        pair_turn(&p);
    cr_assert_null(memchr(p.local, 0x55, BIG));
    cr_assert_eq(p.lessee.lost, 0);
    free(data);
    close(fd);
    close(listener);
    pair_close(&p);
}

Test(tcp_cancel, link_close_gives_every_op_back_before_it_returns) {
    struct pair p;
    pair_open(&p, MANY * BIG);
    static struct top ops[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        op_prepare(&p, &ops[i], i % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE, i * BIG, i * BIG,
                   i % 3 ? 100000 : 64);
        op_post(&p, &ops[i]);
    }
    fabric_tcp.poll(p.lessee.fabric);
    fabric_tcp.link_close(p.link);
    p.link = NULL;
    for (unsigned i = 0; i < MANY; i++) {
        cr_assert(ops[i].done);
        cr_assert(ops[i].op.status == RDMAD_E_CANCELED || ops[i].op.status == RDMAD_OK);
    }
    for (unsigned i = 0; i < 20; i++)
        pair_turn(&p);
    cr_assert_eq(p.lessee.lost, 0, "link_lost after link_close");
    pair_close(&p);
}

/* ---- memory that vanishes ---------------------------------------------------------------- */

static const uint64_t fault_sizes[] = {64, 2048, 2049, 100000, BIG};

Test(tcp_cancel, the_owners_vanished_memory_fails_the_op_and_names_the_place) {
    struct pair p;
    pair_defaults(&p, 4 * BIG);
    int fd = pair_halve(&p, &p.memory);
    pair_start(&p);
    for (unsigned i = 0; i < 10; i++) {
        uint64_t n = fault_sizes[i / 2];
        struct top op;
        op_prepare(&p, &op, i % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE, 0, p.bytes / 2 - 32, n);
        unsigned faults = p.owner.faults;
        cr_assert_eq(op_run(&p, &op), RDMAD_E_FAULT, "%lu bytes", (unsigned long)n);
        cr_assert_neq(op.op.outcome, RDMAD_DONE);
        cr_assert_null(op.op.fault, "the lessee is blamed for the owner's memory");
        cr_assert(p.owner.faults > faults);
        const uint8_t *at = p.owner.fault_address;
        cr_assert(at >= p.memory && at < p.memory + p.bytes);
        expect_alive(&p);
    }
    cr_assert_eq(p.lessee.faults, 0);
    pair_close(&p);
    close(fd);
}

Test(tcp_cancel, the_lessees_vanished_memory_fails_the_op_and_names_the_place) {
    struct pair p;
    pair_defaults(&p, 4 * BIG);
    int fd = pair_halve(&p, &p.local);
    pair_start(&p);
    for (unsigned i = 0; i < 10; i++) {
        uint64_t n = fault_sizes[i / 2];
        struct top op, neighbour;
        op_prepare(&p, &op, i % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE, p.bytes / 2 - 32, BIG, n);
        op_prepare(&p, &neighbour, RDMAD_OP_WRITE, 0, 0, 100000);
        unsigned faults = p.lessee.faults;
        op_post(&p, &op);
        op_post(&p, &neighbour);
        PAIR_UNTIL(&p, op.done && neighbour.done);
        cr_assert_eq(op.op.status, RDMAD_E_FAULT, "%lu bytes", (unsigned long)n);
        cr_assert_neq(op.op.outcome, RDMAD_DONE);
        const uint8_t *at = op.op.fault;
        cr_assert(at >= p.local && at < p.local + p.bytes);
        cr_assert(p.lessee.faults > faults);
        cr_assert_eq(neighbour.op.status, RDMAD_OK);
        cr_assert_eq(memcmp(p.memory, p.local, 100000), 0);
        expect_alive(&p);
    }
    cr_assert_eq(p.owner.faults, 0);
    pair_close(&p);
    close(fd);
}

Test(tcp_cancel, a_canceled_question_is_not_answered_in_anothers_place) {
    struct pair p;
    pair_open(&p, 65536);
    struct top op[3];
    p.owner.word = 42;
    for (unsigned i = 0; i < 3; i++) {
        send_prepare(&p, &op[i], "ask", 3, 0, 0);
        op[i].op.asks = true;
        op_post(&p, &op[i]);
    }
    fabric_tcp.cancel(&op[1].op, RDMAD_E_CANCELED);
    PAIR_UNTIL(&p, op[0].done && op[2].done);
    cr_assert_eq(op[0].op.value, 42);
    cr_assert_eq(op[1].op.status, RDMAD_E_CANCELED);
    cr_assert_eq(op[1].op.outcome, RDMAD_FAILED_UNTOUCHED, "nothing of it was sent");
    cr_assert_eq(op[2].op.value, 42);
    pair_close(&p);
}
