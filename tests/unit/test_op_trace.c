/* SPDX-License-Identifier: MIT */
/* A trace has each op that it is asked for, once, as it was; and nobody waits for its reader. */
#define BYTES 65536u
#include "daemon/op/engine/trace.h"
#include "tests/unit/channel_rig.h"
#include "tests/unit/op_routes.h"

/* As in seam/traces.c, with one worker. */
#define RECORDS 8192u

static struct plane_traced seen[2 * RECORDS];

static struct plane_trace *begin(struct plane_trace_filter filter) {
    struct plane_trace *t = plane_trace_begin(rig.plane[HERE], &filter);
    cr_assert_not_null(t);
    rig_settle(&rig);
    return t;
}

/* All that there is, into seen. */
static unsigned read_all(struct plane_trace *t) {
    rig_run_until(&rig, sim_now() + 1); /* what ended in the last turn is put by the next */
    rig_settle(&rig);
    return plane_trace_read(t, seen, 2 * RECORDS);
}

static struct rdmad_sqe sqe_of(uint8_t opcode, uint64_t lease, uint64_t length) {
    return (struct rdmad_sqe){
        .opcode = opcode, .pool = RIG_HANDLE(0), .lease = lease, .length = length};
}

static int run(uint8_t opcode, uint64_t lease, uint64_t length, uint64_t user_data) {
    struct rdmad_sqe sqe = sqe_of(opcode, lease, length);
    sqe.user_data = user_data;
    return rig_do(&c, &sqe).status;
}

/* Between two daemons, in place of routes_up. */
static void channel_up(struct chan *chan) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 1);
    chan_remote_up(&rig, chan, 4096);
}

static void channel_down(struct chan *chan) {
    chan_down(chan);
    rig_down(&rig);
}

/* ---- the ring ------------------------------------------------------------------------------- */

static void put(struct trace_ring *ring, uint64_t number) {
    trace_ring_put(ring, &(struct plane_traced){.user_data = number});
}

static uint64_t take(struct trace_ring *ring) {
    const struct plane_traced *first = trace_ring_first(ring);
    cr_assert_not_null(first);
    uint64_t number = first->user_data;
    trace_ring_take(ring);
    return number;
}

Test(trace, a_full_ring_drops_what_is_new_and_counts_it) {
    struct trace_ring ring;
    cr_assert(trace_ring_init(&ring, 4));
    ring.head = ring.tail = UINT32_MAX - 1; /* its numbers wrap */
    cr_expect_null(trace_ring_first(&ring));
    for (uint64_t i = 0; i < 7; i++)
        put(&ring, i);
    cr_expect_eq(trace_ring_dropped(&ring), 3);
    cr_expect_eq(take(&ring), 0, "the oldest is there");
    put(&ring, 7);
    cr_expect_eq(trace_ring_dropped(&ring), 3, "there was room for one");
    put(&ring, 8);
    cr_expect_eq(trace_ring_dropped(&ring), 4);
    for (uint64_t i = 1; i < 4; i++)
        cr_expect_eq(take(&ring), i);
    cr_expect_eq(take(&ring), 7);
    cr_expect_null(trace_ring_first(&ring));
    trace_ring_fini(&ring);
}

Test(trace, records_of_all_workers_are_read_in_the_order_of_time) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.workers = 3;
    rig_up(&rig, &settings, 1);
    struct plane_trace *t = begin((struct plane_trace_filter){.session = 0});
    for (uint64_t i = 0; i < 30; i++) /* each ring in order, all together not */
        trace_ring_put(&t->of[i / 10]->ring,
                       &(struct plane_traced){.at_ns = 100 * (i % 10) + 10 * (i / 10)});
    cr_assert_eq(plane_trace_read(t, seen, 7), 7);
    cr_assert_eq(plane_trace_read(t, seen + 7, RECORDS), 23);
    for (unsigned i = 1; i < 30; i++)
        cr_expect_lt(seen[i - 1].at_ns, seen[i].at_ns);
    cr_expect_not(plane_trace_more(t));
    plane_trace_end(t);
    rig_down(&rig);
}

/* ---- what is recorded ----------------------------------------------------------------------- */

