/* SPDX-License-Identifier: MIT */
/*
 * CAS and FADD by the device: what they return, that they are atomic with one another whichever
 * link they come by, and that only a window with the right to them lets them in.
 */
#include "daemon/fabric/verbs/link/link.h"
#include "tests/unit/verbs_pair.h"
#include <criterion/hooks.h>
#include <criterion/options.h>

#define MIB ((size_t)1 << 20)

ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
    (void)tests;
    criterion_options.jobs = 1;
}

static void cable_mended(void) {
    (void)!system("tc qdisc del dev va root 2>/dev/null; tc qdisc del dev vb root 2>/dev/null");
}

TestSuite(verbs_atomics, .init = cable_mended, .fini = cable_mended);

static uint64_t word(const struct vpair *p, uint64_t offset) {
    return __atomic_load_n((const uint64_t *)(const void *)(p->owner.base + offset),
                           __ATOMIC_SEQ_CST);
}

static void atomic_op(struct vop *op, const struct fabric_blob *key, int opcode, uint64_t offset,
                      uint64_t compare, uint64_t swap) {
    *op = (struct vop){.op = {.opcode = (uint8_t)opcode,
                              .length = 8,
                              .key = key,
                              .offset = offset,
                              .compare = compare,
                              .swap = swap,
                              .user = op}};
}

static uint64_t run(struct vpair *p, int opcode, uint64_t offset, uint64_t compare, uint64_t swap) {
    struct vop op;
    atomic_op(&op, &p->window.key, opcode, offset, compare, swap);
    cr_assert_eq(vop_run(p, &op), RDMAD_OK, "%d", op.op.status);
    cr_assert_eq(op.op.outcome, RDMAD_DONE);
    return op.op.value;
}

Test(verbs_atomics, they_tell_what_was_there_and_change_eight_bytes) {
    struct vpair p;
    vpair_open(&p, MIB);
    fill(p.owner.base, 4096, 5);
    uint8_t model[4096];
    memcpy(model, p.owner.base, sizeof model);
    const uint64_t was = word(&p, 64), other = word(&p, 72);
    cr_assert_eq(run(&p, RDMAD_OP_CAS, 64, was + 1, 7), was, "compared wrong");
    cr_assert_eq(word(&p, 64), was, "swapped though it was something else");
    cr_assert_eq(run(&p, RDMAD_OP_CAS, 64, was, UINT64_C(0x0123456789abcdef)), was);
    cr_assert_eq(word(&p, 64), UINT64_C(0x0123456789abcdef));
    cr_assert_eq(run(&p, RDMAD_OP_FADD, 72, 0, UINT64_MAX), other);
    cr_assert_eq(word(&p, 72), other - 1, "adding all ones takes one away");
    memcpy(model + 64, p.owner.base + 64, 16);
    cr_assert_eq(memcmp(model, p.owner.base, sizeof model), 0, "it changed something else");
    cr_assert_eq(run(&p, RDMAD_OP_FADD, MIB - 8, 0, 3), 0, "the last eight bytes");
    cr_assert_eq(word(&p, MIB - 8), 3);
    vpair_close(&p);
}

/* ---- contention ---------------------------------------------------------------------------- */

#define ADDS 1000u
#define DEPTH 32u

struct adder {
    struct vpair *pair;
    struct fabric_link *link;
    const struct fabric_blob *key;
    struct vop op[DEPTH];
    unsigned posted, ended;
};

static void adder_turn(struct adder *a, uint8_t seen[2 * ADDS]) {
    for (; a->ended < a->posted && a->op[a->ended % DEPTH].done; a->ended++) {
        const struct fabric_op *op = &a->op[a->ended % DEPTH].op;
        cr_assert_eq(op->status, RDMAD_OK);
        cr_assert(op->value < 2 * ADDS && !seen[op->value], "%lu came twice",
                  (unsigned long)op->value);
        seen[op->value] = 1;
    }
    for (; a->posted < ADDS && a->posted - a->ended < DEPTH; a->posted++) {
        struct vop *op = &a->op[a->posted % DEPTH];
        atomic_op(op, a->key, RDMAD_OP_FADD, 8, 0, 1);
        cr_assert_eq(fabric_verbs.post(a->link, &op->op), 0);
    }
}

