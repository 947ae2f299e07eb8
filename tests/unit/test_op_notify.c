/* SPDX-License-Identifier: MIT */
/* A word to the owner comes after the bytes, once, and no more of them than were allowed. */
#include "daemon/op/engine/message.h"
#include "daemon/op/notify/wire.h"
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <endian.h>
#include <string.h>

#define BYTES 65536u
#define FAR RIG_HANDLE(3)
#define NEAR RIG_HANDLE(4)
#define NEAR_LEASE 901u
#define REF 5555u

static struct rig rig;
static struct rig_client c, far, near; /* the lessee, and the owners of its two leases */
static struct rig_remote remote;
static struct fabric_audit audit;
static uint64_t deadline_ns;

/* sim with messages of which it is known that a broken link took none of them, if need be. */
static struct {
    struct fabric_ops ops;
    struct fabric_env env[8];
    const struct fabric_env *given[8];
    unsigned opened;
    bool untouched;
} shim;

static void shim_complete(void *user, struct fabric_op *op) {
    if (shim.untouched && op->opcode == RDMAD_OP_SEND && op->outcome == RDMAD_UNKNOWN)
        op->outcome = RDMAD_FAILED_UNTOUCHED;
    shim.given[0]->complete(user, op);
}

static int shim_open(const struct fabric_env *env, struct fabric **out, struct error *err) {
    unsigned i = shim.opened++;
    shim.given[i] = env;
    shim.env[i] = *env;
    shim.env[i].complete = shim_complete;
    return fabric_sim.open(&shim.env[i], out, err);
}

static struct plane_window_notify notify_far(uint64_t ref) {
    return (struct plane_window_notify){.ref = ref, .owner = far.session, .lease_id = RIG_LEASE};
}

static void up(unsigned workers) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.workers = workers;
    settings.max_session_ops = 256;
    shim.ops = fabric_sim;
    shim.ops.open = shim_open;
    settings.fabrics[0] = &shim.ops;
    rig_up(&rig, &settings, 5);
    sim_script()->max_inflight = 1000;
    deadline_ns = sim_now() + 100 * NSEC_PER_SEC;
    rig_client_up(&rig, &c, 256, 512, BYTES);
    rig_client_up(&rig, &near, 256, 512, BYTES);
    rig_client_on(&rig, THERE, &far, 256, 512, BYTES);
    rig_grant(&far, RIG_LEASE);
    rig_grant(&near, NEAR_LEASE);
    const struct plane_window_notify notify = notify_far(REF);
    rig_remote_notifies(&rig, &remote, far.pool, BYTES, RDMAD_RIGHTS_ALL, deadline_ns, &notify);
    rig_lease(&c, &remote, FAR, RIG_LEASE, RDMAD_RIGHTS_ALL);
    rig_lease_of(&c, NEAR, NEAR_LEASE, &near, near.pool, BYTES, RDMAD_RIGHTS_ALL, deadline_ns,
                 &audit);
}

static void setup(void) {
    up(1);
}

static void down(void) {
    rig_client_down(&c);
    rig_client_down(&near);
    rig_client_down(&far);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

TestSuite(notify, .init = setup, .timeout = 60);

static struct rdmad_sqe notify_of(uint64_t handle, uint64_t length, uint32_t imm) {
    return (struct rdmad_sqe){.opcode = RDMAD_OP_NOTIFY,
                              .pool = length ? RIG_HANDLE(0) : 0,
                              .lease = handle,
                              .length = length,
                              .imm = imm,
                              .user_data = imm};
}

static struct rdmad_cqe notify(uint64_t handle, uint64_t length, uint32_t imm) {
    struct rdmad_sqe sqe = notify_of(handle, length, imm);
    return rig_do(&c, &sqe);
}

static struct rig_client *owner_of(uint64_t handle) {
    return handle == FAR ? &far : &near;
}

static void ask(uint64_t handle, uint64_t user_data) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFIED,
                            .lease = handle == FAR ? RIG_LEASE : NEAR_LEASE,
                            .user_data = user_data};
    rig_put(owner_of(handle), &sqe);
}