Test(trace, each_op_is_recorded_once_as_it_was) {
    routes_up(NULL, 1, CLOCK_NEVER);
    struct plane_trace *t = begin((struct plane_trace_filter){.session = 0});
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = 70000;
    uint64_t before = sim_now();
    cr_assert_eq(run(RDMAD_OP_WRITE, REMOTE, 64, 1), 0);
    uint64_t took = sim_now() - before;
    cr_assert_eq(run(RDMAD_OP_READ, LOCAL, 128, 2), 0);
    cr_assert_eq(run(RDMAD_OP_READ, LOCAL, 2 * BYTES, 3), RDMAD_E_RANGE);
    struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP, .user_data = 4};
    cr_assert_eq(rig_do(&c, &nop).status, 0);
    cr_assert_eq(read_all(t), 4);

    const struct plane_traced *r = seen;
    cr_expect(r->opcode == RDMAD_OP_WRITE && r->route == PLANE_LINK && r->peer == RIG_OWNER);
    cr_expect(!strcmp(r->node, "there") && r->lease == RIG_LEASE && r->bytes == 64);
    cr_expect(r->session == RIG_SESSION && r->user.uid == 0 && r->user_data == 1 && !r->begun);
    cr_expect(r->status == 0 && r->outcome == RDMAD_DONE);
    cr_expect(r->span_ns >= took && r->span_ns <= took + 1, "%lu, not %lu", r->span_ns, took);
    cr_expect_eq(r->at_ns, before + r->span_ns);
    r++;
    cr_expect(r->opcode == RDMAD_OP_READ && r->route == PLANE_LOCAL && !r->peer && !r->node[0]);
    cr_expect(r->lease == 901 && r->bytes == 128 && r->user_data == 2 && r->status == 0);
    r++;
    cr_expect(r->status == RDMAD_E_RANGE && r->outcome == RDMAD_FAILED_UNTOUCHED);
    cr_expect(r->route == PLANE_ROUTES && r->lease == 901 && r->user_data == 3);
    r++;
    cr_expect(r->opcode == RDMAD_OP_NOP && r->status == 0 && r->route == PLANE_ROUTES);
    cr_expect(!r->lease && r->user_data == 4);
    cr_expect_eq(plane_trace_dropped(t), 0);
    plane_trace_end(t);
    routes_down();
}

Test(trace, more_ops_in_a_turn_than_there_are_notes_are_all_recorded) {
    routes_up(NULL, 1, CLOCK_NEVER);
    struct plane_trace *t = begin((struct plane_trace_filter){.session = 0});
    struct rig_client second;
    rig_client_up(&rig, &second, 64, 128, 4096);
    for (uint64_t i = 0; i < 2 * 50; i++)
        rig_put(i % 2 ? &second : &c, &(struct rdmad_sqe){.opcode = RDMAD_OP_NOP, .user_data = i});
    worker_turn(&rig.plane[HERE]->worker[0], sim_now());
    cr_assert_eq(read_all(t), 100);
    uint64_t sum = 0;
    for (unsigned i = 0; i < 100; i++)
        sum += seen[i].user_data;
    cr_expect_eq(sum, 99 * 100 / 2);
    plane_trace_end(t);
    rig_client_down(&second);
    routes_down();
}

Test(trace, a_message_has_its_peer_at_either_end) {
    struct chan chan;
    channel_up(&chan);
    struct plane_trace *t = begin((struct plane_trace_filter){.peer = RIG_OWNER});
    struct plane_trace_filter here = {.node = "here"};
    struct plane_trace *other = plane_trace_begin(rig.plane[THERE], &here);
    rig_settle(&rig);
    chan_put(&chan, B, RDMAD_OP_RECV, 1000, 500, 7);
    chan_put(&chan, A, RDMAD_OP_SEND, 0, 300, 8);
    cr_assert_eq(chan_wait(&chan, A).status, 0);
    cr_assert_eq(chan_wait(&chan, B).status, 0);
    cr_assert_eq(read_all(t), 1);
    cr_expect(seen[0].opcode == RDMAD_OP_SEND && seen[0].bytes == 300 && seen[0].user_data == 8);
    cr_expect(seen[0].route == PLANE_LINK && !strcmp(seen[0].node, "there"));
    cr_assert_eq(read_all(other), 1);
    cr_expect(seen[0].opcode == RDMAD_OP_RECV && seen[0].bytes == 300, "what came, not the room");
    cr_expect(seen[0].route == PLANE_LINK && seen[0].peer == RIG_PEER && seen[0].user_data == 7);
    plane_trace_end(t);
    plane_trace_end(other);
    channel_down(&chan);
}

