/* SPDX-License-Identifier: MIT */
/* Whoever waits hears what was notified before its lease ended. */
#include "daemon/op/engine/message.h"
#include "daemon/op/notify/wire.h"
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <endian.h>

#define BYTES 4096u
#define HANDLE RIG_HANDLE(3)

static struct rig rig;
static struct rig_client lessee, owner; /* on a worker each */
static struct fabric_audit audit;

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    settings.workers = 2;
    rig_up(&rig, &settings, 11);
    rig_client_up(&rig, &lessee, 64, 128, BYTES);
    rig_client_up(&rig, &owner, 64, 128, BYTES);
    cr_assert_neq(plane_worker_of_session(lessee.session), plane_worker_of_session(owner.session));
    rig_grant(&owner, RIG_LEASE);
    rig_lease_of(&lessee, HANDLE, RIG_LEASE, &owner, owner.pool, BYTES, RDMAD_RIGHTS_ALL,
                 sim_now() + 1000 * NSEC_PER_SEC, &audit);
}

static void teardown(void) {
    rig_client_down(&lessee);
    rig_client_down(&owner);
    rig_down(&rig);
}

TestSuite(notify_last, .init = setup, .fini = teardown, .timeout = 60);

static void ask(uint64_t user_data) {
    struct rdmad_sqe sqe = {
        .opcode = RDMAD_OP_NOTIFIED, .lease = RIG_LEASE, .user_data = user_data};
    rig_put(&owner, &sqe);
}

/* Done for the lessee, whose worker alone turns: the owner's does not know of it. */
static void notify_unheard(uint32_t imm) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFY, .lease = HANDLE, .imm = imm};
    struct worker *w = &rig.plane[HERE]->worker[plane_worker_of_session(lessee.session)];
    struct rdmad_cqe cqe;
    rig_put(&lessee, &sqe);
    for (unsigned n = 0; !rig_take(&lessee, &cqe); n++) {
        cr_assert_lt(n, 100, "it does not complete");
        worker_turn(w, sim_now());
    }
    cr_assert_eq(cqe.status, 0);
}

static void end_lease(void) {
    struct rig_answer dropped = {0};
    plane_grant_drop(owner.session, RIG_LEASE, RDMAD_E_LEASE_EXPIRED, rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
}

static struct rdmad_cqe expect_end(uint64_t user_data, int status) {
    struct rdmad_cqe cqe = rig_wait(&owner);
    cr_assert_eq(cqe.user_data, user_data);
    cr_expect_eq(cqe.status, status, "of %lu: status %d", (unsigned long)user_data, cqe.status);
    return cqe;
}

Test(notify_last, what_comes_together_with_the_end_is_given_first) {
    ask(1);
    ask(2);
    ask(3);
    rig_settle(&rig);
    notify_unheard(7);
    notify_unheard(8);
    end_lease();
    cr_expect_eq(expect_end(1, 0).imm, 7);
    cr_expect_eq(expect_end(2, 0).imm, 8);
    expect_end(3, RDMAD_E_LEASE_EXPIRED);
}

Test(notify_last, what_nobody_waits_for_goes_with_the_lease) {
    notify_unheard(7);
    end_lease();
    rig_grant(&owner, RIG_LEASE);
    ask(1);
    rig_settle(&rig);
    end_lease();
    expect_end(1, RDMAD_E_LEASE_EXPIRED);
}

/* ---- from afar, by a device that acknowledges more than a poll takes --------------------------
 */

#define REF 77u
#define ACKNOWLEDGED 5u

/* sim, of which a poll takes a message and poll_all all of them. */
static struct {
    struct fabric_ops ops;
    uint32_t waiting, taken;
} device;
static struct rig_remote remote;

static void device_take(void) {
    struct worker *w = &rig.plane[THERE]->worker[0];
    struct notify_message m = {.type = OP_MESSAGE_NOTIFY,
                               .imm = htole32(device.taken + 7),
                               .number = htole32(device.taken + 1),
                               .ref = htole64(REF)};
    device.waiting--;
    device.taken++;
    RIG_FABRIC(rig, w)->env.received(w, RIG_PEER, 1, &m, sizeof(m));
}

static unsigned device_poll(struct fabric *f) {
    unsigned work = fabric_sim.poll(f);
    if (!device.waiting || f != RIG_FABRIC(rig, &rig.plane[THERE]->worker[0])->instance)
        return work;
    device_take();
    return work + 1;
}

static unsigned device_poll_all(struct fabric *f) {
    unsigned work = device_poll(f);
    while (device.waiting)
        work += device_poll(f);
    return work;
}

static void setup_device(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    device.ops = fabric_sim;
    device.ops.poll = device_poll;
    device.ops.poll_all = device_poll_all;
    device.waiting = device.taken = 0;
    settings.fabrics[0] = &device.ops;
    rig_up(&rig, &settings, 9);
    rig_client_on(&rig, THERE, &owner, 64, 128, BYTES);
    rig_grant(&owner, RIG_LEASE);
    const struct plane_window_notify notify = {
        .ref = REF, .owner = owner.session, .lease_id = RIG_LEASE};
    rig_remote_notifies(&rig, &remote, owner.pool, BYTES, RDMAD_RIGHTS_ALL,
                        sim_now() + 1000 * NSEC_PER_SEC, &notify);
}

static void teardown_device(void) {
    rig_client_down(&owner);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

TestSuite(notify_last_device, .init = setup_device, .fini = teardown_device, .timeout = 60);

Test(notify_last_device, all_that_it_acknowledged_before_a_window_closed_is_heard) {
    struct rig_answer closed = {0};
    struct rdmad_cqe cqe;
    for (uint64_t n = 0; n < ACKNOWLEDGED; n++)
        ask(n);
    rig_settle(&rig);
    device.waiting = ACKNOWLEDGED;
    plane_window_close(remote.window, RDMAD_E_LEASE_RELEASED, rig_done, &closed);
    remote.window = NULL;
    cr_assert_eq(rig_await(&rig, &closed), 0);
    rig_settle(&rig);
    for (unsigned n = 0; n < ACKNOWLEDGED; n++) {
        cr_assert(rig_take(&owner, &cqe), "%u of %u were heard", n, ACKNOWLEDGED);
        cr_expect(cqe.status == 0 && cqe.imm == n + 7, "status %d, imm %lu", cqe.status,
                  (unsigned long)cqe.imm);
    }
}
