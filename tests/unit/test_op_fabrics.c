/* SPDX-License-Identifier: MIT */
/*
 * A worker with two fabrics of links: what concerns a peer happens on the fabric that
 * was agreed on with it, and nowhere else. Both fabrics are sim, counted apart; where that is the
 * harder case, both peers have the same number.
 */
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>
#include <string.h>

enum { BYTES = 20000, FIRST = 0, SECOND = 1 };
#define LEASE(n) RIG_HANDLE(5 + (n))

static struct counts {
    unsigned posts, polls, cancels, expels, forgets, offers, opens, closes;
} count[2];
static bool full;                /* the second takes no posts */
static unsigned pretends;        /* so many polls of the second say that it moved */
static struct fabric_ops ops[2]; /* what the planes have */

#define COUNTED(n)                                                                                \
    static int post_##n(struct fabric_link *link, struct fabric_op *op) {                         \
        count[n].posts++;                                                                         \
        return (n) == SECOND && full ? RDMAD_E_AGAIN : fabric_sim.post(link, op);                 \
    }                                                                                             \
    static unsigned poll_##n(struct fabric *f) {                                                  \
        count[n].polls++;                                                                         \
        unsigned moved = fabric_sim.poll(f);                                                      \
        bool pretend = (n) == SECOND && pretends && pretends--;                                   \
        return moved + pretend;                                                                   \
    }                                                                                             \
    static void cancel_##n(struct fabric_op *op, int status) {                                    \
        count[n].cancels++;                                                                       \
        fabric_sim.cancel(op, status);                                                            \
    }                                                                                             \
    static void expel_##n(struct fabric *f, uint64_t peer) {                                      \
        count[n].expels++;                                                                        \
        fabric_sim.expel(f, peer);                                                                \
    }                                                                                             \
    static void forget_##n(struct fabric *f, uint64_t peer, uint64_t number) {                    \
        (void)f, (void)peer, (void)number;                                                        \
        count[n].forgets++;                                                                       \
    }                                                                                             \
    static int offer_##n(struct fabric *f, uint64_t peer, bool secured,                           \
                         const struct fabric_blob *hello, struct fabric_blob *out,                \
                         struct error *err) {                                                     \
        count[n].offers++;                                                                        \
        return fabric_sim.offer(f, peer, secured, hello, out, err);                               \
    }                                                                                             \
    static int open_##n(struct fabric *f, const struct fabric_window_spec *spec,                  \
                        struct fabric_window **out, struct fabric_blob *key, struct error *err) { \
        count[n].opens++;                                                                         \
        return fabric_sim.window_open(f, spec, out, key, err);                                    \
    }                                                                                             \
    static bool close_##n(struct fabric_window *w, int reason) {                                  \
        count[n].closes++;                                                                        \
        return fabric_sim.window_close(w, reason);                                                \
    }
COUNTED(0)
COUNTED(1)

static struct rig rig;
static struct rig_client c, owner;
static struct rig_remote remote[2];

static void name(int n, const char *as) {
    ops[n] = fabric_sim;
    ops[n].name = as;
    ops[n].post = n ? post_1 : post_0;
    ops[n].poll = n ? poll_1 : poll_0;
    ops[n].cancel = n ? cancel_1 : cancel_0;
    ops[n].expel = n ? expel_1 : expel_0;
    ops[n].forget = n ? forget_1 : forget_0;
    ops[n].offer = n ? offer_1 : offer_0;
    ops[n].window_open = n ? open_1 : open_0;
    ops[n].window_close = n ? close_1 : close_0;
}

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    name(FIRST, "first");
    name(SECOND, "second");
    settings.fabrics[FIRST] = &ops[FIRST];
    settings.fabrics[SECOND] = &ops[SECOND];
    rig_up(&rig, &settings, 37);
    sim_script()->max_inflight = 1000;
    rig_client_up(&rig, &c, 64, 128, 2 * BYTES);
    rig_client_on(&rig, THERE, &owner, 64, 128, 2 * BYTES);
    for (unsigned n = FIRST; n <= SECOND; n++) {
        rig.fabric = n;
        rig_remote_up(&rig, &remote[n], owner.pool + n * BYTES, BYTES, RDMAD_RIGHTS_ALL,
                      sim_now() + 1000 * NSEC_PER_SEC);
        rig_lease(&c, &remote[n], LEASE(n), RIG_LEASE + n, RDMAD_RIGHTS_ALL);
    }
    memset(count, 0, sizeof(count));
    for (size_t i = 0; i < 2 * BYTES; i++)
        c.pool[i] = (uint8_t)(i * 13 + i / 251);
}

static void teardown(void) {
    rig_client_down(&c);
    rig_client_down(&owner);
    rig_remote_down(&rig, &remote[FIRST]);
    rig_remote_down(&rig, &remote[SECOND]);
    rig_down(&rig);
}

TestSuite(op_fabrics, .init = setup, .fini = teardown, .timeout = 60);