Test(trace, an_op_is_seen_as_it_begins_if_that_is_asked_for) {
    routes_up(NULL, 1, CLOCK_NEVER);
    struct plane_trace *t = begin((struct plane_trace_filter){.begun = true});
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = 70000;
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, REMOTE, 64);
    uint64_t before = sim_now();
    rig_put(&c, &sqe);
    rig_settle(&rig);
    cr_assert_eq(read_all(t), 1);
    cr_expect(seen[0].begun && seen[0].at_ns == before && seen[0].peer == RIG_OWNER);
    cr_assert_eq(rig_wait(&c).status, 0);
    cr_assert_eq(read_all(t), 1);
    cr_expect(!seen[0].begun && seen[0].span_ns >= 70000);
    plane_trace_end(t);
    routes_down();
}

static unsigned count_begun(unsigned count, uint64_t user_data) {
    unsigned begun = 0;
    for (unsigned i = 0; i < count; i++)
        begun += seen[i].begun && seen[i].user_data == user_data;
    return begun;
}

/* It is made anew when it starts, and is the same op to who looks. */
Test(trace, a_send_behind_a_fence_begins_once_and_took_as_long_as_it_waited) {
    struct chan chan;
    channel_up(&chan);
    struct plane_trace *t = begin((struct plane_trace_filter){.begun = true});
    chan_put(&chan, A, RDMAD_OP_SEND, 0, 300, 1); /* which nobody receives yet */
    struct rdmad_sqe fenced = chan_sqe(RDMAD_OP_SEND, 0, 300, 2);
    fenced.flags = RDMAD_SQE_FENCE;
    rig_put(&chan.end[A].client, &fenced);
    rig_settle(&rig);
    rig_run_until(&rig, sim_now() + 50000);
    unsigned count = read_all(t);
    cr_assert(count == 2 && count_begun(count, 1) == 1 && count_begun(count, 2) == 1);
    cr_expect(seen[1].peer == RIG_OWNER && !strcmp(seen[1].node, "there"), "its channel says it");
    cr_expect_eq(seen[1].route, PLANE_LINK);
    for (uint64_t i = 0; i < 2; i++)
        chan_put(&chan, B, RDMAD_OP_RECV, 1000, 500, 7);
    cr_assert_eq(chan_wait(&chan, A).status, 0);
    cr_assert_eq(chan_wait(&chan, A).status, 0);
    count = read_all(t);
    cr_expect_eq(count_begun(count, 2), 0, "it began again");
    cr_assert_eq(count, 2);
    cr_expect(!seen[1].begun && seen[1].user_data == 2 && seen[1].span_ns >= 50000);
    plane_trace_end(t);
    channel_down(&chan);
}

Test(trace, what_is_refused_has_the_peer_that_it_was_for) {
    struct chan chan;
    channel_up(&chan);
    struct plane_trace *t = begin((struct plane_trace_filter){.peer = RIG_OWNER});
    struct rdmad_sqe bad = chan_sqe(RDMAD_OP_SEND, 0, 8192, 1); /* more than the pool has */
    cr_assert_eq(rig_do(&chan.end[A].client, &bad).status, RDMAD_E_RANGE);
    bad = chan_sqe(RDMAD_OP_RECV, 0, 8, 2);
    bad.flags = RDMAD_SQE_FENCE;
    cr_assert_eq(rig_do(&chan.end[A].client, &bad).status, RDMAD_E_RESERVED);
    bad.lease++; /* names nothing */
    cr_assert_eq(rig_do(&chan.end[A].client, &bad).status, RDMAD_E_RESERVED);
    cr_assert_eq(read_all(t), 2);
    for (unsigned i = 0; i < 2; i++)
        cr_expect(seen[i].user_data == i + 1 && !strcmp(seen[i].node, "there") &&
                  seen[i].route == PLANE_ROUTES);
    plane_trace_end(t);
    channel_down(&chan);

    routes_up(NULL, 1, CLOCK_NEVER);
    t = begin((struct plane_trace_filter){.node = "there"});
    cr_assert_eq(run(RDMAD_OP_READ, REMOTE, 2 * BYTES, 1), RDMAD_E_RANGE);
    cr_assert_eq(run(RDMAD_OP_READ, LOCAL, 2 * BYTES, 2), RDMAD_E_RANGE);
    cr_assert_eq(run(RDMAD_OP_READ, REMOTE + 99, 8, 3), RDMAD_E_NO_LEASE);
    cr_assert_eq(read_all(t), 1);
    cr_expect(seen[0].user_data == 1 && seen[0].peer == RIG_OWNER && seen[0].lease == RIG_LEASE);
    plane_trace_end(t);
    routes_down();
}

/* ---- filters -------------------------------------------------------------------------------- */

