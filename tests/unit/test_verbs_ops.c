/* SPDX-License-Identifier: MIT */
/*
 * READ and WRITE over queue pairs do what they say, byte for byte; what cannot be posted fails
 * alone; every op comes back once.
 */
#include "daemon/fabric/verbs/link/link.h"
#include "tests/unit/verbs_pair.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static const uint64_t sizes[] = {0,    1,    63,   64,    65,    1023,   1024,   1025,
                                 4095, 4096, 4097, 65535, 65536, 262143, 300001, 900000};
#define SIZES (sizeof sizes / sizeof *sizes)

static void every_size(struct vpair *p) {
    uint8_t *expected = malloc(p->bytes);
    for (size_t i = 0; i < SIZES; i++) {
        for (int opcode = RDMAD_OP_READ; opcode <= RDMAD_OP_WRITE; opcode++) {
            size_t n = sizes[i], from = 3 + i, to = 4096 + 5 * i;
            bool writes = opcode == RDMAD_OP_WRITE;
            uint8_t *source = writes ? p->lessee.base + from : p->owner.base + to;
            uint8_t *dest = writes ? p->owner.base + to : p->lessee.base + from;
            uint8_t *whole = writes ? p->owner.base : p->lessee.base;
            fill(p->lessee.base, p->bytes, i);
            fill(p->owner.base, p->bytes, i + 100);
            memcpy(expected, whole, p->bytes);
            memcpy(expected + (dest - whole), source, n);
            struct vop op;
            vop_prepare(p, &op, opcode, from, to, n);
            cr_assert_eq(vop_run(p, &op), RDMAD_OK);
            cr_assert_eq(op.op.outcome, RDMAD_DONE);
            cr_assert_eq(memcmp(whole, expected, p->bytes), 0, "%zu bytes, opcode %d", n, opcode);
        }
    }
    free(expected);
}

Test(verbs_ops, every_size_lands_byte_for_byte_and_nothing_beside_it) {
    struct vpair p;
    vpair_open(&p, MIB);
    every_size(&p);
    vpair_close(&p);
}

Test(verbs_ops, every_size_lands_without_inline_and_over_lanes) {
    struct vpair p;
    vpair_defaults(&p, MIB);
    p.lessee.settings.verbs.inline_bytes = 0;
    p.lessee.settings.verbs.lanes = 3;
    p.owner.settings.verbs.lanes = 3;
    vpair_start(&p);
    every_size(&p);
    vpair_close(&p);
}

Test(verbs_ops, max_message_is_moved_and_more_is_refused_alone) {
    struct vpair p;
    vpair_defaults(&p, 9 * MIB);
    /* All that rxe takes in kernels before 6.12, and allowed in later ones. */
    p.lessee.settings.verbs.max_message = p.owner.settings.verbs.max_message = 8 * MIB;
    vpair_start(&p);
    cr_assert_eq(p.link->max_message, 8 * MIB);
    fill(p.lessee.base, p.bytes, 5);
    struct vop op;
    vop_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, p.link->max_message);
    cr_assert_eq(vop_run(&p, &op), RDMAD_OK);
    cr_assert_eq(memcmp(p.owner.base, p.lessee.base, p.link->max_message), 0);
    vop_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, p.link->max_message + 1);
    cr_assert_eq(vop_run(&p, &op), RDMAD_E_LENGTH);
    cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    vop_prepare(&p, &op, RDMAD_OP_READ, 0, 0, 64);
    cr_assert_eq(vop_run(&p, &op), RDMAD_OK);
    vpair_close(&p);
}

/* One op at a time on each cell, local and remote. */
#define CELLS 64u
#define CELL 20000u

struct cell {
    struct vop op;
    bool busy;
    uint8_t expected[CELL];
};

static uint32_t next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static void check_cell(const struct cell *c) {
    cr_assert_eq(c->op.op.status, RDMAD_OK);
    if (c->op.op.opcode == RDMAD_OP_READ)
        cr_assert_eq(memcmp(c->op.op.local, c->expected, c->op.op.length), 0);
}

