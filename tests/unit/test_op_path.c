/* SPDX-License-Identifier: MIT */
/* The way of an op, end to end on sim: bytes against a model, under everything sim can do. */
#define BYTES (512u * 1024u)
#include "common/ringword.h"
#include "tests/unit/op_routes.h"
#include <pthread.h>
#include <sys/mman.h>

static struct rdmad_sqe sqe_of(uint8_t opcode, uint64_t lease, uint64_t at, uint64_t length) {
    return (struct rdmad_sqe){.opcode = opcode,
                              .pool = RIG_HANDLE(0),
                              .pool_offset = at,
                              .lease = lease,
                              .lease_offset = at,
                              .length = length,
                              .user_data = at};
}

Test(path, a_nop_comes_back) {
    routes_up(NULL, 1, CLOCK_NEVER);
    struct rdmad_cqe cqe = rig_do(&c, &(struct rdmad_sqe){.user_data = 0xfeed});
    cr_assert(cqe.user_data == 0xfeed && cqe.status == 0 && cqe.outcome == RDMAD_DONE);
    cr_assert(cqe.bytes == 0 && cqe.opcode == RDMAD_OP_NOP && cqe.lease_id == 0);
    routes_down();
}

Test(path, any_length_arrives_whole_on_both_routes) {
    static const uint64_t sizes[] = {0,
                                     1,
                                     64,
                                     SIM_MAX_MESSAGE - 1,
                                     SIM_MAX_MESSAGE,
                                     SIM_MAX_MESSAGE + 1,
                                     9 * SIM_MAX_MESSAGE,
                                     100001,
                                     BYTES};
    routes_up(NULL, 2, CLOCK_NEVER);
    sim_script()->delay_max_ns = 50000; /* parts overtake each other */
    sim_script()->chunk = 1000;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int route = 0; route < 2; route++) {
            uint8_t *target = route ? near : far;
            for (size_t j = 0; j < BYTES; j++)
                c.pool[j] = (uint8_t)(j * 7 + i);
            memset(target, 0xee, BYTES);
            struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, route ? LOCAL : REMOTE, 0, sizes[i]);
            struct rdmad_cqe cqe = rig_do(&c, &sqe);
            cr_assert(cqe.status == 0 && cqe.outcome == RDMAD_DONE && cqe.bytes == sizes[i]);
            for (size_t j = 0; j < BYTES; j++)
                cr_assert_eq(target[j], j < sizes[i] ? (uint8_t)(j * 7 + i) : 0xee);
            memset(c.pool, 0, BYTES);
            sqe.opcode = RDMAD_OP_READ;
            cqe = rig_do(&c, &sqe);
            cr_assert(cqe.status == 0 && cqe.outcome == RDMAD_DONE && cqe.bytes == sizes[i]);
            for (size_t j = 0; j < BYTES; j++)
                cr_assert_eq(c.pool[j], j < sizes[i] ? (uint8_t)(j * 7 + i) : 0);
        }
    }
    routes_down();
}

Test(path, a_refusal_is_answered_and_touches_nothing) {
    routes_up(NULL, 3, CLOCK_NEVER);
    memset(far, 'f', BYTES);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 1, BYTES);
    struct rdmad_cqe cqe = rig_do(&c, &sqe);
    cr_assert(cqe.status == RDMAD_E_RANGE && cqe.outcome == RDMAD_FAILED_UNTOUCHED);
    cr_assert(cqe.lease_id == 900 && cqe.bytes == 0 && cqe.user_data == 1);
    sqe = sqe_of(77, REMOTE, 0, 8);
    cr_assert_eq(rig_do(&c, &sqe).status, RDMAD_E_OPCODE);
    for (size_t j = 0; j < BYTES; j++)
        cr_assert_eq(far[j], 'f');
    const struct plane_session_stats *stats = plane_session_stats(c.session);
    cr_assert(stats->ops == 2 && stats->ops_failed == 2 && stats->ops_inflight == 0);
    routes_down();
}

