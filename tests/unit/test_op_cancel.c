/* SPDX-License-Identifier: MIT */
/* CANCEL: whom it means, and that nothing moves afterwards. */
#define BYTES (256u * 1024u)
#include "tests/unit/op_routes.h"

static uint8_t copy[BYTES];

static void setup(void) {
    routes_up(NULL, 31, 1000 * NSEC_PER_SEC);
    sim_script()->chunk = 512;
    rig_grant(&c, 333);
}

TestSuite(cancel, .init = setup, .timeout = 60);

static void put(uint8_t opcode, uint64_t lease, uint64_t length, uint8_t flags, uint64_t tag) {
    struct rdmad_sqe sqe = {.opcode = opcode,
                            .flags = flags,
                            .pool = length ? RIG_HANDLE(0) : 0,
                            .lease = lease,
                            .length = length,
                            .user_data = tag};
    rig_put(&c, &sqe);
}

static void cancel(uint64_t whom) {
    put(RDMAD_OP_CANCEL, whom, 0, 0, 999);
}

static void expect(uint64_t tag, int status) {
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.user_data, tag, "%lu instead of %lu: %d", (unsigned long)cqe.user_data,
                 (unsigned long)tag, cqe.status);
    cr_assert_eq(cqe.status, status, "%lu: %d", (unsigned long)tag, cqe.status);
}

Test(cancel, of_nobody_says_so) {
    cancel(5);
    expect(999, RDMAD_E_HANDLE);
    put(RDMAD_OP_WRITE, LOCAL, 8, 0, 5);
    expect(5, 0);
    cancel(5);
    expect(999, RDMAD_E_HANDLE);
    cancel(999); /* not even itself */
    expect(999, RDMAD_E_HANDLE);
    routes_down();
}

Test(cancel, ends_the_op_of_that_name_and_no_other) {
    for (uint64_t n = 1; n <= 5; n++)
        put(RDMAD_OP_WRITE, REMOTE, BYTES, 0, n);
    rig_run_until(&rig, sim_now() + 5000);
    cancel(3);
    rig_settle(&rig);
    expect(3, RDMAD_E_CANCELED);
    expect(999, 0);
    bool seen[6] = {false};
    for (unsigned n = 0; n < 4; n++) {
        struct rdmad_cqe cqe = rig_wait(&c);
        cr_assert_eq(cqe.status, 0);
        seen[cqe.user_data] = true;
    }
    cr_assert(seen[1] && seen[2] && !seen[3] && seen[4] && seen[5]);
    routes_down();
}

Test(cancel, ends_all_of_the_name) {
    for (uint64_t n = 1; n <= 5; n++)
        put(RDMAD_OP_WRITE, REMOTE, BYTES, 0, 7);
    cancel(7);
    for (uint64_t n = 1; n <= 5; n++)
        expect(7, RDMAD_E_CANCELED);
    expect(999, 0);
    routes_down();
}

Test(cancel, of_one_that_waits_for_a_notice_ends_it) {
    put(RDMAD_OP_NOTIFIED, 333, 0, 0, 8);
    nothing_comes_for(10 * NSEC_PER_MSEC);
    cancel(8);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.user_data, 8);
    cr_assert_eq(cqe.status, RDMAD_E_CANCELED);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
    expect(999, 0);
    routes_down();
}

Test(cancel, of_a_batch_by_its_name_is_of_all_its_members) {
    put(RDMAD_OP_WRITE, REMOTE, BYTES, RDMAD_SQE_MORE, 1);
    put(RDMAD_OP_WRITE, REMOTE, BYTES, RDMAD_SQE_MORE, 2);
    rig_settle(&rig);
    cancel(3); /* not there yet: and it ends the batch, being no member of one */
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.status, RDMAD_E_INVAL);
    put(RDMAD_OP_WRITE, REMOTE, BYTES, RDMAD_SQE_MORE, 1);
    put(RDMAD_OP_WRITE, REMOTE, BYTES, RDMAD_SQE_MORE, 2);
    put(RDMAD_OP_WRITE, REMOTE, BYTES, 0, 3);
    rig_settle(&rig);
    cancel(3);
    rig_settle(&rig);
    expect(3, RDMAD_E_CANCELED);
    expect(999, 0);
    nothing_comes_for(10 * NSEC_PER_MSEC);
    routes_down();
}

