/* SPDX-License-Identifier: MIT */
/*
 * CAS and FADD over tcp: atomic with one another and with the CPU, refused where the window does
 * not allow them, and never done twice or said to be undone when they may be done.
 */
#include "tests/unit/tcp_raw.h"
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define BIG ((size_t)256 << 10)

static uint64_t word_at(const struct pair *p, size_t offset) {
    uint64_t word;
    memcpy(&word, p->memory + offset, sizeof word);
    return word;
}

static int run_word(struct pair *p, struct top *op, int opcode, uint64_t offset, uint64_t compare,
                    uint64_t swap) {
    word_prepare(p, op, opcode, offset, compare, swap);
    return op_run(p, op);
}

static void expect_alive(struct pair *p) {
    struct top op;
    uint64_t before = word_at(p, 1024);
    cr_assert_eq(run_word(p, &op, RDMAD_OP_FADD, 1024, 0, 1), RDMAD_OK);
    cr_assert(op.op.value == before && word_at(p, 1024) == before + 1);
    cr_assert_eq(p->lessee.lost, 0);
}

Test(tcp_atomics, tell_what_was_there_and_put_what_they_should) {
    struct pair p;
    pair_open(&p, BIG);
    struct top op;
    const uint64_t big = UINT64_C(0xfedcba9876543210);
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_FADD, 8, 0, big), RDMAD_OK);
    cr_assert(op.op.outcome == RDMAD_DONE && op.op.value == 0 && word_at(&p, 8) == big);
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_FADD, 8, 0, big), RDMAD_OK);
    cr_assert(op.op.value == big && word_at(&p, 8) == big + big);
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_CAS, 8, big, 1), RDMAD_OK);
    cr_assert(op.op.value == big + big && word_at(&p, 8) == big + big, "it was not equal");
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_CAS, 8, big + big, 1), RDMAD_OK);
    cr_assert(op.op.value == big + big && word_at(&p, 8) == 1);
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_FADD, BIG - 8, 0, 3), RDMAD_OK);
    cr_assert_eq(word_at(&p, BIG - 8), 3);
    cr_assert(word_at(&p, 0) == 0 && word_at(&p, 16) == 0);
    pair_close(&p);
}

Test(tcp_atomics, count_as_ops_in_the_audit) {
    struct pair p;
    pair_open(&p, BIG);
    struct top op;
    run_word(&p, &op, RDMAD_OP_FADD, 0, 0, 1);
    run_word(&p, &op, RDMAD_OP_CAS, 0, 1, 2);
    run_word(&p, &op, RDMAD_OP_CAS, 4, 1, 2);
    cr_assert(p.audit.ops == 2 && p.audit.refused == 1);
    cr_assert(p.audit.bytes_read == 0 && p.audit.bytes_written == 0);
    cr_assert(p.audit.last_use_ns > 0);
    pair_close(&p);
}

struct adder {
    uint64_t *word;
    bool stop;
    uint64_t added;
};

static void *add_until_told(void *arg) {
    struct adder *a = arg;
    while (!__atomic_load_n(&a->stop, __ATOMIC_ACQUIRE)) {
        __atomic_fetch_add(a->word, 1, __ATOMIC_RELAXED);
        a->added++;
    }
    return NULL;
}

Test(tcp_atomics, lose_nothing_against_the_cpu_and_other_connections) {
    struct pair p;
    pair_open(&p, BIG);
    struct fabric_link *links[2] = {p.link, pair_dial(&p, LESSEE)};
    struct adder adder = {.word = (void *)(p.memory + 64)};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, add_until_told, &adder), 0);
    enum { ROUNDS = 200, BATCH = 50 };
    uint64_t swapped = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct top ops[BATCH];
        for (unsigned j = 0; j < BATCH; j++) {
            uint64_t seen = __atomic_load_n(adder.word, __ATOMIC_RELAXED);
            word_prepare(&p, &ops[j], j % 2 ? RDMAD_OP_FADD : RDMAD_OP_CAS, 64, seen,
                         j % 2 ? 1 : seen + 1);
            p.link = links[j / 2 % 2];
            op_post(&p, &ops[j]);
        }
        for (unsigned j = 0; j < BATCH; j++) {
            PAIR_UNTIL(&p, ops[j].done);
            cr_assert_eq(ops[j].op.outcome, RDMAD_DONE);
            swapped += ops[j].op.opcode == RDMAD_OP_CAS && ops[j].op.value == ops[j].op.compare;
        }
    }
    __atomic_store_n(&adder.stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    cr_assert_eq(word_at(&p, 64), adder.added + ROUNDS * BATCH / 2 + swapped);
    p.link = links[0];
    fabric_tcp.link_close(links[1]);
    pair_close(&p);
}

/* ---- refusals ---------------------------------------------------------------------------- */

