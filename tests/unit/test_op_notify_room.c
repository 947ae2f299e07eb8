/* SPDX-License-Identifier: MIT */
/*
 * Which NOTIFYs there is room for is what the owner's daemon says, asked by the way the data goes:
 * nothing is refused that fewer than RDMAD_NOTIFY_DEPTH untaken ones are before, and nothing told.
 */
#include "daemon/op/engine/message.h"
#include "daemon/op/notify/wire.h"
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define BYTES 4096u
#define FAR RIG_HANDLE(3)
#define REF 77u

static struct rig rig;
static struct rig_client c, owner;
static struct rig_remote remote;

/* sim with an owner's daemon that lies. */
static struct {
    struct fabric_ops ops;
    struct fabric_env env[4];
    const struct fabric_env *given;
    unsigned opened, asks;
    bool lies;
    uint64_t lie;
} shim;

static void shim_complete(void *user, struct fabric_op *op) {
    shim.asks += op->asks;
    if (shim.lies && op->asks)
        op->value = shim.lie;
    shim.given->complete(user, op);
}

static int shim_open(const struct fabric_env *env, struct fabric **out, struct error *err) {
    struct fabric_env *mine = &shim.env[shim.opened++];
    shim.given = env;
    *mine = *env;
    mine->complete = shim_complete;
    return fabric_sim.open(mine, out, err);
}

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.max_session_ops = 512;
    shim.ops = fabric_sim;
    shim.ops.open = shim_open;
    settings.fabrics[0] = &shim.ops;
    rig_up(&rig, &settings, 9);
    sim_script()->max_inflight = 1000;
    rig_client_up(&rig, &c, 512, 1024, BYTES);
    rig_client_on(&rig, THERE, &owner, 512, 1024, BYTES);
    rig_grant(&owner, RIG_LEASE);
    const struct plane_window_notify notify = {
        .ref = REF, .owner = owner.session, .lease_id = RIG_LEASE};
    rig_remote_notifies(&rig, &remote, owner.pool, BYTES, RDMAD_RIGHTS_ALL,
                        sim_now() + 1000 * NSEC_PER_SEC, &notify);
    rig_lease(&c, &remote, FAR, RIG_LEASE, RDMAD_RIGHTS_ALL);
}

static void teardown(void) {
    rig_client_down(&c);
    rig_client_down(&owner);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

TestSuite(notify_room, .init = setup, .fini = teardown, .timeout = 60);

static void put(uint32_t imm) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFY,
                            .pool = RIG_HANDLE(0),
                            .lease = FAR,
                            .length = 8,
                            .imm = imm,
                            .user_data = imm};
    rig_put(&c, &sqe);
}

static void ask(uint32_t user_data) {
    struct rdmad_sqe sqe = {
        .opcode = RDMAD_OP_NOTIFIED, .lease = RIG_LEASE, .user_data = user_data};
    rig_put(&owner, &sqe);
}

static void take(uint32_t imm) {
    ask(imm);
    struct rdmad_cqe cqe = rig_wait(&owner);
    cr_assert_eq(cqe.status, 0);
    cr_assert_eq(cqe.imm, imm, "%u instead of %u", (unsigned)cqe.imm, imm);
}

static void done(uint32_t imm, int status) {
    struct rdmad_cqe cqe = rig_wait(&c);
    cr_assert_eq(cqe.user_data, imm, "%u ended instead of %u", (unsigned)cqe.user_data, imm);
    cr_assert_eq(cqe.status, status, "%u: status %d", imm, cqe.status);
}

static bool quiet(void) {
    struct rdmad_cqe cqe;
    rig_run_until(&rig, sim_now() + NSEC_PER_SEC);
    return !rig_take(&c, &cqe);
}

/* The owner takes as they come, and the answers take their time: 16 are out, and of what came the
 * owner's client has left 40 at most. */
Test(notify_room, fewer_untaken_than_the_depth_are_never_refused) {
    enum { COUNT = 20000, OUT = 16, LEFT = 40 };
    uint32_t sent = 0, ended = 0, taken = 0, asked = 0;
    struct rdmad_cqe cqe;
    sim_script()->delay_max_ns = 200000;
    while (taken < COUNT) {
        while (sent < COUNT && sent - ended < OUT && sent - taken < LEFT)
            put(sent++);
        rig_run_until(&rig, sim_now() + 20000);
        while (rig_take(&c, &cqe)) {
            cr_assert_eq(cqe.status, 0, "%u of %u: %d, with %u untaken", (unsigned)cqe.user_data,
                         COUNT, cqe.status, sent - taken);
            ended++;
        }
        for (; asked < ended; asked++)
            ask(asked);
        while (rig_take(&owner, &cqe))
            cr_assert_eq(cqe.imm, taken++, "out of order");
    }
    cr_expect_lt(shim.asks, COUNT / 10, "%u questions for %u notifications", shim.asks, COUNT);
}