/* A write by the link (70 us), one here, a read that is refused, by c; a write here by a second
 * session of uid 1000. Returns how many of those the filter lets through. */
static unsigned let_through(struct plane_trace_filter filter) {
    struct plane_trace *t = begin(filter);
    struct rig_client second;
    rig.uid = 1000;
    rig_client_up(&rig, &second, 2, 2, 4096);
    rig.uid = 0;
    rig_lease_local(&second, LOCAL, 901, near, BYTES, RDMAD_RIGHTS_ALL, CLOCK_NEVER, &audit);
    cr_assert_eq(run(RDMAD_OP_WRITE, REMOTE, 64, 1), 0);
    cr_assert_eq(run(RDMAD_OP_WRITE, LOCAL, 64, 2), 0);
    cr_assert_eq(run(RDMAD_OP_READ, LOCAL, 2 * BYTES, 3), RDMAD_E_RANGE);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, LOCAL, 64);
    sqe.user_data = 4;
    cr_assert_eq(rig_do(&second, &sqe).status, 0);
    unsigned count = read_all(t);
    rig_client_down(&second);
    plane_trace_end(t);
    return count;
}

Test(trace, each_filter_lets_through_its_own) {
    routes_up(NULL, 1, CLOCK_NEVER);
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = 70000;
    cr_expect_eq(let_through((struct plane_trace_filter){.session = 0}), 4);
    cr_expect_eq(let_through((struct plane_trace_filter){.session = RIG_SESSION}), 3);
    cr_expect_eq(let_through((struct plane_trace_filter){.of_uid = true, .user.uid = 1000}), 1);
    cr_expect_eq(seen[0].user_data, 4);
    cr_expect_eq(let_through((struct plane_trace_filter){.of_uid = true, .user.uid = 0}), 3);
    cr_expect_eq(let_through((struct plane_trace_filter){.peer = RIG_OWNER}), 1);
    cr_expect_eq(seen[0].user_data, 1);
    cr_expect_eq(let_through((struct plane_trace_filter){.peer = RIG_OWNER + 1}), 0);
    cr_expect_eq(let_through((struct plane_trace_filter){.node = "there"}), 1);
    cr_expect_eq(let_through((struct plane_trace_filter){.node = "ther"}), 0);
    cr_expect_eq(let_through((struct plane_trace_filter){.opcodes = 1u << RDMAD_OP_READ}), 1);
    cr_expect_eq(seen[0].user_data, 3);
    cr_expect_eq(let_through((struct plane_trace_filter){.failed = true}), 1);
    cr_expect_eq(seen[0].user_data, 3);
    cr_expect_eq(let_through((struct plane_trace_filter){.slower_ns = 50000}), 1);
    cr_expect_eq(seen[0].user_data, 1);
    cr_expect_eq(let_through((struct plane_trace_filter){.slower_ns = NSEC_PER_SEC}), 0);
    routes_down();
}

Test(trace, a_tenants_user_is_another_one_than_who_has_its_uid) {
    routes_up(NULL, 1, CLOCK_NEVER);
    struct rig_client tenants;
    rig.tenant = 1; /* of uid 0, as c */
    rig_client_up(&rig, &tenants, 2, 2, 4096);
    rig.tenant = 0;
    rig_settle(&rig);
    struct plane_trace *own = begin((struct plane_trace_filter){.of_user = true, .user.uid = 0});
    struct plane_trace *all = begin((struct plane_trace_filter){.of_uid = true, .user.uid = 0});
    struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};
    cr_assert_eq(rig_do(&tenants, &nop).status, 0);
    cr_assert_eq(rig_do(&c, &nop).status, 0);
    cr_assert_eq(read_all(own), 1);
    cr_expect_eq(seen[0].session, RIG_SESSION);
    cr_expect_eq(read_all(all), 2);
    plane_trace_end(own);
    plane_trace_end(all);
    rig_client_down(&tenants);
    routes_down();
}

/* An opcode is a client's byte. */
Test(trace, an_opcode_that_there_is_none_of_is_in_no_filter_of_kinds) {
    routes_up(NULL, 1, CLOCK_NEVER);
    struct plane_trace *reads = begin((struct plane_trace_filter){.opcodes = UINT32_MAX});
    struct plane_trace *all = begin((struct plane_trace_filter){.session = 0});
    for (unsigned opcode = RDMAD_OP_COUNT; opcode < 256; opcode++) {
        struct rdmad_sqe sqe = {.opcode = (uint8_t)opcode};
        cr_assert_eq(rig_do(&c, &sqe).status, RDMAD_E_OPCODE);
    }
    cr_expect_eq(read_all(reads), 0);
    cr_expect_eq(read_all(all), 256 - RDMAD_OP_COUNT);
    cr_expect_eq(seen[0].opcode, RDMAD_OP_COUNT);
    plane_trace_end(reads);
    plane_trace_end(all);
    routes_down();
}