Test(verbs_ops, thousands_of_random_ops_agree_with_a_model) {
    struct vpair p;
    vpair_open(&p, CELLS * CELL);
    static struct cell cells[CELLS];
    uint8_t *model = malloc(p.bytes);
    fill(p.owner.base, p.bytes, 1);
    memcpy(model, p.owner.base, p.bytes);
    uint64_t random = 42;
    for (unsigned i = 0; i < 4000; i++) {
        unsigned which = next(&random) % CELLS;
        struct cell *c = &cells[which];
        VPAIR_UNTIL(&p, !c->busy || c->op.done);
        if (c->busy)
            check_cell(c);
        uint32_t limit = next(&random) % 4 ? 200 : CELL;
        size_t n = next(&random) % limit, at = which * CELL + next(&random) % (CELL - n);
        bool writes = next(&random) % 2;
        vop_prepare(&p, &c->op, writes ? RDMAD_OP_WRITE : RDMAD_OP_READ, at, at, n);
        if (writes) {
            fill(p.lessee.base + at, n, i);
            memcpy(model + at, p.lessee.base + at, n);
        } else {
            memcpy(c->expected, model + at, n);
        }
        c->busy = true;
        vop_post(&p, &c->op);
    }
    for (unsigned i = 0; i < CELLS; i++) {
        VPAIR_UNTIL(&p, !cells[i].busy || cells[i].op.done);
        if (cells[i].busy)
            check_cell(&cells[i]);
    }
    cr_assert_eq(memcmp(p.owner.base, model, p.bytes), 0);
    free(model);
    vpair_close(&p);
}

Test(verbs_ops, a_full_queue_says_so_and_takes_more_after_completions) {
    struct vpair p;
    vpair_open(&p, MIB);
    static struct vop ops[VPAIR_DEPTH + 1];
    for (unsigned i = 0; i <= VPAIR_DEPTH; i++)
        vop_prepare(&p, &ops[i], RDMAD_OP_WRITE, 8 * i, 8 * i, 8);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i <= VPAIR_DEPTH; i++)
            ops[i].done = false;
        for (unsigned i = 0; i < VPAIR_DEPTH; i++)
            cr_assert_eq(fabric_verbs.post(p.link, &ops[i].op), 0, "op %u", i);
        cr_assert_eq(fabric_verbs.post(p.link, &ops[VPAIR_DEPTH].op), RDMAD_E_AGAIN);
        VPAIR_UNTIL(&p, ops[VPAIR_DEPTH - 1].done);
        cr_assert_eq(fabric_verbs.post(p.link, &ops[VPAIR_DEPTH].op), 0);
        VPAIR_UNTIL(&p, ops[VPAIR_DEPTH].done);
        for (unsigned i = 0; i <= VPAIR_DEPTH; i++)
            cr_assert(ops[i].done && ops[i].op.status == RDMAD_OK, "op %u", i);
    }
    vpair_close(&p);
}

