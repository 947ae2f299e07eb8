/* SPDX-License-Identifier: MIT */
/*
 * READ and WRITE do what they say, byte for byte, and a refused op fails alone.
 */
#include "tests/unit/tcp_pair.h"
#include <poll.h>

#define MIB ((size_t)1 << 20)

static const uint64_t sizes[] = {0,    1,    2,    63,    64,    65,    2047,   2048,
                                 2049, 4096, 4097, 65535, 65536, 65537, 262143, 262144};
#define SIZES (sizeof sizes / sizeof *sizes)

Test(tcp_ops, every_size_lands_byte_for_byte_and_nothing_beside_it) {
    struct pair p;
    pair_open(&p, MIB);
    for (size_t i = 0; i < SIZES; i++) {
        for (int opcode = RDMAD_OP_READ; opcode <= RDMAD_OP_WRITE; opcode++) {
            size_t n = sizes[i], from = 3 + i, to = 4096 + 5 * i;
            uint8_t *source = opcode == RDMAD_OP_WRITE ? p.local + from : p.memory + to;
            uint8_t *dest = opcode == RDMAD_OP_WRITE ? p.memory + to : p.local + from;
            uint8_t *whole = opcode == RDMAD_OP_WRITE ? p.memory : p.local;
            random_fill(p.local, MIB, i);
            random_fill(p.memory, MIB, i + 100);
            uint8_t *expected = malloc(MIB);
            memcpy(expected, whole, MIB);
            memcpy(expected + (dest - whole), source, n);
            struct top op;
            op_prepare(&p, &op, opcode, from, to, n);
            cr_assert_eq(op_run(&p, &op), RDMAD_OK);
            cr_assert_eq(op.op.outcome, RDMAD_DONE);
            cr_assert_eq(memcmp(whole, expected, MIB), 0, "%zu bytes, opcode %d", n, opcode);
            free(expected);
        }
    }
    pair_close(&p);
}

Test(tcp_ops, max_message_is_moved_and_more_is_refused_alone) {
    struct pair p;
    pair_open(&p, 2 * MIB);
    struct top op;
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, p.link->max_message);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, p.link->max_message + 1);
    cr_assert_eq(op_run(&p, &op), RDMAD_E_LENGTH);
    cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, 64);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    pair_close(&p);
}

/* One op at a time on each cell, local and remote: a large READ is answered from the window as the
 * socket takes it, so a WRITE posted behind it may be seen by it, as with any RDMA. */
#define CELLS 64u
#define CELL 20000u

struct model_cell {
    struct top op;
    bool busy;
    uint8_t expected[CELL];
};

Test(tcp_ops, ten_thousand_random_ops_agree_with_a_model) {
    struct pair p;
    pair_open(&p, CELLS * CELL + 4096);
    static struct model_cell cells[CELLS];
    uint8_t *model = malloc(p.bytes);
    random_fill(p.memory, p.bytes, 1);
    memcpy(model, p.memory, p.bytes);
    uint64_t random = 42;
    for (unsigned i = 0; i < 10000; i++) {
        struct model_cell *c = &cells[random_next(&random) % CELLS];
        PAIR_UNTIL(&p, !c->busy || c->op.done);
        if (c->busy && c->op.op.opcode == RDMAD_OP_READ)
            cr_assert_eq(memcmp(c->op.op.local, c->expected, c->op.op.length), 0, "op %u", i);
        if (c->busy)
            cr_assert_eq(c->op.op.status, RDMAD_OK);
        uint64_t limit = random_next(&random) % 4 ? 200 : CELL;
        size_t n = random_next(&random) % limit;
        size_t offset = (size_t)(c - cells) * CELL + random_next(&random) % (CELL - n + 1);
        int opcode = random_next(&random) % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE;
        size_t local = (size_t)(c - cells) * CELL;
        op_prepare(&p, &c->op, opcode, local, offset, n);
        if (opcode == RDMAD_OP_WRITE) {
            random_fill(p.local + local, n, i);
            memcpy(model + offset, p.local + local, n);
        } else {
            memcpy(c->expected, model + offset, n);
        }
        c->busy = true;
        op_post(&p, &c->op);
        if (random_next(&random) % 8 == 0)
            pair_turn(&p);
    }
    for (unsigned i = 0; i < CELLS; i++)
        PAIR_UNTIL(&p, !cells[i].busy || cells[i].op.done);
    cr_assert_eq(memcmp(model, p.memory, p.bytes), 0);
    free(model);
    pair_close(&p);
}