Test(cancel, of_a_member_by_its_own_name_leaves_the_others) {
    put(RDMAD_OP_WRITE, REMOTE, BYTES, RDMAD_SQE_MORE, 1);
    put(RDMAD_OP_WRITE, REMOTE, BYTES, 0, 2);
    rig_settle(&rig);
    cancel(1);
    expect(999, 0);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.user_data, 2);
    cr_assert_eq(cqe.status, RDMAD_E_CANCELED);
    cr_assert_eq(cqe.outcome, RDMAD_FAILED_PARTIAL);
    cr_assert_geq(cqe.bytes, BYTES);
    routes_down();
}

Test(cancel, reaches_no_other_ring_and_no_other_session) {
    struct rig_client other, second;
    rig_ring_up(&c, &second, 8, 8);
    rig_client_up(&rig, &other, 8, 8, 4096);
    put(RDMAD_OP_WRITE, REMOTE, BYTES, 0, 4);
    rig_settle(&rig);
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_CANCEL, .lease = 4};
    cr_assert_eq(rig_do(&other, &sqe).status, RDMAD_E_HANDLE);
    rig_put(&second, &sqe);
    rig_settle(&rig);
    struct rdmad_cqe cqe;
    cr_assert(rig_take(&second, &cqe));
    cr_assert_eq(cqe.status, RDMAD_E_HANDLE);
    expect(4, 0);
    rig_client_down(&other);
    routes_down();
    rig_ring_free(&second);
}

/* With as many ops in flight as a session may have, none of which ends by itself. */
Test(cancel, works_for_who_is_at_his_limit) {
    rig_break(&rig);
    for (uint64_t n = 1; n <= 64; n++)
        put(RDMAD_OP_WRITE, REMOTE, 8, 0, n);
    rig_settle(&rig);
    cr_assert_eq(c.session->op.charged, rig.settings.max_session_ops);
    cancel(33);
    rig_settle(&rig);
    expect(33, RDMAD_E_CANCELED);
    expect(999, 0);
    put(RDMAD_OP_WRITE, LOCAL, 8, 0, 65);
    expect(65, 0);
    put(RDMAD_OP_WRITE, REMOTE, 8, 0, 66);
    put(RDMAD_OP_WRITE, LOCAL, 8, 0, 67); /* which has to wait, and so has what comes behind it */
    rig_settle(&rig);
    cancel(66);
    nothing_comes_for(10 * NSEC_PER_MSEC);
    cr_assert_eq(c.session->op.charged, rig.settings.max_session_ops);
    routes_down();
}

/* Canceled at random moments of their way, over a fabric that lets go at once. */
Test(cancel, whatever_the_moment_there_is_one_outcome_and_not_a_byte_later) {
    unsigned ended[4] = {0};
    for (unsigned round = 0; round < 1000; round++) {
        bool read = round & 1;
        memset(read ? c.pool : far, 0, BYTES);
        memset(read ? far : c.pool, 'w', BYTES);
        uint64_t length = sim_random(BYTES) + 1;
        put(read ? RDMAD_OP_READ : RDMAD_OP_WRITE, REMOTE, length, 0, 6);
        rig_run_until(&rig, sim_now() + sim_random(200000));
        cancel(6);
        rig_settle(&rig);
        struct rdmad_cqe op = {0}, answer = {0}, cqe;
        while (rig_take(&c, &cqe)) {
            struct rdmad_cqe *which = cqe.user_data == 6 ? &op : &answer;
            cr_assert_eq(which->user_data, 0, "told twice");
            *which = cqe;
        }
        cr_assert_eq(answer.user_data, 999);
        cr_assert_eq(op.user_data, 6, "CANCEL ended before its op did");
        cr_assert(op.status == 0 || (op.status == RDMAD_E_CANCELED && answer.status == 0));
        uint8_t *target = read ? c.pool : far;
        memcpy(copy, target, BYTES);
        rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
        cr_assert_eq(memcmp(copy, target, BYTES), 0, "a byte moved after the cancellation");
        if (op.outcome == RDMAD_DONE)
            cr_assert_eq(target[length - 1], 'w');
        if (op.outcome == RDMAD_FAILED_UNTOUCHED)
            for (unsigned i = 0; i < BYTES; i += 64)
                cr_assert_eq(target[i], 0);
        ended[op.outcome]++;
    }
    cr_assert(ended[RDMAD_DONE] && ended[RDMAD_FAILED_PARTIAL], "the moments are spread");
    routes_down();
}