Test(verbs_atomics, two_links_add_and_each_number_is_seen_once, .timeout = 120) {
    struct vpair p;
    vpair_open(&p, MIB);
    static struct adder a[2];
    static uint8_t seen[2 * ADDS];
    struct vwindow w;
    a[0] = (struct adder){.pair = &p, .link = p.link, .key = &p.window.key};
    struct fabric_link *second = vpair_dial(&p);
    vpair_window(&p, &w, second->number, RDMAD_RIGHT_ATOMIC, 0, 4096);
    a[1] = (struct adder){.pair = &p, .link = second, .key = &w.key};
    uint64_t until = clock_now_ns() + 100 * NSEC_PER_SEC;
    while (a[0].ended < ADDS || a[1].ended < ADDS) {
        adder_turn(&a[0], seen);
        adder_turn(&a[1], seen);
        vpair_turn(&p);
        cr_assert(clock_now_ns() < until, "%u and %u", a[0].ended, a[1].ended);
    }
    cr_assert_eq(word(&p, 8), 2 * ADDS);
    fabric_verbs.link_close(second);
    vpair_unwindow(&p, &w);
    vpair_close(&p);
}

/* Each link takes the word from what it last saw to one more; who was too late learns what is
 * there. */
Test(verbs_atomics, of_two_links_that_compare_and_swap_one_wins_each_time, .timeout = 120) {
    enum { WINS = 300 };
    struct vpair p;
    vpair_open(&p, MIB);
    struct fabric_link *link[2] = {p.link, vpair_dial(&p)};
    struct vwindow w;
    vpair_window(&p, &w, link[1]->number, RDMAD_RIGHT_ATOMIC | RDMAD_RIGHT_READ, 0, 4096);
    const struct fabric_blob *key[2] = {&p.window.key, &w.key};
    struct vop op[2];
    uint64_t last[2] = {0, 0};
    unsigned wins = 0, losses = 0;
    while (wins < WINS) {
        for (unsigned i = 0; i < 2; i++) {
            atomic_op(&op[i], key[i], RDMAD_OP_CAS, 16, last[i], last[i] + 1);
            cr_assert_eq(fabric_verbs.post(link[i], &op[i].op), 0);
        }
        VPAIR_UNTIL(&p, op[0].done && op[1].done);
        for (unsigned i = 0; i < 2; i++) {
            bool won = op[i].op.value == last[i];
            last[i] = won ? last[i] + 1 : op[i].op.value;
            wins += won;
            losses += !won;
        }
    }
    cr_assert_eq(word(&p, 16), wins, "%u wins, %lu there", wins, (unsigned long)word(&p, 16));
    cr_assert(losses > 0, "they never met");
    fabric_verbs.link_close(link[1]);
    vpair_unwindow(&p, &w);
    vpair_close(&p);
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void refused_without_the_right(uint32_t rights, int opcode) {
    struct vpair p;
    struct vwindow w;
    struct vop op;
    vpair_open(&p, MIB);
    vpair_window(&p, &w, p.link->number, rights, 4096, 4096);
    fill(p.owner.base, 8192, 9);
    uint64_t was = word(&p, 4096 + 64);
    atomic_op(&op, &w.key, opcode, 64, was, was + 1);
    cr_assert_eq(vop_run(&p, &op), RDMAD_E_NO_LEASE, "%d", op.op.status);
    cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(word(&p, 4096 + 64), was, "changed without the right to");
    VPAIR_UNTIL(&p, p.lessee.lost == 1);
    fabric_verbs.link_close(p.link);
    p.link = vpair_dial(&p); /* and again, with a window that lets */
    vpair_unwindow(&p, &w);
    vpair_window(&p, &w, p.link->number, rights | RDMAD_RIGHT_ATOMIC, 4096, 4096);
    atomic_op(&op, &w.key, opcode, 64, was, was + 1);
    cr_assert_eq(vop_run(&p, &op), RDMAD_OK);
    cr_assert_eq(op.op.value, was);
    vpair_unwindow(&p, &w);
    vpair_close(&p);
}

Test(verbs_atomics, without_the_right_nothing_changes_and_the_link_can_be_made_anew) {
    refused_without_the_right(RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE, RDMAD_OP_CAS);
    refused_without_the_right(RDMAD_RIGHT_READ, RDMAD_OP_FADD);
}

Test(verbs_atomics, the_right_to_them_is_no_right_to_write) {
    struct vpair p;
    struct vwindow w;
    struct vop op;
    vpair_open(&p, MIB);
    fill(p.owner.base, 4096, 9);
    uint64_t was = word(&p, 0);
    vpair_window(&p, &w, p.link->number, RDMAD_RIGHT_ATOMIC, 0, 4096);
    vop_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 8);
    op.op.key = &w.key;
    cr_assert_eq(vop_run(&p, &op), RDMAD_E_NO_LEASE);
    cr_assert_eq(word(&p, 0), was);
    vpair_unwindow(&p, &w);
    vpair_close(&p);
}