Test(tcp_ops, a_completed_write_is_already_in_the_targets_memory) {
    struct pair p;
    pair_open(&p, MIB);
    for (unsigned i = 1; i < 300; i++) {
        size_t n = i % 3 ? i : 100000 + i;
        memset(p.local, (int)i, n);
        struct top op;
        op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, n);
        op_post(&p, &op);
        while (!op.done)
            pair_turn(&p);
        cr_assert_eq(p.memory[n - 1], (uint8_t)i);
    }
    pair_close(&p);
}

Test(tcp_ops, a_refused_op_fails_alone_between_its_neighbours) {
    struct pair p;
    pair_open(&p, MIB);
    struct fabric_blob no_such = p.key, read_only;
    no_such.bytes[9] ^= 1;
    struct fabric_window *w = pair_window(&p, LESSEE, RDMAD_RIGHT_READ, 0, MIB, &read_only);
    static const uint64_t lengths[] = {64, 100000};
    for (unsigned size = 0; size < 2; size++) {
        struct top ops[5];
        random_fill(p.local, MIB, size);
        for (unsigned i = 0; i < 5; i++)
            op_prepare(&p, &ops[i], RDMAD_OP_WRITE, i * UINT64_C(100000), i * UINT64_C(100000),
                       lengths[size]);
        ops[1].op.key = &no_such;
        ops[2].op.key = &read_only;
        ops[3].op.offset = MIB - lengths[size] + 1;
        memset(p.memory, 0, MIB);
        for (unsigned i = 0; i < 5; i++)
            op_post(&p, &ops[i]);
        for (unsigned i = 0; i < 5; i++)
            PAIR_UNTIL(&p, ops[i].done);
        cr_assert_eq(ops[0].op.status, RDMAD_OK);
        cr_assert_eq(ops[1].op.status, RDMAD_E_NO_LEASE);
        cr_assert_eq(ops[2].op.status, RDMAD_E_RIGHTS);
        cr_assert_eq(ops[3].op.status, RDMAD_E_RANGE);
        cr_assert_eq(ops[4].op.status, RDMAD_OK);
        for (unsigned i = 1; i < 4; i++)
            cr_assert_eq(ops[i].op.outcome, RDMAD_FAILED_UNTOUCHED);
        for (size_t i = 100000; i < 400000; i++)
            cr_assert_eq(p.memory[i], 0);
        cr_assert_eq(memcmp(p.memory + 400000, p.local + 400000, lengths[size]), 0);
    }
    cr_assert_eq(p.lessee.lost, 0);
    cr_assert_eq(p.audit.refused, 4);
    fabric_tcp.window_close(w, RDMAD_E_LEASE_RELEASED);
    pair_close(&p);
}

Test(tcp_ops, ranges_that_overflow_are_refused) {
    struct pair p;
    pair_open(&p, MIB);
    static const uint64_t ranges[][2] = {{UINT64_MAX, 1},
                                         {UINT64_MAX, 0},
                                         {UINT64_MAX - 63, 64},
                                         {UINT64_MAX - 64, 64},
                                         {MIB, 1},
                                         {MIB + 1, 0},
                                         {MIB - 1, 2},
                                         {UINT64_MAX - 99999, 100000},
                                         {UINT64_C(1) << 63, 8}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        for (int opcode = RDMAD_OP_READ; opcode <= RDMAD_OP_WRITE; opcode++) {
            struct top op;
            op_prepare(&p, &op, opcode, 0, ranges[i][0], ranges[i][1]);
            cr_assert_eq(op_run(&p, &op), RDMAD_E_RANGE, "range %zu", i);
            cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
        }
    }
    struct top op;
    op_prepare(&p, &op, RDMAD_OP_READ, 0, MIB, 0);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    pair_close(&p);
}