Test(verbs_ops, what_cannot_be_posted_fails_alone_and_from_poll) {
    struct vpair p;
    vpair_open(&p, MIB);
    struct vop good, malformed, foreign;
    struct fabric_blob nonsense = {.size = 5, .bytes = {1, 2, 3, 4, 5}};
    vop_prepare(&p, &good, RDMAD_OP_WRITE, 0, 0, 4096);
    vop_prepare(&p, &malformed, RDMAD_OP_WRITE, 0, 0, 8);
    malformed.op.key = &nonsense;
    vop_prepare(&p, &foreign, RDMAD_OP_READ, 0, 0, 4096);
    foreign.op.memory = NULL;
    cr_assert_eq(fabric_verbs.post(p.link, &malformed.op), 0);
    cr_assert_eq(fabric_verbs.post(p.link, &foreign.op), 0);
    cr_assert_eq(fabric_verbs.post(p.link, &good.op), 0);
    cr_assert(!malformed.done && !foreign.done, "completed inside post");
    VPAIR_UNTIL(&p, malformed.done && foreign.done && good.done);
    cr_assert_eq(malformed.op.status, RDMAD_E_PROTOCOL);
    cr_assert_eq(malformed.op.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(foreign.op.status, RDMAD_E_FABRIC);
    cr_assert_eq(foreign.op.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(good.op.status, RDMAD_OK);
    cr_assert_eq(p.lessee.lost, 0);
    vpair_close(&p);
}

Test(verbs_ops, memory_that_vanished_under_an_inline_write_ends_that_write_alone) {
    struct vpair p;
    vpair_open(&p, MIB);
    int fd = memfd_create("vanishing", MFD_CLOEXEC);
    cr_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
    uint8_t *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(gone != MAP_FAILED && ftruncate(fd, 0) == 0);
    fill(p.owner.base, 4096, 1);
    fill(p.lessee.base, 4096, 2);
    struct vop before, bad, after;
    vop_prepare(&p, &before, RDMAD_OP_WRITE, 0, 0, 32);
    vop_prepare(&p, &bad, RDMAD_OP_WRITE, 0, 100, 32);
    bad.op.local = gone + 16;
    vop_prepare(&p, &after, RDMAD_OP_WRITE, 32, 32, 32);
    uint8_t there[32];
    memcpy(there, p.owner.base + 100, 32);
    vop_post(&p, &before);
    vop_post(&p, &bad);
    vop_post(&p, &after);
    VPAIR_UNTIL(&p, before.done && bad.done && after.done);
    cr_assert_eq(before.op.status, RDMAD_OK);
    cr_assert_eq(after.op.status, RDMAD_OK);
    cr_assert_eq(bad.op.status, RDMAD_E_FAULT);
    cr_assert_eq(bad.op.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(p.lessee.faults, 1);
    cr_assert_eq((uintptr_t)p.lessee.fault_address, (uintptr_t)gone + 16);
    cr_assert_eq(memcmp(p.owner.base + 100, there, 32), 0);
    cr_assert_eq(memcmp(p.owner.base, p.lessee.base, 64), 0);
    close(fd);
    vpair_close(&p);
}

Test(verbs_ops, cancelled_before_the_doorbell_an_op_is_untouched_at_once) {
    struct vpair p;
    vpair_open(&p, MIB);
    struct vop kept, cancelled;
    fill(p.owner.base, 8192, 1);
    fill(p.lessee.base, 8192, 2);
    vop_prepare(&p, &kept, RDMAD_OP_WRITE, 0, 0, 4096);
    vop_prepare(&p, &cancelled, RDMAD_OP_WRITE, 4096, 4096, 4096);
    vop_post(&p, &kept);
    vop_post(&p, &cancelled);
    fabric_verbs.cancel(&cancelled.op, RDMAD_E_TIMEOUT);
    cr_assert(cancelled.done && !kept.done);
    cr_assert_eq(cancelled.op.status, RDMAD_E_TIMEOUT);
    cr_assert_eq(cancelled.op.outcome, RDMAD_FAILED_UNTOUCHED);
    VPAIR_UNTIL(&p, kept.done);
    cr_assert_eq(kept.op.status, RDMAD_OK);
    cr_assert_eq(memcmp(p.owner.base, p.lessee.base, 4096), 0);
    cr_assert_neq(memcmp(p.owner.base + 4096, p.lessee.base + 4096, 4096), 0);
    vpair_close(&p);
}

Test(verbs_ops, cancelled_behind_the_doorbell_an_op_that_was_done_is_done) {
    struct vpair p;
    vpair_open(&p, MIB);
    struct vop op;
    vop_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, MIB);
    vop_post(&p, &op);
    fabric_verbs.poll(p.lessee.fabric);
    if (!op.done)
        fabric_verbs.cancel(&op.op, RDMAD_E_CANCELED);
    VPAIR_UNTIL(&p, op.done);
    cr_assert_eq(op.op.status, RDMAD_OK);
    cr_assert_eq(op.op.outcome, RDMAD_DONE);
    cr_assert_eq(p.lessee.lost, 0, "the link was lost by a cancel that was in time");
    vpair_close(&p);
}

/* ---- a device that takes nothing --------------------------------------------------------- */

static int (*true_post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static int refuses_the_first(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
    (void)qp;
    *bad = wr;
    return ENOMEM;
}

/* As Soft-RoCE when all is in its queue and the system call that follows fails. */
static int takes_all_and_fails(struct ibv_qp *qp, struct ibv_send_wr *wr,
                               struct ibv_send_wr **bad) {
    (void)true_post_send(qp, wr, bad);
    *bad = NULL;
    return ENOMEM;
}

static void write_through(int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr,
                                           struct ibv_send_wr **bad),
                          struct vpair *p, struct vop *op) {
    vpair_open(p, MIB);
    fill(p->owner.base, 4096, 1);
    fill(p->lessee.base, 4096, 2);
    struct ibv_context_ops *device =
        &container_of(p->link, struct verbs_link, base)->lane[0].queue.qp->context->ops;
    vop_prepare(p, op, RDMAD_OP_WRITE, 0, 0, 4096);
    cr_assert_eq(fabric_verbs.post(p->link, &op->op), 0);
    true_post_send = device->post_send;
    device->post_send = post_send;
    vpair_turn(p);
    device->post_send = true_post_send;
    VPAIR_UNTIL(p, op->done && p->lessee.lost);
}

Test(verbs_ops, what_the_device_refused_is_untouched) {
    struct vpair p;
    struct vop op;
    write_through(refuses_the_first, &p, &op);
    cr_assert_eq(op.op.status, RDMAD_E_PEER_LOST);
    cr_assert_eq(op.op.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_neq(memcmp(p.owner.base, p.lessee.base, 4096), 0);
    vpair_close(&p);
}

Test(verbs_ops, what_the_device_may_have_taken_is_not_called_untouched) {
    struct vpair p;
    struct vop op;
    write_through(takes_all_and_fails, &p, &op);
    cr_assert(op.op.outcome == RDMAD_UNKNOWN || op.op.outcome == RDMAD_DONE, "outcome %u",
              op.op.outcome);
    vpair_close(&p);
}