Test(verbs_atomics, what_is_not_aligned_is_refused_before_any_device_sees_it) {
    struct vpair p;
    struct vwindow odd;
    struct vop op;
    vpair_open(&p, MIB);
    vpair_window(&p, &odd, p.link->number, RDMAD_RIGHTS_ALL, 4, 4096);
    for (unsigned offset = 1; offset < 8; offset++) {
        atomic_op(&op, &p.window.key, RDMAD_OP_FADD, offset, 0, 1);
        cr_assert_eq(vop_run(&p, &op), RDMAD_E_ALIGN, "offset %u", offset);
        cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    }
    atomic_op(&op, &odd.key, RDMAD_OP_FADD, 0, 0, 1);
    cr_assert_eq(vop_run(&p, &op), RDMAD_E_ALIGN, "memory counts, not the window's beginning");
    atomic_op(&op, &odd.key, RDMAD_OP_FADD, 4, 0, 1);
    cr_assert_eq(vop_run(&p, &op), RDMAD_OK);
    cr_assert_eq(word(&p, 8), 1);
    cr_assert_eq(p.lessee.lost, 0);
    vpair_unwindow(&p, &odd);
    vpair_close(&p);
}

Test(verbs_atomics, memory_windows_let_them_in_and_keep_them_out_too) {
    struct vpair p;
    struct vwindow w;
    struct vop op;
    vpair_defaults(&p, MIB);
    p.owner.settings.verbs.windows = WINDOWS_FORCED;
    vpair_start(&p);
    vpair_window(&p, &w, p.link->number, RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE, 0, 4096);
    cr_assert_eq(run(&p, RDMAD_OP_FADD, 24, 0, 5), 0);
    cr_assert_eq(run(&p, RDMAD_OP_CAS, 24, 5, 6), 5);
    cr_assert_eq(word(&p, 24), 6);
    atomic_op(&op, &w.key, RDMAD_OP_FADD, 24, 0, 1);
    cr_assert_eq(vop_run(&p, &op), RDMAD_E_NO_LEASE, "%d", op.op.status);
    cr_assert_eq(word(&p, 24), 6, "changed without the right to");
    VPAIR_UNTIL(&p, p.lessee.lost == 1);
    vpair_unwindow(&p, &w);
    vpair_close(&p);
}

/* ---- devices ------------------------------------------------------------------------------- */

Test(verbs_atomics, a_device_without_them_says_so_and_everything_else_goes_on) {
    struct vpair p;
    struct vop op;
    vpair_open(&p, MIB);
    struct ibv_device_attr *attr = &verbs_of(p.owner.fabric)->device->attr.orig_attr;
    enum ibv_atomic_cap true_cap = attr->atomic_cap;
    attr->atomic_cap = IBV_ATOMIC_NONE;
    struct fabric_link *before = p.link;
    struct vwindow w;
    p.link = vpair_dial(&p);
    vpair_window(&p, &w, p.link->number, RDMAD_RIGHTS_ALL, 0, 4096);
    atomic_op(&op, &w.key, RDMAD_OP_FADD, 0, 0, 1);
    cr_assert_eq(vop_run(&p, &op), RDMAD_E_UNSUPPORTED);
    cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    vop_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, 8);
    op.op.key = &w.key;
    cr_assert_eq(vop_run(&p, &op), RDMAD_OK);
    cr_assert_eq(p.lessee.lost, 0);
    attr->atomic_cap = true_cap;
    vpair_unwindow(&p, &w);
    fabric_verbs.link_close(before);
    vpair_close(&p);
}