Test(tcp_ops, another_peers_key_opens_nothing_a_thousand_times) {
    struct pair p;
    pair_open(&p, MIB);
    struct fabric_blob key;
    struct fabric_window *w = pair_window(&p, STRANGE, RDMAD_RIGHTS_ALL, 0, MIB, &key);
    memset(p.local, 0xee, MIB);
    for (unsigned i = 0; i < 1000; i++) {
        struct top op;
        op_prepare(&p, &op, i % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE, 0, i, i % 7 ? 64 : 5000);
        op.op.key = &key;
        cr_assert_eq(op_run(&p, &op), RDMAD_E_NO_LEASE);
        cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    }
    for (size_t i = 0; i < MIB; i++)
        cr_assert_eq(p.memory[i], 0);
    cr_assert_eq(p.audit.ops, 0);
    fabric_tcp.window_close(w, RDMAD_E_LEASE_RELEASED);
    pair_close(&p);
}

Test(tcp_ops, a_window_ends_at_its_deadline_and_lives_on_when_extended) {
    struct pair p;
    pair_open(&p, MIB);
    uint64_t end = clock_now_ns() + 30 * NSEC_PER_SEC;
    fabric_tcp.window_extend(p.window, end);
    struct top op;
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 64);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    p.owner.skew_ns = 30 * NSEC_PER_SEC;
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 64);
    cr_assert_eq(op_run(&p, &op), RDMAD_E_LEASE_EXPIRED);
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, 100000);
    cr_assert_eq(op_run(&p, &op), RDMAD_E_LEASE_EXPIRED);
    fabric_tcp.window_extend(p.window, end + 60 * NSEC_PER_SEC);
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, 100000);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    cr_assert_eq(p.audit.refused, 2);
    pair_close(&p);
}

Test(tcp_ops, a_malformed_key_fails_the_op_and_not_the_link) {
    struct pair p;
    pair_open(&p, MIB);
    struct fabric_blob bad[3] = {p.key, p.key, p.key};
    bad[0].size = 3;
    bad[1].bytes[0] = 9;
    bad[2].bytes[2] = 1;
    for (unsigned i = 0; i < 3; i++) {
        struct top op;
        op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 64);
        op.op.key = &bad[i];
        cr_assert_eq(op_run(&p, &op), RDMAD_E_PROTOCOL);
        cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    }
    struct top op;
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 64);
    cr_assert_eq(op_run(&p, &op), RDMAD_OK);
    pair_close(&p);
}

Test(tcp_ops, a_full_link_says_again_and_takes_more_after_a_completion) {
    struct pair p;
    pair_defaults(&p, 4 * MIB);
    p.lessee.settings.max_inflight = 10;
    p.lessee.settings.send_buffer_bytes = MIB;
    pair_start(&p);
    struct top ops[11], big[5];
    for (unsigned i = 0; i < 11; i++) {
        op_prepare(&p, &ops[i], RDMAD_OP_WRITE, 0, 0, 8);
        cr_assert_eq(fabric_tcp.post(p.link, &ops[i].op), i < 10 ? 0 : RDMAD_E_AGAIN);
    }
    PAIR_UNTIL(&p, ops[9].done);
    cr_assert_not(ops[10].done);
    for (unsigned i = 0; i < 5; i++)
        op_prepare(&p, &big[i], RDMAD_OP_WRITE, 0, 0, 256u << 10);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(fabric_tcp.post(p.link, &big[i].op), i < 4 ? 0 : RDMAD_E_AGAIN);
    PAIR_UNTIL(&p, big[3].done);
    cr_assert_eq(fabric_tcp.post(p.link, &big[4].op), 0);
    PAIR_UNTIL(&p, big[4].done);
    pair_close(&p);
}