Test(tcp_atomics, misaligned_ones_are_refused_by_the_address_and_touch_nothing) {
    struct pair p;
    pair_open(&p, BIG);
    struct top op;
    for (uint64_t at = 1; at < 8; at++) {
        cr_assert_eq(run_word(&p, &op, RDMAD_OP_CAS, at, 0, 1), RDMAD_E_ALIGN);
        cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    }
    struct fabric_blob whole = p.key; /* a lease that begins at an odd place */
    struct fabric_window *odd = pair_window(&p, LESSEE, RDMAD_RIGHTS_ALL, 4, 64, &p.key);
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_FADD, 0, 0, 1), RDMAD_E_ALIGN);
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_FADD, 4, 0, 1), RDMAD_OK);
    fabric_tcp.window_close(odd, RDMAD_E_LEASE_RELEASED);
    p.key = whole;
    cr_assert(word_at(&p, 0) == 0 && word_at(&p, 8) == 1);
    expect_alive(&p);
    pair_close(&p);
}

Test(tcp_atomics, need_their_right_and_their_range) {
    struct pair p;
    pair_open(&p, BIG);
    struct top op;
    struct fabric_blob whole = p.key;
    const uint32_t others = RDMAD_RIGHTS_ALL & ~RDMAD_RIGHT_ATOMIC;
    struct fabric_window *plain = pair_window(&p, LESSEE, others, 0, 64, &p.key);
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_CAS, 0, 0, 1), RDMAD_E_RIGHTS);
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_FADD, 0, 0, 1), RDMAD_E_RIGHTS);
    fabric_tcp.window_close(plain, RDMAD_E_LEASE_RELEASED);
    struct fabric_window *atomic = pair_window(&p, LESSEE, RDMAD_RIGHT_ATOMIC, 0, 64, &p.key);
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_FADD, 56, 0, 1), RDMAD_OK);
    const uint64_t beyond[] = {57, 64, 1 << 20, UINT64_MAX - 7, UINT64_MAX};
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(run_word(&p, &op, RDMAD_OP_FADD, beyond[i], 0, 1), RDMAD_E_RANGE);
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, 8);
    cr_assert_eq(op_run(&p, &op), RDMAD_E_RIGHTS);
    fabric_tcp.window_close(atomic, RDMAD_E_LEASE_RELEASED);
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_FADD, 0, 0, 1), RDMAD_E_NO_LEASE);
    p.key = whole;
    cr_assert(word_at(&p, 0) == 0 && word_at(&p, 56) == 1 && word_at(&p, 64) == 0);
    pair_close(&p);
}

Test(tcp_atomics, end_with_the_windows_time) {
    struct pair p;
    pair_open(&p, BIG);
    struct top op;
    fabric_tcp.window_extend(p.window, clock_now_ns() + 30 * NSEC_PER_SEC);
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_FADD, 0, 0, 1), RDMAD_OK);
    p.owner.skew_ns = 30 * NSEC_PER_SEC;
    cr_assert_eq(run_word(&p, &op, RDMAD_OP_FADD, 0, 0, 1), RDMAD_E_LEASE_EXPIRED);
    cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(word_at(&p, 0), 1);
    pair_close(&p);
}

Test(tcp_atomics, the_owners_vanished_word_fails_one_and_names_the_place) {
    struct pair p;
    pair_defaults(&p, BIG);
    int fd = pair_halve(&p, &p.memory);
    pair_start(&p);
    for (unsigned i = 0; i < 2; i++) {
        struct top op;
        int opcode = i ? RDMAD_OP_CAS : RDMAD_OP_FADD;
        cr_assert_eq(run_word(&p, &op, opcode, BIG / 2 + 8, 0, 1), RDMAD_E_FAULT);
        cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
        cr_assert_null(op.op.fault, "the lessee is blamed for the owner's memory");
        cr_assert_eq(p.owner.faults, i + 1);
        const uint8_t *at = p.owner.fault_address;
        cr_assert(at >= p.memory + BIG / 2 && at < p.memory + BIG);
        expect_alive(&p);
    }
    cr_assert_eq(p.lessee.faults, 0);
    pair_close(&p);
    close(fd);
}

/* ---- the end of one before its answer ---------------------------------------------------- */

Test(tcp_atomics, canceled_before_it_was_sent_is_untouched_and_after_unknown) {
    struct pair p;
    pair_open(&p, BIG);
    struct top op;
    for (unsigned i = 0; i < 4; i++) {
        int opcode = i / 2 ? RDMAD_OP_CAS : RDMAD_OP_FADD;
        bool sent = i % 2;
        uint64_t before = word_at(&p, 0);
        word_prepare(&p, &op, opcode, 0, before, before + 1);
        op_post(&p, &op);
        if (sent)
            fabric_tcp.poll(p.lessee.fabric);
        fabric_tcp.cancel(&op.op, RDMAD_E_TIMEOUT);
        cr_assert(op.done && op.op.status == RDMAD_E_TIMEOUT);
        cr_assert_eq(op.op.outcome, sent ? RDMAD_UNKNOWN : RDMAD_FAILED_UNTOUCHED);
        op.op.value = 4711;
        expect_alive(&p);
        cr_assert_eq(op.op.value, 4711, "its answer was written into it afterwards");
        cr_assert(sent ? word_at(&p, 0) != before : word_at(&p, 0) == before);
    }
    pair_close(&p);
}

