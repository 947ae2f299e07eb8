/* SPDX-License-Identifier: MIT */
/*
 * A lessee may notify as soon as there is a key for it, and is heard: however quick it is, and
 * however long the control thread is away just then.
 */
#include "daemon/op/engine/message.h"
#include "daemon/op/notify/wire.h"
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <endian.h>

#define BYTES 4096u
#define REF 77u

static struct rig rig;
static struct rig_client owner;
static struct rig_remote remote;

/* sim, where a lessee notifies before anybody has told it the key. */
static struct {
    struct fabric_ops ops;
    unsigned notified;
} shim;

static int shim_window_open(struct fabric *f, const struct fabric_window_spec *spec,
                            struct fabric_window **out, struct fabric_blob *key,
                            struct error *err) {
    struct worker *w = &rig.plane[THERE]->worker[0];
    int rc = fabric_sim.window_open(f, spec, out, key, err);
    struct notify_message m = {.type = OP_MESSAGE_NOTIFY,
                               .imm = htole32(7),
                               .number = htole32(++shim.notified),
                               .ref = htole64(REF)};
    RIG_FABRIC(rig, w)->env.received(w, RIG_PEER, 1, &m, sizeof(m));
    return rc;
}

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    shim.ops = fabric_sim;
    shim.ops.window_open = shim_window_open;
    settings.fabrics[0] = &shim.ops;
    rig_up(&rig, &settings, 9);
    rig_client_on(&rig, THERE, &owner, 64, 128, BYTES);
    rig_grant(&owner, RIG_LEASE);
}

static void teardown(void) {
    rig_client_down(&owner);
    rig_remote_down(&rig, &remote);
    rig_down(&rig);
}

TestSuite(notify_early, .init = setup, .fini = teardown, .timeout = 60);

static struct plane_window_notify notify_owner(void) {
    return (struct plane_window_notify){.ref = REF, .owner = owner.session, .lease_id = RIG_LEASE};
}

static void up(void) {
    const struct plane_window_notify notify = notify_owner();
    rig_remote_notifies(&rig, &remote, owner.pool, BYTES, RDMAD_RIGHTS_ALL,
                        sim_now() + 1000 * NSEC_PER_SEC, &notify);
}

Test(notify_early, what_comes_while_its_window_opens_is_kept) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_NOTIFIED, .lease = RIG_LEASE};
    up();
    cr_assert_eq(shim.notified, 1);
    rig_put(&owner, &sqe);
    struct rdmad_cqe cqe = rig_wait(&owner);
    cr_expect(cqe.status == 0 && cqe.imm == 7, "status %d, imm %lu", cqe.status,
              (unsigned long)cqe.imm);
}

/* Else somebody would write, and notify nobody. */
Test(notify_early, a_window_whose_lessee_could_not_notify_is_not_opened) {
    const struct plane_window_notify notify = notify_owner();
    struct rig_answer opened = {0}, closed = {0};
    struct fabric_window_spec spec = {.peer = RIG_PEER,
                                      .base = owner.pool,
                                      .length = BYTES,
                                      .rights = RDMAD_RIGHTS_ALL,
                                      .deadline_ns = CLOCK_NEVER,
                                      .audit = &remote.audit};
    up();
    struct plane_window *another = /* by the same reference */
        plane_window_open(rig.plane[THERE], rig.fabric, &spec, &notify, rig_blob, &opened);
    cr_expect_eq(rig_await(&rig, &opened), RDMAD_E_EXISTS);
    cr_expect_eq(shim.notified, 1, "it was opened");
    plane_window_close(another, RDMAD_E_LEASE_REVOKED, rig_done, &closed);
    cr_expect_eq(rig_await(&rig, &closed), 0);
}