/* So many of 64 KiB wait on a link on which a MiB may. */
static void some_wait(struct pair *p, struct top short_ones[16], unsigned count) {
    pair_defaults(p, 4 * MIB);
    p->lessee.settings.send_buffer_bytes = MIB;
    pair_start(p);
    for (unsigned i = 0; i < count; i++) {
        op_prepare(p, &short_ones[i], RDMAD_OP_WRITE, 0, 0, 64u << 10);
        cr_assert_eq(fabric_tcp.post(p->link, &short_ones[i].op), 0);
    }
}

/* Whoever keeps a link nearly full with short ones would have all of it. */
Test(tcp_ops, where_there_is_room_for_a_short_op_there_is_room_for_a_long_one) {
    struct pair p;
    struct top short_ones[16], last, big;
    some_wait(&p, short_ones, 14);
    op_prepare(&p, &big, RDMAD_OP_WRITE, MIB, MIB, 256u << 10);
    op_prepare(&p, &last, RDMAD_OP_WRITE, 0, 0, 64u << 10);
    random_fill(p.local + MIB, MIB, 7);
    cr_assert_eq(fabric_tcp.post(p.link, &big.op), 0, "it waits for as long as there are others");
    cr_assert_eq(fabric_tcp.post(p.link, &last.op), RDMAD_E_AGAIN, "nothing bounds what waits");
    PAIR_UNTIL(&p, big.done);
    cr_assert_eq(big.op.status, RDMAD_OK);
    cr_assert_eq(memcmp(p.memory + MIB, p.local + MIB, 256u << 10), 0);
    cr_assert_eq(fabric_tcp.post(p.link, &last.op), 0);
    PAIR_UNTIL(&p, last.done);
    pair_close(&p);
}

Test(tcp_ops, a_read_waits_for_no_room_for_what_others_send) {
    struct pair p;
    struct top short_ones[16], read;
    some_wait(&p, short_ones, 16);
    op_prepare(&p, &read, RDMAD_OP_WRITE, 0, 0, 8);
    cr_assert_eq(fabric_tcp.post(p.link, &read.op), RDMAD_E_AGAIN);
    random_fill(p.memory + MIB, MIB, 8);
    op_prepare(&p, &read, RDMAD_OP_READ, MIB, MIB, 256u << 10);
    cr_assert_eq(fabric_tcp.post(p.link, &read.op), 0);
    PAIR_UNTIL(&p, read.done);
    cr_assert_eq(read.op.status, RDMAD_OK);
    cr_assert_eq(memcmp(p.memory + MIB, p.local + MIB, 256u << 10), 0);
    cr_assert(short_ones[15].done, "it has overtaken what was posted before it");
    pair_close(&p);
}

static struct pair *posting_pair;
static struct top second;

static void post_second(struct top *op) {
    (void)op;
    op_prepare(posting_pair, &second, RDMAD_OP_READ, 0, 0, 100000);
    cr_assert_eq(fabric_tcp.post(posting_pair->link, &second.op), 0);
}

Test(tcp_ops, a_completion_may_post_the_next_op) {
    struct pair p;
    pair_open(&p, MIB);
    posting_pair = &p;
    struct top first;
    op_prepare(&p, &first, RDMAD_OP_WRITE, 0, 0, 100);
    first.then = post_second;
    cr_assert_eq(op_run(&p, &first), RDMAD_OK);
    PAIR_UNTIL(&p, second.done);
    cr_assert_eq(second.op.status, RDMAD_OK);
    pair_close(&p);
}

static void close_link(struct top *op) {
    (void)op;
    fabric_tcp.link_close(posting_pair->link);
    posting_pair->link = NULL;
}