static void put(unsigned n, uint64_t length) {
    const struct rdmad_sqe sqe = {.opcode = RDMAD_OP_WRITE,
                                  .pool = RIG_HANDLE(0),
                                  .lease = LEASE(n),
                                  .pool_offset = n * BYTES,
                                  .length = length,
                                  .user_data = n};
    rig_put(&c, &sqe);
}

static void done(unsigned n) {
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.status, 0, "fabric %u: %d", n, cqe.status);
    cr_assert_eq(cqe.user_data, n);
}

static void nothing_comes(void) {
    struct rdmad_cqe cqe;
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    cr_assert_not(rig_take(&c, &cqe), "user_data %lu, status %d", (unsigned long)cqe.user_data,
                  cqe.status);
}

static struct fabric *instance(int where, unsigned n) {
    return rig.plane[where]->worker[0].links[n].instance;
}

/* ---- ops ----------------------------------------------------------------------------------- */

Test(op_fabrics, ops_to_a_peer_go_over_its_fabric_alone) {
    for (unsigned n = FIRST; n <= SECOND; n++) {
        put(n, BYTES);
        done(n);
        cr_expect_eq(count[n].posts, (BYTES + SIM_MAX_MESSAGE - 1) / SIM_MAX_MESSAGE);
        cr_expect_eq(count[!n].posts, n ? count[FIRST].posts : 0);
        cr_expect_eq(remote[n].audit.bytes_written, BYTES);
    }
    cr_expect_eq(memcmp(owner.pool, c.pool, 2 * BYTES), 0);
}

Test(op_fabrics, ops_over_both_are_in_flight_at_the_same_time) {
    for (unsigned i = 0; i < 20; i++) {
        put(FIRST, BYTES);
        put(SECOND, BYTES);
    }
    unsigned ended[2] = {0};
    for (unsigned i = 0; i < 40; i++) {
        struct rdmad_cqe cqe = rig_wait(&c);
        cr_assert_eq(cqe.status, 0);
        ended[cqe.user_data]++;
    }
    cr_expect(ended[FIRST] == 20 && ended[SECOND] == 20);
    cr_expect_eq(memcmp(owner.pool, c.pool, 2 * BYTES), 0);
}

Test(op_fabrics, a_link_that_takes_no_posts_is_tried_again_when_its_own_fabric_moved) {
    full = true;
    put(SECOND, 64);
    rig_settle(&rig);
    cr_assert_eq(count[SECOND].posts, 1);
    for (unsigned i = 0; i < 10; i++) {
        put(FIRST, 64);
        done(FIRST);
    }
    cr_expect_eq(count[SECOND].posts, 1, "the other fabric's moves are not its own");
    full = false;
    pretends = 1;
    done(SECOND);
    cr_expect_eq(count[SECOND].posts, 2);
}

Test(op_fabrics, a_parked_one_is_not_polled_while_others_work) {
    struct worker *w = &rig.plane[HERE]->worker[0];
    put(FIRST, 64);
    rig_settle(&rig);
    cr_assert(op_fabric_park(&w->links[SECOND]));
    count[SECOND].polls = 0;
    for (unsigned i = 0; i < 1000; i++)
        worker_turn(w, sim_now());
    cr_expect_eq(count[SECOND].polls, 0);
    cr_expect_geq(count[FIRST].polls, 1000);
    done(FIRST);
    put(SECOND, 64); /* which wakes it */
    done(SECOND);
    cr_expect_gt(count[SECOND].polls, 0);
}

/* ---- cancelled, broken, expelled, forgotten -------------------------------------------------- */

Test(op_fabrics, a_cancel_goes_to_the_fabric_that_has_the_op) {
    sim_script()->delay_min_ns = sim_script()->delay_max_ns = NSEC_PER_SEC;
    put(FIRST, 64);
    put(SECOND, 64);
    rig_settle(&rig);
    struct rig_answer ended = {0};
    plane_lease_end(c.session, LEASE(SECOND), RDMAD_E_LEASE_REVOKED, rig_done, &ended);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_expect(cqe.user_data == SECOND && cqe.status == RDMAD_E_LEASE_REVOKED);
    cr_expect(count[SECOND].cancels == 1 && count[FIRST].cancels == 0);
    done(FIRST);
}

Test(op_fabrics, a_link_that_breaks_leaves_the_other_fabrics_alone) {
    sim_break_links(instance(HERE, SECOND));
    rig_settle(&rig);
    cr_assert_eq(rig.lanes_lost, 1);
    put(SECOND, BYTES);
    put(FIRST, BYTES);
    done(FIRST);
    nothing_comes(); /* it waits: by the other it must not go */
    rig.fabric = SECOND;
    rig_rebuild(&rig, &remote[SECOND]);
    rig_key(&c, &remote[SECOND], LEASE(SECOND));
    done(SECOND);
    cr_expect_eq(memcmp(owner.pool, c.pool, 2 * BYTES), 0);
    cr_expect(count[SECOND].offers == 1 && count[FIRST].offers == 0);
}

