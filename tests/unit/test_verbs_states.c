/* SPDX-License-Identifier: MIT */
/*
 * How a link and a target end. A link that failed posts nothing. Of a target: what broke is closed
 * by who polls, not by who found it; messages that came are waited for; QPs go after the last
 * window. On an instance without a device, with targets that have no QP.
 */
#include "daemon/base/clock.h"
#include "daemon/fabric/verbs/instance/protection.h"
#include "daemon/fabric/verbs/instance/way.h"
#include "daemon/fabric/verbs/link/recover.h"
#include "daemon/fabric/verbs/target/targets.h"
#include <criterion/criterion.h>
#include <stdlib.h>

static struct verbs verbs;
static struct vpeer *peer;
static unsigned way_left, protection_left, offers_dropped;

static void count_way(struct verbs_target *t) {
    cr_assert(t->state == TARGET_DRAINING || t->state == TARGET_LEAVING);
    way_left++;
}

static void count_protection(struct verbs_target *t) {
    cr_assert(t->state == TARGET_DRAINING || t->state == TARGET_LEAVING);
    protection_left++;
}

static void drop_offers(struct vpeer *p) {
    offers_dropped += p->offers;
    p->offers = 0;
}

static const struct connect_way way = {.target_left = count_way, .drop_offers = drop_offers};
static const struct protection protection = {.target_left = count_protection};

static uint64_t clock_ns;

static uint64_t clock_now(void *user) {
    (void)user;
    return clock_ns;
}

static const struct fabric_env env = {.now_ns = clock_now};

static void setup(void) {
    verbs = (struct verbs){.protection = &protection, .env = &env, .now_ns = 1000};
    clock_ns = verbs.now_ns;
    list_init(&verbs.ended);
    targets_init(&verbs);
    peer = calloc(1, sizeof *peer);
    peer->verbs = &verbs;
    peer->id = 7;
    peer->holds = 1; /* the test's */
    peer->offers_way = &way;
    list_init(&peer->cut);
    list_init(&peer->targets);
    list_init(&peer->windows);
    list_append(&verbs.peers, &peer->node);
    way_left = protection_left = offers_dropped = 0;
}

static void teardown(void) {
    targets_close(&verbs);
    targets_look(&verbs);
    verbs_free_ended(&verbs);
    peer->holds--;
    vpeer_check_free(peer);
    cr_assert(list_empty(&verbs.peers), "something of the peer is left");
}

static struct verbs_target *add(uint32_t posted) {
    struct verbs_target *t = calloc(1, sizeof *t);
    t->peer = peer;
    t->way = &way;
    t->inbox.posted = posted;
    list_init(&t->noted);
    list_init(&t->windows);
    list_init(&t->unbound);
    list_append(&peer->targets, &t->node);
    verbs.targets.accepted++;
    return t;
}

static unsigned accepted(void) {
    return verbs_accepted(&verbs.base);
}

static unsigned freed(void) {
    unsigned n = 0;
    list_for_each (pos, &verbs.ended)
        n++;
    return n;
}

/* ---- links ------------------------------------------------------------------------------- */

/* The lane may be there with nothing but the peer's page to read. */
static void fail_with_a_page_to_read(struct verbs_link *l) {
    struct error why;
    error_set(&why, RDMAD_E_PEER_LOST, "the last op was refused");
    for (unsigned i = 0; i < LANES_ALL; i++) {
        l->lane[i].link = l;
        l->lane[i].queue.connected = true;
        list_init(&l->lane[i].batch);
        list_init(&l->lane[i].posted);
        list_init(&l->lane[i].sending);
    }
    l->weak[0].state = WEAK_READING;
    lane_wake(&l->lane[0]);
    cr_assert_not(list_empty(&verbs.sending), "nothing to post");
    link_fail(l, &why);
    cr_assert(list_empty(&verbs.sending), "a link that failed is to post");
}

TestSuite(verbs_states, .init = setup, .fini = teardown);