Test(notify_room, one_too_many_waits_for_the_owners_word_and_not_longer) {
    uint32_t n;
    for (n = 0; n < RDMAD_NOTIFY_DEPTH; n++) {
        put(n);
        done(n, 0);
    }
    sim_script()->hold_sends = true; /* so the question has no answer yet */
    put(n);
    cr_assert(quiet(), "it was refused before anybody was asked");
    take(0); /* and now there is room */
    sim_script()->hold_sends = false;
    done(n, 0);
    put(n + 1);
    done(n + 1, RDMAD_E_NO_WAITER);
    for (uint32_t i = 1; i <= n; i++)
        take(i);
}

Test(notify_room, those_that_wait_go_on_in_the_order_they_came_and_the_rest_is_refused) {
    uint32_t n;
    for (n = 0; n < RDMAD_NOTIFY_DEPTH; n++) {
        put(n);
        done(n, 0);
    }
    sim_script()->hold_sends = true;
    for (uint32_t i = 0; i < 30; i++)
        put(n + i);
    cr_assert(quiet());
    for (uint32_t i = 0; i < 20; i++)
        take(i);
    sim_script()->hold_sends = false;
    bool refused = false;
    unsigned let_in = 0;
    for (uint32_t i = 0; i < 30; i++) {
        struct rdmad_cqe cqe = rig_wait(&c);
        refused = refused || cqe.status;
        let_in += !cqe.status;
        cr_assert(!cqe.status || cqe.status == RDMAD_E_NO_WAITER);
    }
    cr_assert_eq(let_in, 20);
    for (uint32_t i = 20; i < n + 20; i++)
        take(i); /* no holes */
    rig_settle(&rig);
}

Test(notify_room, without_a_link_nothing_is_refused) {
    uint32_t n;
    for (n = 0; n < RDMAD_NOTIFY_DEPTH; n++) {
        put(n);
        done(n, 0);
    }
    rig_break(&rig);
    put(n);
    cr_assert(quiet());
    take(0);
    rig_rebuild(&rig, &remote);
    rig_key(&c, &remote, FAR);
    done(n, 0);
    for (uint32_t i = 1; i <= n; i++)
        take(i);
}

Test(notify_room, what_waits_for_room_ends_by_its_deadline_and_with_its_lease) {
    struct rig_answer ended = {0};
    uint32_t n;
    for (n = 0; n < RDMAD_NOTIFY_DEPTH; n++) {
        put(n);
        done(n, 0);
    }
    sim_script()->hold_sends = true;
    put(n);
    cr_assert(quiet());
    rig_run_until(&rig, sim_now() + 10 * NSEC_PER_SEC);
    done(n, RDMAD_E_TIMEOUT);
    put(n);
    cr_assert(quiet());
    plane_lease_end(c.session, FAR, RDMAD_E_LEASE_RELEASED, rig_done, &ended);
    done(n, RDMAD_E_LEASE_RELEASED);
    cr_assert_eq(rig_await(&rig, &ended), 0);
    sim_script()->hold_sends = false;
}

Test(notify_room, an_answer_that_cannot_be_changes_nothing) {
    uint32_t n;
    const uint64_t lies[] = {0,
                             UINT64_MAX,
                             RDMAD_NOTIFY_DEPTH, /* an attach that is not known */
                             NOTIFY_KNOWN | (RDMAD_NOTIFY_DEPTH + 1),
                             NOTIFY_KNOWN | UINT32_MAX,
                             NOTIFY_KNOWN | 0x80000000u,
                             2 * NOTIFY_KNOWN | 10,
                             NOTIFY_KNOWN};
    shim.lies = true;
    for (n = 0; n < RDMAD_NOTIFY_DEPTH; n++) {
        put(n);
        done(n, 0);
    }
    for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
        shim.lie = lies[i];
        put(n);
        done(n, RDMAD_E_NO_WAITER);
    }
    shim.lie = NOTIFY_KNOWN | 10;
    put(n);
    done(n, 0);
    cr_assert(quiet()); /* it has come by then */
    shim.lies = false;
    for (uint32_t i = 0; i < RDMAD_NOTIFY_DEPTH; i++)
        take(i);
    cr_expect_eq(remote.audit.refused, 1, "the owner's daemon holds no more than it may");
}
