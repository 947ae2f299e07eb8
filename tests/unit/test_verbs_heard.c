/* SPDX-License-Identifier: MIT */
/*
 * A message that a device has acknowledged is heard, whatever ends before we have looked at it, and
 * however many wait: their senders were told that they arrived.
 */
#include "daemon/fabric/verbs/target/targets.h"
#include "tests/unit/verbs_rig.h"
#include <string.h>

#define BYTES ((size_t)4 << 10)

struct scene {
    struct side owner;
    struct raw raw;
    struct resources before, raw_before;
};

static void scene_open(struct scene *s) {
    *s = (struct scene){.before = resources_of("rxe0"), .raw_before = resources_of("rxe1")};
    side_defaults(&s->owner, "rxe0");
    side_open(&s->owner);
    raw_open(&s->raw, "rxe1", BYTES);
}

static void scene_close(struct scene *s) {
    raw_close(&s->raw);
    side_close(&s->owner);
    expect_resources("rxe0", &s->before);
    expect_resources("rxe1", &s->raw_before);
}

static const struct verbs_key nowhere = {.count = 1};

static enum ibv_wc_status send_raw(struct raw *r) {
    return raw_access(r, 0, IBV_WR_SEND, &nowhere, 0, 8);
}

#define SENDERS 6u /* each fills an inbox */

struct senders {
    struct scene scene;
    struct raw raw[SENDERS];
    unsigned sent;
};

/* All are acknowledged, and the owner has looked at none. */
static void all_send(struct senders *s) {
    *s = (struct senders){.sent = 0};
    scene_open(&s->scene);
    for (unsigned i = 0; i < SENDERS; i++) {
        raw_open(&s->raw[i], "rxe1", BYTES);
        raw_connect(&s->raw[i], &s->scene.owner, PEER, 1);
        for (unsigned k = 0; k < s->raw[i].inbox.count; k++, s->sent++)
            CHECK(send_raw(&s->raw[i]) == IBV_WC_SUCCESS, "message %u", s->sent);
    }
    CHECK(s->sent > 256 && s->scene.owner.messages == 0, "%u messages", s->sent);
}

static void all_close(struct senders *s) {
    for (unsigned i = 0; i < SENDERS; i++)
        raw_close(&s->raw[i]);
    fabric_verbs.expel(s->scene.owner.fabric, PEER);
    scene_close(&s->scene);
}

static void all_that_was_acknowledged_is_taken_in_at_once(void) {
    struct senders s;
    all_send(&s);
    fabric_verbs.poll_all(s.scene.owner.fabric);
    CHECK(s.scene.owner.messages == s.sent, "%u of %u", s.scene.owner.messages, s.sent);
    all_close(&s);
}

static void what_was_acknowledged_before_a_device_went_is_heard(void) {
    struct senders s;
    all_send(&s);
    struct verbs *v = verbs_of(s.scene.owner.fabric);
    shell("(rdma link delete rxe0; sleep 1; rdma link add rxe0 type rxe netdev va) &");
    for (unsigned i = 0; i < 1000 && !mailbox_pending(&v->member.mailbox); i++)
        shell("sleep 0.01");
    SIDE_UNTIL(&s.scene.owner, !v->device);
    CHECK(s.scene.owner.messages == s.sent, "%u of %u", s.scene.owner.messages, s.sent);
    SIDE_UNTIL(&s.scene.owner, v->device);
    all_close(&s);
}

static enum ibv_wc_status second = IBV_WC_GENERAL_ERR;

static void send_a_second(struct side *owner) {
    owner->received = NULL;
    second = send_raw(&container_of(owner, struct scene, owner)->raw);
}

/* It works until its last queue pair is gone. */
static void a_device_that_goes_acknowledges_nothing_that_nobody_hears(void) {
    struct scene s;
    scene_open(&s);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    struct verbs *v = verbs_of(s.owner.fabric);
    CHECK(send_raw(&s.raw) == IBV_WC_SUCCESS, "the first");
    s.owner.received = send_a_second;
    shell("(rdma link delete rxe0; sleep 1; rdma link add rxe0 type rxe netdev va) &");
    for (unsigned i = 0; i < 1000 && !mailbox_pending(&v->member.mailbox); i++)
        shell("sleep 0.01");
    SIDE_UNTIL(&s.owner, !v->device);
    unsigned acknowledged = 1 + (second == IBV_WC_SUCCESS);
    CHECK(s.owner.messages == acknowledged, "%u of %u", s.owner.messages, acknowledged);
    SIDE_UNTIL(&s.owner, v->device);
    scene_close(&s);
}

/* The owner had nothing to do for a minute, and did not look at the clock. */
static void what_was_acknowledged_before_a_link_was_closed_is_heard_after_a_sleep(void) {
    struct senders s;
    all_send(&s);
    s.scene.owner.skew_ns += 60 * NSEC_PER_SEC;
    for (unsigned i = 0; i < SENDERS; i++)
        fabric_verbs.forget(s.scene.owner.fabric, PEER, s.raw[i].number);
    SIDE_UNTIL(&s.scene.owner, list_empty(&verbs_of(s.scene.owner.fabric)->targets.leaving));
    CHECK(s.scene.owner.messages == s.sent, "%u of %u", s.scene.owner.messages, s.sent);
    all_close(&s);
}

TEST_MAIN(CASE(all_that_was_acknowledged_is_taken_in_at_once),
          CASE(what_was_acknowledged_before_a_device_went_is_heard),
          CASE(a_device_that_goes_acknowledges_nothing_that_nobody_hears),
          CASE(what_was_acknowledged_before_a_link_was_closed_is_heard_after_a_sleep))
