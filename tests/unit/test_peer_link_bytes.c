/* SPDX-License-Identifier: MIT */
/* What a link holds at a device for messages: whose it is, and until when. */
#include "tests/unit/lessee_steps.h"

TestSuite(peer_link_bytes, .init = up, .fini = down, .timeout = 60);

/* The nth lane's link breaks. */
static void lane_breaks(int nth) {
    struct error why = {RDMAD_E_PEER_LOST, "connection reset"};
    peers_lane_lost(rig.st.peers, fake_call(FAKE_LANE_NEW, nth)->cookie, &why);
}

/* Up to where the keys are asked for. The owner hears that the old link is gone. */
static void made_anew(struct raw *r, uint64_t old) {
    cr_expect_eq(raw_expect(r, PEER_MSG_LINK_GONE).link_gone.via, old);
    rig_advance(PEER_RETRY_MAX_NS);
    link_up(r);
}

static struct fabric_ops device;

static void have_device(void) {
    device = fake_fabric;
    device.link_bytes = 1000;
    fake_fabrics[0] = &device;
}

Test(peer_link_bytes, what_a_link_holds_is_its_makers_until_the_link_is_gone) {
    uint64_t ref;
    struct quota_account *user = s->uid_account;
    have_device();
    struct raw *r = attached(60000, &ref);
    cr_expect_eq(user->used[QUOTA_REGISTERED], 1000);
    lane_breaks(0);
    made_anew(r, 1);
    cr_expect_eq(user->used[QUOTA_REGISTERED], 1000, "made anew is no second one");
    quota_uid_ref(&rig.st.quota, user->uid);
    rig_close(s);
    fake_answer_all();
    quiet();
    rig_advance(PEER_LANE_IDLE_NS);
    cr_expect_eq(fake_pending(FAKE_LANE_DROP), 1);
    cr_expect_eq(user->used[QUOTA_REGISTERED], 1000, "its worker still has it");
    fake_answer_all();
    cr_expect_eq(user->used[QUOTA_REGISTERED], 0);
    quota_uid_unref(&rig.st.quota, user);
    s = rig_session(1000);
}

Test(peer_link_bytes, who_may_hold_no_more_gets_no_link) {
    have_device();
    rig.st.quota.limits.uid[QUOTA_REGISTERED] = 999;
    begin();
    struct raw *r = greet();
    grant(r, asked(r), 60000);
    failed(RDMAD_E_LIMIT, "bytes registered for other daemons");
    cr_expect_eq(fake_count(FAKE_LANE_NEW), 0);
    cr_expect_eq(s->uid_account->used[QUOTA_REGISTERED], 0);
}