static void expect_notice(uint64_t handle, uint64_t length, uint32_t imm) {
    struct rdmad_cqe cqe = rig_wait(owner_of(handle));
    cr_assert_eq(cqe.status, 0);
    cr_assert_eq(cqe.outcome, RDMAD_DONE);
    cr_assert_eq(cqe.opcode, RDMAD_OP_NOTIFIED);
    cr_assert_eq(cqe.flags, RDMAD_CQE_IMM);
    cr_assert_eq(cqe.imm, imm);
    cr_assert_eq(cqe.bytes, length);
}

static void no_notice(uint64_t handle) {
    struct rdmad_cqe cqe;
    rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
    cr_assert_not(rig_take(owner_of(handle), &cqe), "a notice nobody sent: status %d", cqe.status);
}

static const uint64_t routes[] = {FAR, NEAR};

Test(notify, the_owner_sees_the_bytes_when_it_hears_of_them) {
    sim_script()->chunk = 512;
    for (unsigned round = 0; round < 40; round++) {
        sim_script()->unordered = round & 1;
        sim_script()->delay_max_ns = 50000;
        if (round == 1)
            rig_rebuild(&rig, &remote), rig_key(&c, &remote, FAR);
        for (size_t i = 0; i < 2; i++) {
            uint64_t length = round % 4 == 3 ? BYTES : 100 + 1000 * round;
            memset(c.pool, (int)round + 1, length);
            struct rdmad_sqe sqe = notify_of(routes[i], length, round);
            rig_put(&c, &sqe);
            ask(routes[i], round);
            expect_notice(routes[i], length, round);
            const uint8_t *at = owner_of(routes[i])->pool;
            for (uint64_t n = 0; n < length; n++)
                cr_assert_eq(at[n], round + 1, "byte %lu was not there yet", (unsigned long)n);
            struct rdmad_cqe cqe = rig_wait(&c);
            cr_assert_eq(cqe.status, 0);
            cr_assert_eq(cqe.bytes, length);
        }
    }
    down();
}

Test(notify, notices_wait_for_their_owner_in_the_order_they_were_left) {
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t n = 0; n < 10; n++)
            cr_assert_eq(notify(routes[i], n, n).status, 0);
        for (uint32_t n = 0; n < 10; n++)
            ask(routes[i], n);
        for (uint32_t n = 0; n < 10; n++)
            expect_notice(routes[i], n, n);
        no_notice(routes[i]);
    }
    down();
}

Test(notify, no_bytes_are_a_notice_all_the_same) {
    for (size_t i = 0; i < 2; i++) {
        struct rdmad_cqe cqe = notify(routes[i], 0, UINT32_MAX);
        cr_assert_eq(cqe.status, 0);
        cr_assert_eq(cqe.outcome, RDMAD_DONE);
        ask(routes[i], 1);
        expect_notice(routes[i], 0, UINT32_MAX);
    }
    down();
}

Test(notify, without_room_it_is_refused_before_a_byte_is_written) {
    for (size_t i = 0; i < 2; i++) {
        memset(c.pool, 1, 8);
        for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++)
            cr_assert_eq(notify(routes[i], 8, n).status, 0, "number %u", n);
        memset(c.pool, 2, 8);
        for (unsigned n = 0; n < 3; n++) {
            struct rdmad_cqe cqe = notify(routes[i], 8, 99);
            cr_assert_eq(cqe.status, RDMAD_E_NO_WAITER);
            cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
            cr_assert_eq(cqe.lease_id, routes[i] == FAR ? RIG_LEASE : NEAR_LEASE);
        }
        cr_assert_eq(owner_of(routes[i])->pool[0], 1);
        ask(routes[i], 0);
        expect_notice(routes[i], 8, 0);
        rig_settle(&rig);
        cr_assert_eq(notify(routes[i], 8, 77).status, 0, "what was taken makes room");
        cr_assert_eq(notify(routes[i], 8, 78).status, RDMAD_E_NO_WAITER, "and no more than that");
    }
    down();
}