/* ---- what it costs ----------------------------------------------------------------------- */

static void put_on(struct rig_client *ring, uint8_t opcode, uint64_t lease, uint64_t tag) {
    struct rdmad_sqe sqe = {.opcode = opcode, .lease = lease, .user_data = tag};
    rig_put(ring, &sqe);
}

/* Its names are hashed with a key that is the same each time: by a random one more of 4000 ops than
 * the bound may share a bucket, if seldom. */
static void big_ring_up(struct rig_client *ring) {
    c.session->op.worker->secret = UINT64_C(0x9e3779b97f4a7c15);
    rig_ring_up(&c, ring, 4096, 4096);
}

/* In one turn; returns what it took of the session's budget. */
static uint64_t spent_on_cancel_of(struct rig_client *ring, uint64_t tag) {
    struct op_session *s = &ring->session->op;
    s->spent = 0;
    put_on(ring, RDMAD_OP_CANCEL, tag, 999);
    worker_turn(s->worker, sim_now());
    return s->spent;
}

Test(cancel, looks_at_few_ops_however_many_are_in_flight) {
    struct rig_client many;
    big_ring_up(&many);
    for (uint64_t n = 0; n < 4000; n++)
        put_on(&many, RDMAD_OP_NOTIFIED, 333, n << 40);
    rig_settle(&rig);
    cr_assert_eq(c.session->op.inflight, 4000);
    spent_on_cancel_of(&many, 1); /* the ring's first: from now on its ops are found by name */
    for (uint64_t n = 0; n < 40; n++) {
        uint64_t spent = spent_on_cancel_of(&many, n << 40);
        cr_assert_leq(spent, 4, "%lu sqes' worth for one op of 4000", (unsigned long)spent);
    }
    cr_assert_eq(c.session->op.inflight, 3960);
    routes_down();
    rig_ring_free(&many);
}

Test(cancel, of_a_batch_looks_at_its_members_however_many_ops_its_ring_has) {
    struct rig_client many;
    struct rdmad_cqe cqe;
    big_ring_up(&many);
    rig_break(&rig); /* writes wait */
    for (uint64_t n = 0; n < 3000; n++)
        put_on(&many, RDMAD_OP_NOTIFIED, 333, n << 40);
    struct rdmad_sqe write = {
        .opcode = RDMAD_OP_WRITE, .lease = REMOTE, .pool = RIG_HANDLE(0), .length = 8};
    for (uint64_t n = 0; n < 20; n++) {
        write.flags = n % 2 ? 0 : RDMAD_SQE_MORE;
        write.user_data = 1 + n;
        rig_put(&many, &write);
    }
    rig_settle(&rig);
    cr_assert_eq(c.session->op.inflight, 3020);
    spent_on_cancel_of(&many, 1000); /* the ring's first */
    for (uint64_t n = 1; n < 20; n += 2) {
        while (rig_take(&many, &cqe))
            ;
        uint64_t spent = spent_on_cancel_of(&many, 1 + n);
        cr_assert_leq(spent, 6, "%lu sqes' worth for two ops of 3000", (unsigned long)spent);
        cr_assert(rig_take(&many, &cqe) && cqe.status == RDMAD_E_CANCELED && cqe.user_data == 1 + n,
                  "%d of %lu", cqe.status, (unsigned long)cqe.user_data);
    }
    cr_assert_eq(c.session->op.inflight, 3000);
    routes_down();
    rig_ring_free(&many);
}