Test(verbs_states, what_broke_is_closed_by_who_polls_and_not_before) {
    struct verbs_target *t = add(0), *other = add(0);
    target_broke(t);
    cr_assert_eq(t->state, TARGET_BROKEN);
    cr_assert_eq(way_left, 0, "it was ended under who found that it broke");
    cr_assert_eq(accepted(), 2);
    cr_assert(targets_noted(&verbs), "a sleep would not be put off");
    target_broke(t); /* once more, as the flushed completions behind the first do */
    targets_look(&verbs);
    cr_assert_eq(way_left, 1);
    cr_assert_eq(accepted(), 1);
    cr_assert_eq(freed(), 1);
    cr_assert_not(targets_noted(&verbs));
    cr_assert_eq(other->state, TARGET_LIVE);
}

Test(verbs_states, messages_that_came_are_waited_for) {
    struct verbs_target *t = add(3);
    target_broke(t);
    targets_look(&verbs);
    cr_assert_eq(t->state, TARGET_DRAINING);
    t->inbox.posted = 1;
    target_note(t);
    targets_look(&verbs);
    cr_assert_eq(t->state, TARGET_DRAINING, "a receive that is still under way was forgotten");
    t->inbox.posted = 0;
    target_note(t);
    targets_look(&verbs);
    cr_assert_eq(freed(), 1);
}

Test(verbs_states, messages_are_waited_for_so_long_and_no_longer) {
    struct verbs_target *t = add(1);
    target_close(t);
    cr_assert_eq(t->state, TARGET_DRAINING);
    targets_timers(&verbs);
    cr_assert_eq(freed(), 0);
    verbs.now_ns = t->drained_ns;
    targets_timers(&verbs);
    cr_assert_eq(freed(), 1, "a peer whose receives do not come back keeps its memory here");
}

Test(verbs_states, messages_are_waited_for_however_long_ago_the_last_poll_was) {
    struct verbs_target *t = add(1);
    clock_ns += 60 * NSEC_PER_SEC;
    target_close(t);
    verbs.now_ns = clock_ns;
    targets_timers(&verbs);
    cr_assert_eq(t->state, TARGET_DRAINING, "what the next poll brings was not waited for");
}

Test(verbs_states, the_end_waits_for_the_last_window) {
    struct verbs_target *t = add(0);
    struct list window;
    list_append(&t->windows, &window);
    target_drop(t);
    cr_assert_eq(t->state, TARGET_LEAVING);
    cr_assert_eq(protection_left, 1, "nobody lets go of its windows");
    target_note(t);
    targets_look(&verbs);
    cr_assert_eq(freed(), 0, "QPs were destroyed under a window");
    list_remove(&window);
    target_note(t);
    targets_look(&verbs);
    cr_assert_eq(freed(), 1);
    cr_assert_eq(protection_left, 1);
    cr_assert_eq(way_left, 1);
}

Test(verbs_states, a_peer_that_is_cut_loses_all_in_one_look) {
    add(0);
    add(5);
    target_close(add(2)); /* its messages are still waited for */
    peer->offers = 2;
    vpeer_cut(peer);
    vpeer_cut(peer);
    cr_assert_eq(accepted(), 2, "its targets were ended under who cut it");
    cr_assert(targets_noted(&verbs));
    targets_look(&verbs);
    cr_assert_eq(accepted(), 0);
    cr_assert_eq(freed(), 3);
    cr_assert_eq(offers_dropped, 2);
    cr_assert_not(targets_noted(&verbs));
}

Test(verbs_states, what_was_noted_and_then_dropped_is_looked_at_by_nobody) {
    struct verbs_target *t = add(0);
    target_broke(t);
    target_drop(t);
    verbs_free_ended(&verbs);
    cr_assert_not(targets_noted(&verbs), "a list has a target that was freed");
    targets_look(&verbs);
    cr_assert_eq(way_left, 1);
}

Test(verbs_states, a_link_that_fails_posts_nothing_more) {
    const struct verbs_settings settings = {.quiesce_ns = 1};
    struct verbs_link *l = calloc(1, sizeof *l);
    verbs.settings = &settings;
    list_init(&verbs.sending);
    list_init(&verbs.changed);
    l->verbs = &verbs;
    l->state = LINK_UP;
    list_init(&l->changed);
    list_init(&l->doomed);
    list_init(&l->outbox.asking);
    fail_with_a_page_to_read(l);
    free(l);
}