Test(notify, one_that_ends_before_it_left_its_notice_keeps_no_room) {
    struct rdmad_sqe sqe = notify_of(FAR, 8, 1);
    rig_break(&rig);
    sqe.timeout_ns = NSEC_PER_MSEC;
    for (unsigned n = 0; n < 2 * RDMAD_NOTIFY_DEPTH; n++) {
        struct rdmad_cqe cqe = rig_do(&c, &sqe);
        cr_assert_eq(cqe.status, RDMAD_E_TIMEOUT);
        cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
    }
    down();
}

Test(notify, what_waits_for_a_link_is_sent_once_it_is_there) {
    struct rdmad_sqe sqe = notify_of(FAR, 8, 31);
    rig_break(&rig);
    rig_put(&c, &sqe);
    no_notice(FAR);
    rig_rebuild(&rig, &remote);
    rig_key(&c, &remote, FAR);
    cr_assert_eq(rig_wait(&c).status, 0);
    ask(FAR, 1);
    expect_notice(FAR, 8, 31);
    no_notice(FAR);
    down();
}

/* After it: whether RDMAD_NOTIFY_DEPTH notices have room again. */
static void all_room_is_back(void) {
    for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++)
        cr_assert_eq(notify(FAR, 0, 1000 + n).status, 0, "room for %u only", n);
    cr_assert_eq(notify(FAR, 0, 1).status, RDMAD_E_NO_WAITER);
    for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++)
        ask(FAR, n);
    for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++)
        expect_notice(FAR, 0, 1000 + n);
}

Test(notify, a_notice_that_broke_off_with_its_link_is_not_sent_again) {
    struct rdmad_cqe cqe;
    sim_script()->hold_sends = true;
    for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++) {
        struct rdmad_sqe sqe = notify_of(FAR, 8, n);
        rig_put(&c, &sqe);
    }
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    cr_assert_not(rig_take(&c, &cqe), "it is done when the owner's daemon has the notice");
    rig_break(&rig);
    sim_script()->hold_sends = false;
    for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++) {
        cqe = rig_wait(&c);
        cr_assert_eq(cqe.status, RDMAD_E_PEER_LOST);
        cr_assert_eq(cqe.outcome, RDMAD_UNKNOWN);
        cr_assert_eq(cqe.bytes, 8, "the bytes are known to be placed");
    }
    rig_rebuild(&rig, &remote);
    rig_key(&c, &remote, FAR);
    ask(FAR, 1);
    no_notice(FAR);
    cr_assert_eq(notify(FAR, 0, 5).status, 0);
    expect_notice(FAR, 0, 5);
    all_room_is_back();
    down();
}

Test(notify, messages_that_never_left_are_sent_again_and_no_room_is_won_by_it) {
    shim.untouched = true;
    sim_script()->hold_sends = true;
    for (unsigned round = 0; round < 3; round++) {
        if (round < 2)
            for (uint32_t n = 0; n < 10; n++) {
                struct rdmad_sqe sqe = notify_of(FAR, 8, 10 * round + n);
                rig_put(&c, &sqe);
            }
        rig_run_until(&rig, sim_now() + NSEC_PER_MSEC);
        rig_break(&rig);
        rig_rebuild(&rig, &remote);
        sim_script()->hold_sends = round < 2;
        rig_key(&c, &remote, FAR);
    }
    bool seen[20] = {false};
    for (unsigned n = 0; n < 20; n++) {
        struct rdmad_cqe cqe = rig_wait(&c);
        cr_assert_eq(cqe.status, 0);
        cr_assert_eq(cqe.bytes, 8);
    }
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    for (uint32_t n = 20; n < RDMAD_NOTIFY_DEPTH; n++)
        cr_assert_eq(notify(FAR, 0, n).status, 0, "room for %u only", n);
    cr_assert_eq(notify(FAR, 0, 99).status, RDMAD_E_NO_WAITER);
    for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++) {
        ask(FAR, n);
        struct rdmad_cqe cqe = rig_wait(&far);
        cr_assert_eq(cqe.status, 0);
        if (n >= 20)
            continue;
        cr_assert(cqe.imm < 20 && !seen[cqe.imm], "a notice came twice");
        seen[cqe.imm] = true;
    }
    ask(FAR, 1);
    no_notice(FAR);
    cr_assert_eq(remote.audit.refused, 0);
    down();
}