/* ---- many random ops against a model ----------------------------------------------------- */

#define SLOT_BYTES 16384u /* each op has a range of its own, so the model is exact */
#define SLOTS (BYTES / SLOT_BYTES)

struct try {
    bool busy;
    uint8_t opcode, before, after; /* of the target; after is what the source holds */
    uint64_t length;
};

static struct try tries[SLOTS];
static uint8_t times[BYTES]; /* how often each byte of far was written since its try began */

static void count_placed(void *base, uint64_t offset, uint64_t bytes) {
    cr_assert_eq(base, far);
    for (uint64_t i = offset; i < offset + bytes; i++)
        times[i]++;
}

static void begin_try(unsigned slot, uint8_t fill) {
    struct try *t = &tries[slot];
    uint64_t at = (uint64_t)slot * SLOT_BYTES;
    *t = (struct try){.busy = true,
                      .opcode = sim_random(2) ? RDMAD_OP_READ : RDMAD_OP_WRITE,
                      .before = fill,
                      .after = (uint8_t)(fill + 1),
                      .length = sim_random(4) ? sim_random(SLOT_BYTES + 1) : sim_random(65)};
    bool read = t->opcode == RDMAD_OP_READ;
    memset((read ? far : c.pool) + at, t->after, SLOT_BYTES);
    memset((read ? c.pool : far) + at, t->before, SLOT_BYTES);
    memset(times + at, 0, SLOT_BYTES);
    struct rdmad_sqe sqe = sqe_of(t->opcode, REMOTE, at, t->length);
    sqe.timeout_ns = sim_random(3) ? 0 : 1 + sim_random(100000);
    rig_put(&c, &sqe);
}

/* What the outcome says must be true of the bytes, and stay true. */
static void judge(const struct rdmad_cqe *cqe, unsigned *outcomes) {
    unsigned slot = (unsigned)(cqe->user_data / SLOT_BYTES);
    struct try *t = &tries[slot];
    cr_assert(t->busy, "an answer nobody waits for");
    t->busy = false;
    const uint8_t *target = (t->opcode == RDMAD_OP_READ ? c.pool : far) + cqe->user_data;
    uint64_t changed = 0;
    for (uint64_t i = 0; i < SLOT_BYTES; i++) {
        if (target[i] == t->before)
            continue;
        cr_assert_eq(target[i], t->after, "a byte from nowhere");
        cr_assert_lt(i, t->length, "a byte outside");
        changed++;
    }
    for (uint64_t i = 0; i < SLOT_BYTES; i++)
        cr_assert_leq(times[cqe->user_data + i], 1, "a write was executed twice");
    cr_assert_eq(cqe->opcode, t->opcode);
    cr_assert_leq(cqe->bytes, changed);
    cr_assert_eq(cqe->status == 0, cqe->outcome == RDMAD_DONE);
    switch (cqe->outcome) {
    case RDMAD_DONE:
        cr_assert_eq(changed, t->length);
        cr_assert_eq(cqe->bytes, t->length);
        break;
    case RDMAD_FAILED_UNTOUCHED:
        cr_assert_eq(changed, 0);
        break;
    default:
        cr_assert_leq(cqe->outcome, RDMAD_UNKNOWN);
    }
    outcomes[cqe->outcome]++;
}

/* What the control plane does for a lane whose link breaks, a step a turn. */
static struct {
    enum { KEEPS_NOTHING, ALL_WELL, GREETING, ASKING, OPENING, REOPENING } stage;
    struct rig_answer answer;
    unsigned seen_lost, rebuilt;
} keeper;

static void keeper_greets(void) {
    keeper.seen_lost = rig.lanes_lost;
    keeper.stage = GREETING;
    sim_script()->max_message = sim_random(2) ? 64 + sim_random(2 * SIM_MAX_MESSAGE) : 0;
    plane_lane_hello(remote.lane, rig_blob, &keeper.answer);
}