Test(verbs_atomics, only_a_device_that_says_so_is_atomic_with_the_processor) {
    struct vpair p;
    vpair_open(&p, MIB);
    struct ibv_device_attr *attr = &verbs_of(p.owner.fabric)->device->attr.orig_attr;
    cr_assert_eq(attr->atomic_cap, IBV_ATOMIC_HCA, "rxe says otherwise now");
    cr_assert_not(fabric_verbs.atomics_are_cpus(p.owner.host));
    attr->atomic_cap = IBV_ATOMIC_GLOB;
    cr_assert(fabric_verbs.atomics_are_cpus(p.owner.host));
    attr->atomic_cap = IBV_ATOMIC_HCA;
    vpair_close(&p);
}

/* ---- silence ------------------------------------------------------------------------------- */

Test(verbs_atomics, when_the_answer_is_lost_nobody_says_that_nothing_happened, .timeout = 120) {
    enum { COUNT = 20 };
    struct vpair p;
    static struct vop op[COUNT];
    vpair_open(&p, MIB);
    /* What goes there arrives, what comes back does not. */
    must_run("tc qdisc replace dev va root netem loss 100%%");
    for (unsigned i = 0; i < COUNT; i++) {
        atomic_op(&op[i], &p.window.key, RDMAD_OP_FADD, 0, 0, 1);
        cr_assert_eq(fabric_verbs.post(p.link, &op[i].op), 0);
    }
    VPAIR_UNTIL(&p, p.lessee.lost);
    unsigned unknown = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        cr_assert(op[i].done);
        cr_assert_neq(op[i].op.outcome, RDMAD_DONE);
        cr_assert_neq(op[i].op.outcome, RDMAD_FAILED_PARTIAL);
        unknown += op[i].op.outcome == RDMAD_UNKNOWN;
    }
    uint64_t added = word(&p, 0);
    cr_assert(added > 0 && added <= unknown, "%lu were added, %u are unknown", (unsigned long)added,
              unknown);
    vpair_close(&p);
}

/* The answers to a READ and to what is behind it are lost; when the READ is asked for again, its
 * window is closed. That refusal says nothing about the others. */
Test(verbs_atomics, what_was_done_behind_a_read_refused_later_is_not_said_to_be_untouched,
     .timeout = 120) {
    struct vpair p;
    struct vwindow closed;
    struct vop read, add;
    vpair_defaults(&p, MIB);
    p.lessee.settings.verbs.timeout = 18; /* a second, times retries */
    vpair_start(&p);
    vpair_window(&p, &closed, p.link->number, RDMAD_RIGHT_READ, 0, 4096);
    must_run("tc qdisc replace dev va root netem loss 100%%");
    vop_prepare(&p, &read, RDMAD_OP_READ, 4096, 0, 64);
    read.op.key = &closed.key;
    atomic_op(&add, &p.window.key, RDMAD_OP_FADD, 0, 0, 1);
    cr_assert_eq(fabric_verbs.post(p.link, &read.op), 0);
    cr_assert_eq(fabric_verbs.post(p.link, &add.op), 0);
    VPAIR_UNTIL(&p, word(&p, 0) == 1);
    vpair_unwindow(&p, &closed);
    cable_mended();
    VPAIR_UNTIL(&p, p.lessee.lost);
    cr_assert(read.done && add.done);
    cr_assert_eq(read.op.status, RDMAD_E_NO_LEASE, "%d", read.op.status);
    cr_assert_eq(add.op.outcome, RDMAD_UNKNOWN, "%u", add.op.outcome);
    vpair_close(&p);
}