Test(notify, one_that_came_late_though_nobody_knew_is_taken_once_and_costs_no_room) {
    sim_script()->hold_sends = true;
    sim_script()->late_send_ppm = 500000;
    for (uint32_t n = 0; n < 20; n++) {
        struct rdmad_sqe sqe = notify_of(FAR, 8, n);
        rig_put(&c, &sqe);
    }
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    rig_break(&rig);
    sim_script()->hold_sends = false;
    for (uint32_t n = 0; n < 20; n++)
        cr_assert_eq(rig_wait(&c).outcome, RDMAD_UNKNOWN);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    rig_rebuild(&rig, &remote);
    rig_key(&c, &remote, FAR);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    bool seen[20] = {false};
    struct rdmad_cqe cqe;
    for (uint32_t n = 0; n < 25; n++)
        ask(FAR, n);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    unsigned came = 0;
    for (; rig_take(&far, &cqe); came++) {
        cr_assert(cqe.imm < 20 && !seen[cqe.imm], "a notice came twice");
        seen[cqe.imm] = true;
    }
    cr_assert(came > 0 && came < 20, "the script is to lose some: %u", came);
    for (unsigned n = came; n < 25; n++) {
        cr_assert_eq(notify(FAR, 0, n).status, 0);
        expect_notice(FAR, 0, n);
    }
    all_room_is_back();
    down();
}

Test(notify, canceled_ones_leave_no_hole_in_the_room) {
    sim_script()->hold_sends = true;
    for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++) {
        struct rdmad_sqe sqe = notify_of(FAR, 0, n);
        sqe.timeout_ns = NSEC_PER_MSEC;
        rig_put(&c, &sqe);
    }
    for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++)
        cr_assert_neq(rig_wait(&c).status, 0);
    sim_script()->hold_sends = false;
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    unsigned came = 0; /* a canceled SEND may be received all the same */
    struct rdmad_cqe cqe;
    for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++)
        ask(FAR, n);
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    while (rig_take(&far, &cqe))
        came++;
    for (unsigned n = came; n < RDMAD_NOTIFY_DEPTH; n++)
        cr_assert_eq(notify(FAR, 0, n).status, 0);
    for (unsigned n = came; n < RDMAD_NOTIFY_DEPTH; n++)
        expect_notice(FAR, 0, n);
    all_room_is_back();
    down();
}

/* ---- what a peer may make of it ---------------------------------------------------------- */

static uint32_t told; /* messages so far */

static struct notify_message message_of(uint64_t ref, uint64_t length) {
    return (struct notify_message){.type = OP_MESSAGE_NOTIFY,
                                   .imm = htole32(7),
                                   .number = htole32(++told),
                                   .ref = htole64(ref),
                                   .length = htole64(length)};
}

static void tell(uint64_t peer, const struct notify_message *m, size_t size) {
    struct worker *w = &rig.plane[THERE]->worker[0];
    RIG_FABRIC(rig, w)->env.received(w, peer, 1, m, size);
    rig_settle(&rig);
}

Test(notify, a_liar_leaves_nothing) {
    struct notify_message m = message_of(REF, 0);
    told = 0;
    for (size_t size = 0; size < sizeof(m); size++)
        tell(RIG_PEER, &m, size);
    tell(RIG_PEER + 1, &m, sizeof(m)); /* another peer's reference */
    m.ref++;
    tell(RIG_PEER, &m, sizeof(m));
    m = message_of(REF, BYTES + 1); /* longer than the lease */
    tell(RIG_PEER, &m, sizeof(m));
    m = message_of(REF, 0);
    m.reserved = 1;
    tell(RIG_PEER, &m, sizeof(m));
    m = message_of(REF, 0);
    m.asks = 2;
    tell(RIG_PEER, &m, sizeof(m));
    m = message_of(REF, 0);
    m.type = 9;
    tell(RIG_PEER, &m, sizeof(m));
    m.type = 0;
    tell(RIG_PEER, &m, sizeof(m));
    ask(FAR, 1);
    no_notice(FAR);
    cr_assert_eq(remote.audit.refused, 3, "those of its own attach are counted");
    down();
}