static void keeper_goes_on(const struct rig_answer *answer) {
    if (keeper.stage == GREETING && answer->result.code == 0) {
        keeper.stage = ASKING;
        plane_offer(rig.plane[THERE], rig.fabric, RIG_PEER, false, &answer->blob, rig_blob,
                    &keeper.answer);
    } else if (keeper.stage == ASKING && answer->result.code == 0) {
        keeper.stage = OPENING;
        plane_lane_open(remote.lane, "there", &answer->blob, rig_done, &keeper.answer);
    } else if (keeper.stage == OPENING && answer->result.code == 0) {
        keeper.stage = REOPENING;
        plane_window_reopen(remote.window, plane_lane_number(remote.lane), rig_blob,
                            &keeper.answer);
    } else if (keeper.stage == REOPENING && answer->result.code == 0) {
        keeper.stage = ALL_WELL;
        keeper.rebuilt++;
        plane_lease_key(c.session, REMOTE, &answer->blob);
    } else {
        keeper_greets();
    }
}

static void keeper_turn(void) {
    if (keeper.stage == KEEPS_NOTHING)
        return;
    if (sim_random(60) == 0)
        sim_break_links(RIG_FABRIC(rig, &rig.plane[HERE]->worker[0])->instance);
    if (keeper.stage == ALL_WELL && keeper.seen_lost != rig.lanes_lost) {
        keeper_greets();
    } else if (keeper.answer.done) {
        struct rig_answer answer = keeper.answer;
        keeper.answer.done = false;
        keeper_goes_on(&answer);
    }
}

static void random_run(uint64_t seed, unsigned count, unsigned *outcomes) {
    unsigned begun = 0, ended = 0;
    while (ended < count) {
        keeper_turn();
        unsigned slot = (unsigned)sim_random(SLOTS);
        if (!tries[slot].busy && begun < count && sim_random(3)) {
            begin_try(slot, (uint8_t)(seed + begun++));
            continue;
        }
        /* Sometimes into the middle between two events; but lost ops wait for their deadline. */
        rig_step(&rig, sim_now() + (sim_random(2) ? sim_random(3000) : NSEC_PER_SEC));
        for (struct rdmad_cqe cqe; rig_take(&c, &cqe); ended++)
            judge(&cqe, outcomes);
    }
}

Test(path, outcomes_are_true_under_reordering_delay_loss_and_refusal, .timeout = 120) {
    unsigned outcomes[4] = {0};
    for (uint64_t seed = 1; seed <= 30; seed++) {
        routes_up(NULL, seed, CLOCK_NEVER);
        struct sim_script *script = sim_script();
        script->delay_max_ns = 1 + 1000 * (1 + seed % 20);
        script->delay_min_ns = 0;
        script->chunk = seed % 3 ? 512 : 0;
        script->max_inflight = 1 + (uint32_t)seed % 12;
        script->refuse_ppm = seed % 4 == 0 ? 20000 : 0;
        script->refuse_status = RDMAD_E_NO_LEASE;
        script->lose_request_ppm = seed % 5 == 0 ? 20000 : 0;
        script->lose_answer_ppm = seed % 7 == 0 ? 50000 : 0;
        random_run(seed, 300, outcomes);
        routes_down();
    }
    for (int i = 0; i < 4; i++)
        cr_assert_gt(outcomes[i], 20, "outcome %d was hardly tried: %u times", i, outcomes[i]);
}