Test(tcp_atomics, sent_and_unanswered_are_unknown_when_the_peer_is_lost) {
    struct pair p;
    pair_open(&p, BIG);
    struct top ops[4];
    for (unsigned i = 0; i < 4; i++) {
        word_prepare(&p, &ops[i], i % 2 ? RDMAD_OP_CAS : RDMAD_OP_FADD, 0, 0, 1);
        op_post(&p, &ops[i]);
        if (i == 1)
            fabric_tcp.poll(p.lessee.fabric);
    }
    fabric_tcp.link_close(p.link);
    p.link = NULL;
    for (unsigned i = 0; i < 4; i++) {
        cr_assert(ops[i].done);
        cr_assert_eq(ops[i].op.outcome, i < 2 ? RDMAD_UNKNOWN : RDMAD_FAILED_UNTOUCHED);
    }
    pair_close(&p);
}

/* ---- rude peers -------------------------------------------------------------------------- */

Test(tcp_atomics, a_malformed_one_ends_that_connection_only) {
    struct pair p;
    pair_open(&p, BIG);
    struct frame bad[6];
    for (unsigned i = 0; i < 6; i++)
        bad[i] = raw_request(&p.key, i % 2 ? FRAME_CAS : FRAME_FADD, 0, 0, i % 2 ? 16 : 8);
    bad[0].length = 0;
    bad[1].length = 8;
    bad[2].length = 16;
    bad[3].length = BIG;
    bad[4].flags = FRAME_FINAL;
    bad[5].status = -1;
    for (unsigned i = 0; i < 6; i++) {
        int fd = raw_dial_as(&p, LESSEE);
        uint8_t bytes[64];
        memset(bytes, 0xff, sizeof bytes);
        raw_frame(&p, fd, &bad[i]); /* and not a byte behind it that could be wrong as well */
        if (bad[i].length <= sizeof bytes)
            (void)raw_send_try(fd, bytes, bad[i].length);
        cr_assert(raw_closed(&p, fd), "frame %u", i);
        close(fd);
        cr_assert_eq(word_at(&p, 0), 0, "frame %u", i);
        expect_alive(&p);
    }
    pair_close(&p);
}

Test(tcp_atomics, another_peers_key_is_nothing) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, STRANGE);
    uint8_t one[8] = {1};
    struct frame f = raw_request(&p.key, FRAME_FADD, 0, 0, 8);
    raw_frame(&p, fd, &f);
    raw_send(&p, fd, one, sizeof one);
    cr_assert_eq(raw_answer(&p, fd).status, RDMAD_E_NO_LEASE);
    cr_assert_eq(word_at(&p, 0), 0);
    close(fd);
    pair_close(&p);
}

Test(tcp_atomics, an_answer_that_fits_none_loses_the_link) {
    static const struct frame bad[] = {
        {.type = FRAME_ACK, .op = 0, .length = 1}, /* it needs data */
        {.type = FRAME_STATUS, .op = 0, .status = 0},
        {.type = FRAME_DATA, .op = 0, .length = 8}, /* not final */
        {.type = FRAME_DATA, .flags = FRAME_FINAL, .op = 0, .length = 7},
        {.type = FRAME_DATA, .flags = FRAME_FINAL, .op = 0, .length = 16}, /* as its request's */
        {.type = FRAME_DATA, .flags = FRAME_FINAL, .op = 0, .length = 0},
        {.type = FRAME_DATA, .flags = FRAME_FINAL, .op = 0, .length = 5000},
    };
    struct pair p;
    pair_open(&p, BIG);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        fabric_tcp.link_close(p.link);
        struct fabric_blob offer;
        int listener = raw_listen(&offer);
        cr_assert_eq(link_dial(p.lessee.fabric, "127.0.0.1", &offer, &p.link, NULL), 0);
        int fd = raw_accept_link(&p, listener);
        struct top op;
        uint8_t got[FRAME_BYTES + 16], zeros[64] = {0};
        word_prepare(&p, &op, RDMAD_OP_CAS, 0, 1, 2);
        op_post(&p, &op);
        raw_recv(&p, fd, got, sizeof got);
        cr_assert(word_get(got + FRAME_BYTES) == 1 && word_get(got + FRAME_BYTES + 8) == 2);
        unsigned lost = p.lessee.lost;
        raw_frame(&p, fd, &bad[i]);
        if (bad[i].length <= sizeof zeros)
            (void)raw_send_try(fd, zeros, bad[i].type == FRAME_DATA ? bad[i].length : 0);
        PAIR_UNTIL(&p, p.lessee.lost == lost + 1);
        cr_assert_eq(p.lessee.why.code, RDMAD_E_PROTOCOL, "answer %u", i);
        cr_assert(op.done && op.op.outcome == RDMAD_UNKNOWN);
        close(fd);
        close(listener);
    }
    pair_close(&p);
}