/* ---- who does not read ---------------------------------------------------------------------- */

Test(trace, who_does_not_read_loses_records_and_nobody_else_does) {
    routes_up(NULL, 1, CLOCK_NEVER);
    struct plane_trace *lazy = begin((struct plane_trace_filter){.session = 0});
    struct plane_trace *reads = begin((struct plane_trace_filter){.session = 0});
    const uint64_t ops = RECORDS + 1000;
    uint64_t next = 0;
    for (uint64_t i = 0; i < ops; i++) {
        cr_assert_eq(run(RDMAD_OP_WRITE, LOCAL, 8, i), 0);
        if (i % 500 && i + 1 < ops)
            continue;
        unsigned count = read_all(reads);
        for (unsigned k = 0; k < count; k++)
            cr_assert_eq(seen[k].user_data, next++);
    }
    cr_expect_eq(next, ops, "%lu of %lu", next, ops);
    cr_expect_eq(plane_trace_dropped(reads), 0);
    cr_expect_eq(plane_trace_dropped(lazy), 1000);
    cr_assert_eq(read_all(lazy), RECORDS);
    cr_expect(seen[0].user_data == 0 && seen[RECORDS - 1].user_data == RECORDS - 1);
    cr_assert_eq(run(RDMAD_OP_WRITE, LOCAL, 8, 5), 0);
    cr_expect_eq(read_all(lazy), 1, "there is room again");
    plane_trace_end(lazy);
    plane_trace_end(reads);
    routes_down();
}

/* What a slow filter leaves out is not dropped for want of room. */
Test(trace, only_what_is_wanted_counts_as_dropped) {
    routes_up(NULL, 1, CLOCK_NEVER);
    struct plane_trace *t = begin((struct plane_trace_filter){.slower_ns = NSEC_PER_SEC});
    for (uint64_t i = 0; i < RECORDS + 100; i++)
        cr_assert_eq(run(RDMAD_OP_WRITE, LOCAL, 8, i), 0);
    cr_expect_eq(read_all(t), 0);
    cr_expect_eq(plane_trace_dropped(t), 0);
    plane_trace_end(t);
    routes_down();
}

Test(trace, traces_end_in_any_order_with_notes_and_a_session_that_is_gone) {
    routes_up(NULL, 1, CLOCK_NEVER);
    const struct worker *w = &rig.plane[HERE]->worker[0];
    struct plane_trace *t[3];
    for (unsigned i = 0; i < 3; i++)
        t[i] = begin((struct plane_trace_filter){.session = 0});
    struct rig_client gone;
    rig_client_up(&rig, &gone, 2, 2, 4096);
    rig_put(&gone, &(struct rdmad_sqe){.opcode = RDMAD_OP_NOP});
    worker_turn(&rig.plane[HERE]->worker[0], sim_now());
    plane_trace_end(t[1]); /* with a note in it */
    rig_client_down(&gone);
    cr_expect_eq(read_all(t[0]), 1);
    plane_trace_end(t[0]);
    rig_settle(&rig);
    cr_assert_not_null(w->traces);
    cr_assert_eq(run(RDMAD_OP_WRITE, LOCAL, 8, 1), 0);
    cr_expect_eq(read_all(t[2]), 2);
    plane_trace_end(t[2]);
    rig_settle(&rig);
    cr_expect_null(w->traces, "an op looks at nothing any more");
    routes_down();
}

/* To free it may unmap, and wait for the process's lock of its address space. */
Test(trace, what_has_ended_is_freed_by_the_control_thread_and_not_by_a_worker) {
    routes_up(NULL, 1, CLOCK_NEVER);
    struct worker *w = &rig.plane[HERE]->worker[0];
    struct plane_trace *t = begin((struct plane_trace_filter){.session = 0});
    const struct op_trace *part = t->of[0];
    plane_trace_end(t);
    cr_assert_not(mailbox_pending(&rig.control));
    worker_turn(w, sim_now());
    cr_expect_null(w->traces);
    cr_assert(mailbox_pending(&rig.control), "the worker has freed it");
    cr_expect_not_null(part->ring.records);
    rig_settle(&rig);
    routes_down();
}