Test(tcp_ops, a_completion_may_close_its_own_link) {
    struct pair p;
    pair_open(&p, MIB);
    posting_pair = &p;
    struct top ops[3];
    for (unsigned i = 0; i < 3; i++)
        op_prepare(&p, &ops[i], RDMAD_OP_WRITE, 0, 0, 100);
    ops[1].then = close_link;
    for (unsigned i = 0; i < 3; i++)
        op_post(&p, &ops[i]);
    PAIR_UNTIL(&p, ops[2].done);
    cr_assert_eq(ops[1].op.status, RDMAD_OK);
    cr_assert_eq(ops[2].op.status, RDMAD_E_CANCELED);
    cr_assert_eq(p.lessee.lost, 0);
    pair_close(&p);
}

/* Arms as a worker does before it sleeps. */
static struct pollfd asleep(struct side *s) {
    uint64_t wake_ns;
    while (!fabric_tcp.arm(s->fabric, &wake_ns))
        fabric_tcp.poll(s->fabric);
    return (struct pollfd){.fd = fabric_tcp.wait_fd(s->fabric), .events = POLLIN};
}

Test(tcp_ops, armed_engines_are_woken_by_every_kind_of_work) {
    struct pair p;
    pair_open(&p, MIB);
    struct top op;
    for (unsigned i = 0; i < 200; i++) {
        op_prepare(&p, &op, i % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE, 0, 0, i % 3 ? 64 : 200000);
        op_post(&p, &op);
        for (;;) {
            struct pollfd fds[2] = {asleep(&p.lessee), asleep(&p.owner)};
            if (op.done)
                break;
            cr_assert(poll(fds, 2, 2000) > 0, "both sleep and the op is not done");
            if (fds[0].revents)
                fabric_tcp.poll(p.lessee.fabric);
            if (fds[1].revents)
                fabric_tcp.poll(p.owner.fabric);
        }
        cr_assert_eq(op.op.status, RDMAD_OK);
    }
    pair_close(&p);
}

Test(tcp_ops, an_idle_engine_has_nothing_to_wake_for) {
    struct pair p;
    pair_open(&p, MIB);
    p.owner.skew_ns = p.lessee.skew_ns = 100 * NSEC_PER_SEC; /* offers and dialling are over */
    for (unsigned i = 0; i < 3000; i++)
        pair_turn(&p);
    uint64_t wake_ns = 0;
    cr_assert(fabric_tcp.arm(p.owner.fabric, &wake_ns));
    cr_assert_eq(wake_ns, CLOCK_NEVER);
    cr_assert(fabric_tcp.arm(p.lessee.fabric, &wake_ns));
    cr_assert_eq(wake_ns, CLOCK_NEVER);
    struct pollfd fds[2] = {{.fd = fabric_tcp.wait_fd(p.owner.fabric), .events = POLLIN},
                            {.fd = fabric_tcp.wait_fd(p.lessee.fabric), .events = POLLIN}};
    cr_assert_eq(poll(fds, 2, 0), 0);
    pair_close(&p);
}

Test(tcp_ops, audit_counts_what_was_done) {
    struct pair p;
    pair_open(&p, MIB);
    struct top op;
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 100);
    op_run(&p, &op);
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 100000);
    op_run(&p, &op);
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, 3);
    op_run(&p, &op);
    cr_assert_eq(p.audit.ops, 3);
    cr_assert_eq(p.audit.bytes_written, 100100);
    cr_assert_eq(p.audit.bytes_read, 3);
    cr_assert(p.audit.last_use_ns > 0);
    pair_close(&p);
}

Test(tcp_ops, nothing_is_left_open) {
    struct pair p;
    unsigned before = fd_count();
    for (unsigned i = 0; i < 20; i++) {
        pair_open(&p, MIB);
        struct top op;
        op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 200000);
        op_post(&p, &op);
        pair_turn(&p);
        pair_close(&p);
        cr_assert(op.done);
    }
    cr_assert_eq(fd_count(), before);
}