Test(cancel, what_one_costs_beyond_its_turn_comes_off_the_next_ones) {
    struct rig_client many, other;
    struct rdmad_cqe cqe;
    struct worker *w = c.session->op.worker;
    big_ring_up(&many);
    rig_client_up(&rig, &other, 64, 64, 4096);
    for (uint64_t n = 0; n < 4000; n++)
        put_on(&many, RDMAD_OP_NOTIFIED, 333, 7);
    rig_settle(&rig);
    put_on(&many, RDMAD_OP_CANCEL, 7, 999); /* ends 4000 */
    worker_turn(w, sim_now());
    cr_assert_eq(c.session->op.inflight, 0);
    uint64_t turns = 0;
    put_on(&c, RDMAD_OP_NOP, 0, 1); /* another ring of the same session */
    do {
        put_on(&other, RDMAD_OP_NOP, 0, 2);
        worker_turn(w, sim_now());
        cr_assert(rig_take(&other, &cqe), "a neighbour is served in every turn");
        turns++;
    } while (!rig_take(&c, &cqe));
    cr_assert_geq(turns, 4000 / 256, "they were paid for with %lu turns", (unsigned long)turns);
    rig_client_down(&other);
    routes_down();
    rig_ring_free(&many);
}

/* As many as there may be would otherwise make a turn that many times as long. */
Test(cancel, all_rings_of_a_session_share_its_turn_and_each_has_its_share) {
    static struct rig_client ring[16];
    struct worker *w = c.session->op.worker;
    for (unsigned i = 0; i < 16; i++)
        rig_ring_up(&c, &ring[i], 256, 256);
    for (unsigned n = 0; n < 16 * 200; n++)
        put_on(&ring[n / 200], RDMAD_OP_NOP, 0, n);
    for (unsigned turn = 1; turn <= 4; turn++) {
        uint64_t before = w->counters.ops;
        worker_turn(w, sim_now());
        cr_assert_eq(w->counters.ops - before, 256, "%lu in turn %u",
                     (unsigned long)(w->counters.ops - before), turn);
    }
    for (unsigned i = 0; i < 16; i++)
        cr_assert_eq(ring[i].ring->sq_head, 64, "ring %u is left out", i);
    routes_down();
    for (unsigned i = 0; i < 16; i++)
        rig_ring_free(&ring[i]);
}

/* Against a table of what is in flight under which name. */
Test(cancel, ends_exactly_those_of_the_name_whatever_came_and_went_before) {
    enum { TAGS = 12 };
    struct rig_client many;
    struct rdmad_cqe cqe;
    unsigned inflight[TAGS] = {0}, batched[TAGS] = {0};
    rig_ring_up(&c, &many, 512, 512);
    rig_break(&rig); /* writes wait */
    for (unsigned round = 0; round < 3000; round++) {
        uint64_t tag = sim_random(TAGS);
        struct rdmad_sqe write = {.opcode = RDMAD_OP_WRITE,
                                  .lease = REMOTE,
                                  .pool = RIG_HANDLE(0),
                                  .length = 8,
                                  .user_data = tag};
        unsigned what = (unsigned)sim_random(8), all = c.session->op.charged;
        if (what < 4 && inflight[tag] < 30) {
            put_on(&many, RDMAD_OP_NOTIFIED, 333, tag);
            inflight[tag]++;
        } else if (what == 4 && all < 60) {
            rig_put(&many, &write);
            inflight[tag]++;
        } else if (what == 5 && all < 60 && !batched[tag]) {
            write.flags = RDMAD_SQE_MORE;
            write.user_data = TAGS + 1;
            rig_put(&many, &write);
            write.flags = 0;
            write.user_data = tag;
            rig_put(&many, &write);
            batched[tag]++;
        } else if (what == 6) {
            put_on(&many, RDMAD_OP_CANCEL, tag, 999);
            rig_settle(&rig);
            unsigned expected = inflight[tag] + batched[tag], ended = 0;
            for (bool answered = false; rig_take(&many, &cqe);) {
                if (cqe.user_data == 999) {
                    cr_assert(!answered);
                    answered = true;
                    cr_assert_eq(cqe.status, expected ? 0 : RDMAD_E_HANDLE);
                    continue;
                }
                cr_assert_eq(cqe.user_data, tag);
                cr_assert_eq(cqe.status, RDMAD_E_CANCELED);
                ended++;
            }
            cr_assert_eq(ended, expected, "%u of %u ended", ended, expected);
            inflight[tag] = batched[tag] = 0;
        }
        rig_settle(&rig);
    }
    routes_down();
    rig_ring_free(&many);
}