Test(notify, who_ignores_his_allowance_gains_nothing) {
    struct rdmad_cqe cqe;
    told = 0;
    for (unsigned n = 0; n < 1000; n++) {
        struct notify_message m = message_of(REF, 0);
        tell(RIG_PEER, &m, sizeof(m));
    }
    cr_assert_eq(remote.audit.refused, 1000 - RDMAD_NOTIFY_DEPTH);
    for (unsigned n = 0; n < 100; n++)
        ask(FAR, n);
    unsigned came = 0;
    rig_settle(&rig);
    while (rig_take(&far, &cqe))
        came++;
    cr_assert_eq(came, RDMAD_NOTIFY_DEPTH);
    down();
}

Test(notify, a_number_used_before_is_no_second_notice) {
    told = 0;
    struct notify_message m = message_of(REF, 0);
    tell(RIG_PEER, &m, sizeof(m));
    tell(RIG_PEER, &m, sizeof(m));
    m.number = htole32(0x80000001);
    tell(RIG_PEER, &m, sizeof(m));
    ask(FAR, 1);
    expect_notice(FAR, 0, 7);
    ask(FAR, 2);
    no_notice(FAR);
    down();
}

Test(notify, only_a_window_that_may_be_written_brings_notices) {
    struct rig_remote other;
    const struct plane_window_notify notify = notify_far(REF + 1);
    rig_remote_notifies(&rig, &other, far.pool, BYTES, RDMAD_RIGHT_READ, deadline_ns, &notify);
    told = 0;
    struct notify_message m = message_of(REF + 1, 0);
    tell(RIG_PEER, &m, sizeof(m));
    ask(FAR, 1);
    no_notice(FAR);
    cr_assert_eq(other.audit.refused, 1);
    rig_remote_down(&rig, &other);
    m = message_of(REF + 1, 0);
    tell(RIG_PEER, &m, sizeof(m)); /* and the window is gone */
    no_notice(FAR);
    down();
}

Test(notify, after_the_deadline_a_window_brings_no_notices) {
    plane_window_extend(remote.window, sim_now() + NSEC_PER_SEC);
    rig_run_until(&rig, sim_now() + 2 * NSEC_PER_SEC);
    told = 0;
    struct notify_message m = message_of(REF, 0);
    tell(RIG_PEER, &m, sizeof(m));
    ask(FAR, 1);
    no_notice(FAR);
    down();
}

/* A device acknowledges a message before our worker has looked; and then its lessee lets go. */
Test(notify, one_that_came_before_its_window_is_closed_is_kept) {
    struct worker *here = &rig.plane[HERE]->worker[0];
    struct rig_answer closed = {0};
    struct rdmad_sqe sqe = notify_of(FAR, 0, 17);
    struct rdmad_cqe cqe = {.status = RDMAD_E_TIMEOUT};
    rig_put(&c, &sqe);
    RIG_FABRIC(rig, here)->parked = false;
    for (unsigned n = 0; n < 1000 && !rig_take(&c, &cqe); n++) {
        worker_turn(here, sim_now());
        sim_advance(1000);
    }
    cr_assert_eq(cqe.status, 0, "it is not acknowledged");
    plane_window_close(remote.window, RDMAD_E_LEASE_RELEASED, rig_done, &closed);
    remote.window = NULL;
    cr_assert_eq(rig_await(&rig, &closed), 0);
    ask(FAR, 1);
    expect_notice(FAR, 0, 17);
    down();
}

/* ---- ends -------------------------------------------------------------------------------- */

Test(notify, a_grants_end_ends_who_waits_and_drops_what_nobody_took) {
    for (size_t i = 0; i < 2; i++) {
        uint64_t id = routes[i] == FAR ? RIG_LEASE : NEAR_LEASE;
        struct rig_client *o = owner_of(routes[i]);
        struct rig_answer dropped = {0};
        ask(routes[i], 1);
        rig_settle(&rig);
        plane_grant_drop(o->session, id, RDMAD_E_LEASE_EXPIRED, rig_done, &dropped);
        cr_assert_eq(rig_await(&rig, &dropped), 0);
        struct rdmad_cqe cqe = rig_wait(o);
        cr_assert_eq(cqe.status, RDMAD_E_LEASE_EXPIRED);
        cr_assert_eq(cqe.lease_id, id);
        cr_assert_eq(cqe.outcome, RDMAD_FAILED_UNTOUCHED);
        ask(routes[i], 2);
        cr_assert_eq(rig_wait(o).status, RDMAD_E_NO_LEASE);
        rig_grant(o, id);
        cr_assert_eq(notify(routes[i], 0, 1).status, 0);
        dropped = (struct rig_answer){0};
        plane_grant_drop(o->session, id, RDMAD_E_LEASE_EXPIRED, rig_done, &dropped);
        cr_assert_eq(rig_await(&rig, &dropped), 0);
        rig_grant(o, id);
        ask(routes[i], 3);
        no_notice(routes[i]);
        cr_assert_eq(notify(routes[i], 0, 4).status, 0);
        expect_notice(routes[i], 0, 4);
    }
    down();
}