Test(path, outcomes_are_true_and_no_write_is_executed_twice_while_links_break, .timeout = 120) {
    unsigned outcomes[4] = {0}, rebuilt = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        routes_up(NULL, seed, CLOCK_NEVER);
        memset(&keeper, 0, sizeof(keeper));
        keeper.stage = ALL_WELL;
        struct sim_script *script = sim_script();
        script->placed = count_placed;
        script->delay_max_ns = 1 + 1000 * (1 + seed % 20);
        script->delay_min_ns = 0;
        script->chunk = seed % 3 ? 512 : 0;
        script->max_inflight = 1 + (uint32_t)seed % 12;
        script->knows_unexecuted = seed % 2;
        script->lazy_cancel = seed % 3 == 1;
        script->lazy_windows = seed % 5 > 1;
        script->lose_request_ppm = seed % 7 == 0 ? 20000 : 0;
        random_run(seed, 300, outcomes);
        rebuilt += keeper.rebuilt;
        routes_down();
    }
    cr_assert_gt(rebuilt, 500);
    for (int i = 0; i < 4; i++)
        cr_assert_gt(outcomes[i], 20, "outcome %d was hardly tried: %u times", i, outcomes[i]);
    cr_assert_gt(outcomes[RDMAD_DONE], 4000);
}

Test(path, without_trouble_every_op_is_done) {
    unsigned outcomes[4] = {0};
    routes_up(NULL, 5, CLOCK_NEVER);
    rig.settings.default_timeout_ns = NSEC_PER_SEC;
    for (unsigned i = 0; i < 500; i++) {
        unsigned slot = i % SLOTS;
        begin_try(slot, (uint8_t)i);
        c.sqe[(c.sq_tail - 1) & (c.ring->sq_entries - 1)].timeout_ns = 0;
        struct rdmad_cqe cqe = rig_wait(&c);
        judge(&cqe, outcomes);
    }
    cr_assert_eq(outcomes[RDMAD_DONE], 500);
    cr_assert_eq(sim_inflight(), 0);
    routes_down();
}

/* ---- a client that writes while we read -------------------------------------------------- */

static bool mutating;

static void *mutate(void *arg) {
    (void)arg;
    for (unsigned n = 0; __atomic_load_n(&mutating, __ATOMIC_RELAXED); n++) {
        volatile struct rdmad_sqe *q = &c.sqe[n & (c.ring->sq_entries - 1)];
        q->length = n & 1 ? 64 : UINT64_MAX - 63;
        q->pool_offset = n & 2 ? 0 : BYTES - 64;
        q->lease_offset = n & 4 ? 0 : UINT64_C(1) << 40;
        q->opcode = n & 8 ? RDMAD_OP_WRITE : 200;
        q->imm = n & 16 ? 0 : n;
    }
    return NULL;
}

/* Whatever mixture the daemon sees, what it does is what it checked: a range outside the lease or
 * the pool would hit a guard page or AddressSanitizer. */
Test(path, an_sqe_that_changes_while_it_is_taken_is_judged_as_it_was_taken, .timeout = 60) {
    routes_up(NULL, 6, CLOCK_NEVER);
    memset(near, 'n', BYTES);
    for (uint32_t i = 0; i < c.ring->sq_entries; i++)
        c.sqe[i] = sqe_of(RDMAD_OP_WRITE, LOCAL, 0, 64);
    pthread_t thread;
    mutating = true;
    cr_assert_eq(pthread_create(&thread, NULL, mutate, NULL), 0);
    unsigned done = 0, refused = 0;
    /* On a busy machine the other thread may come late. */
    for (unsigned i = 0; i < 200000 || (!refused && i < 20000000); i++) {
        ringword_publish(&c.client->sq_tail, ++c.sq_tail);
        rig_settle(&rig);
        struct rdmad_cqe cqe;
        cr_assert(rig_take(&c, &cqe));
        if (cqe.status == 0)
            done++;
        else
            refused++;
    }
    __atomic_store_n(&mutating, false, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    cr_assert(refused > 0, "%u done, %u refused", done, refused);
    for (size_t j = 64; j < BYTES; j++)
        cr_assert_eq(near[j], 'n');
    routes_down();
}