Test(op_fabrics, a_peer_is_expelled_on_its_own_fabric_whatever_its_number_is_on_the_other) {
    struct rig_answer expelled = {0};
    plane_expel(rig.plane[THERE], SECOND, RIG_PEER, rig_done, &expelled);
    cr_assert_eq(rig_await(&rig, &expelled), 0);
    cr_expect(count[SECOND].expels == 1 && count[FIRST].expels == 0);
    rig_settle(&rig);
    cr_expect_eq(rig.lanes_lost, 1);
    put(FIRST, BYTES);
    done(FIRST);
    put(SECOND, BYTES);
    nothing_comes();
    cr_expect_eq(memcmp(owner.pool, c.pool, BYTES), 0);
}

Test(op_fabrics, a_link_is_forgotten_on_its_own_fabric) {
    struct rig_answer forgotten = {0};
    plane_forget(rig.plane[THERE], SECOND, RIG_PEER, plane_lane_number(remote[SECOND].lane),
                 rig_done, &forgotten);
    cr_assert_eq(rig_await(&rig, &forgotten), 0);
    cr_expect(count[SECOND].forgets == 1 && count[FIRST].forgets == 0);
}

/* ---- windows and messages -------------------------------------------------------------------- */

Test(op_fabrics, a_window_is_opened_anew_and_closed_on_its_own_fabric) {
    struct rig_answer again = {0}, closed = {0};
    plane_window_reopen(remote[SECOND].window, plane_lane_number(remote[SECOND].lane), rig_blob,
                        &again);
    cr_assert_eq(rig_await(&rig, &again), 0);
    cr_expect(count[SECOND].opens == 1 && count[SECOND].closes == 1);
    plane_window_close(remote[SECOND].window, RDMAD_E_LEASE_RELEASED, rig_done, &closed);
    cr_assert_eq(rig_await(&rig, &closed), 0);
    remote[SECOND].window = NULL;
    cr_expect(count[SECOND].closes == 2 && count[FIRST].opens == 0 && count[FIRST].closes == 0);
    put(FIRST, 64);
    done(FIRST);
    put(SECOND, 64);
    cr_expect_neq(rig_wait(&c).status, 0);
}

/* Small ones are posted; for a large one the sender opens a window, by which the receiver reads. */
Test(op_fabrics, a_channels_messages_and_windows_are_on_its_own_fabric) {
    struct chan ch;
    rig.fabric = SECOND;
    chan_remote_up(&rig, &ch, BYTES);
    memset(count, 0, sizeof(count));
    for (unsigned i = 0; i < 2; i++) {
        const uint64_t length = i ? BYTES / 2 : 100;
        chan_put(&ch, B, RDMAD_OP_RECV, 0, length, 7);
        chan_put(&ch, A, RDMAD_OP_SEND, 0, length, 8);
        ASSERT_CQE(chan_wait(&ch, B), 7, 0, RDMAD_DONE, length);
        ASSERT_CQE(chan_wait(&ch, A), 8, 0, RDMAD_DONE, length);
        cr_expect_eq(count[SECOND].opens, i);
    }
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    cr_expect_eq(count[SECOND].closes, 1);
    cr_expect_gt(count[SECOND].posts, 2);
    cr_expect(count[FIRST].posts == 0 && count[FIRST].opens == 0 && count[FIRST].closes == 0);
    /* What the fabric has of a send that is given up is taken from it. */
    chan_put(&ch, B, RDMAD_OP_RECV, 0, 100, 9);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    sim_script()->hold_sends = true;
    chan_put(&ch, A, RDMAD_OP_SEND, 0, 100, 10);
    rig_run_until(&rig, sim_now() + 4000);
    memset(count, 0, sizeof(count));
    chan_cancel(&ch, A, 10);
    cr_assert_eq(chan_wait(&ch, A).user_data, UINT64_MAX); /* of the CANCEL */
    ASSERT_CQE(chan_wait(&ch, A), 10, RDMAD_E_CANCELED, RDMAD_UNKNOWN, 0);
    cr_expect(count[SECOND].cancels > 0 && count[FIRST].cancels == 0);
    sim_script()->hold_sends = false;
    chan_down(&ch);
}

/* ---- what cannot be ----------------------------------------------------------------------------
 */

static int no_memory_add(struct fabric_host *host, void *base, uint64_t bytes,
                         struct fabric_memory **out, struct error *err) {
    (void)host, (void)base, (void)bytes, (void)out;
    return error_set(err, RDMAD_E_SYSTEM, "never called");
}

Test(op_fabrics_alone, two_fabrics_that_register_memory_are_refused) {
    struct plane_settings settings;
    struct plane_events events = {0};
    struct mailbox control;
    struct plane *plane;
    struct error err;
    rig_defaults(&settings);
    for (int n = 0; n < 2; n++) {
        name(n, n ? "second" : "first");
        ops[n].memory_add = no_memory_add;
        settings.fabrics[n] = &ops[n];
    }
    cr_assert_eq(mailbox_init(&control), 0);
    sim_reset(1);
    cr_expect_eq(plane_assemble(&settings, &events, &control, sim_now(), &plane, &err),
                 RDMAD_E_INVAL);
    cr_expect(strstr(err.text, "first") && strstr(err.text, "second"), "%s", err.text);
    mailbox_fini(&control);
}