Test(notify, a_grant_is_its_sessions_alone) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFIED, .lease = NEAR_LEASE};
    cr_assert_eq(rig_do(&c, &sqe).status, RDMAD_E_NO_LEASE);
    sqe.lease = 0;
    cr_assert_eq(rig_do(&near, &sqe).status, RDMAD_E_NO_LEASE);
    down();
}

Test(notify, notices_outlive_the_attach_they_came_by) {
    cr_assert_eq(notify(FAR, 0, 1).status, 0);
    cr_assert_eq(notify(NEAR, 0, 2).status, 0);
    plane_lease_forget(c.session, NEAR);
    plane_lease_forget(c.session, FAR);
    rig_remote_down(&rig, &remote);
    for (size_t i = 0; i < 2; i++) {
        ask(routes[i], 1);
        expect_notice(routes[i], 0, (uint32_t)i + 1);
    }
    rig_client_down(&c);
    rig_client_down(&near);
    rig_client_down(&far);
    rig_down(&rig);
}

Test(notify, owners_go_with_notices_and_waiters_of_any_kind) {
    cr_assert_eq(notify(FAR, 0, 1).status, 0);
    ask(NEAR, 1);
    rig_settle(&rig);
    rig_client_down(&near);
    rig_client_down(&far);
    cr_assert_eq(notify(NEAR, 0, 2).status, 0); /* until somebody ends the lease */
    cr_assert_eq(notify(FAR, 0, 2).status, 0);
    rig_client_down(&c);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

Test(notify, who_waits_for_notices_may_have_as_many_ops_as_anybody) {
    for (unsigned n = 0; n < 200; n++) /* more than max_session_ops, with those below */
        ask(NEAR, n);
    rig_settle(&rig);
    cr_assert_eq(near.session->op.charged, 0);
    struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};
    cr_assert_eq(rig_do(&near, &nop).status, 0);
    down();
}

Test(notify, a_waiter_with_a_deadline_keeps_it_and_others_wait_for_ever) {
    struct rdmad_sqe sqe = {
        .opcode = RDMAD_OP_NOTIFIED, .lease = NEAR_LEASE, .timeout_ns = 3 * NSEC_PER_SEC};
    ask(NEAR, 1);
    rig_put(&near, &sqe);
    uint64_t before = sim_now();
    struct rdmad_cqe cqe = rig_wait(&near);
    cr_assert_eq(cqe.status, RDMAD_E_TIMEOUT);
    cr_assert_eq(sim_now(), before + 3 * NSEC_PER_SEC);
    rig_run_until(&rig, before + 90 * NSEC_PER_SEC);
    cr_assert_not(rig_take(&near, &cqe));
    down();
}

TestSuite(notify_workers, .timeout = 60);

Test(notify_workers, an_owner_on_another_worker_hears_of_it_too) {
    up(3);
    cr_assert_neq(plane_worker_of_session(c.session), plane_worker_of_session(near.session));
    for (unsigned round = 0; round < 3; round++)
        for (size_t i = 0; i < 2; i++) {
            for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++)
                cr_assert_eq(notify(routes[i], 8, n).status, 0);
            cr_assert_eq(notify(routes[i], 8, 9).status, RDMAD_E_NO_WAITER);
            for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++) {
                ask(routes[i], n);
                expect_notice(routes[i], 8, n);
            }
            rig_settle(&rig);
        }
    down();
}
