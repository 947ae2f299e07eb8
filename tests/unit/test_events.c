/* SPDX-License-Identifier: MIT */
/* What is remembered is bounded, and nobody makes others' events forgotten but by having none. */
#include "daemon/base/events.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct event_row rows[EVENTS_MAX + 1];

static void set_up(void) {
    events_forget();
}
TestSuite(events, .init = set_up);

static void by_user(uid_t uid, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        EVENT("session", "ended", audit_user(uid, 1), audit_object("session", i),
              ("event %u of uid %u", i, (unsigned)uid));
}

static void by_tenant(const char *tenant, unsigned count) {
    struct audit_who who = audit_user(1000, 1);
    who.tenant = tenant;
    for (unsigned i = 0; i < count; i++)
        EVENT("session", "ended", who, audit_object("session", i), ("event %u", i));
}

static void by_daemon(unsigned count) {
    for (unsigned i = 0; i < count; i++)
        EVENT("link", "broken", audit_peer("node-b", "192.0.2.1:7"), audit_object("link", i),
              ("event %u", i));
}

static bool is_of(void *arg, const struct event_row *e) {
    return e->of_user && e->uid == *(const uid_t *)arg;
}
static bool is_daemons(void *arg, const struct event_row *e) {
    (void)arg;
    return !e->of_user;
}

static bool is_of_tenant(void *arg, const struct event_row *e) {
    return e->of_user && !strcmp(e->tenant, arg);
}

static unsigned count_of(uid_t uid) {
    return events_read(0, is_of, &uid, rows, EVENTS_MAX);
}

Test(events, are_told_in_order_with_all_that_was_said) {
    by_user(1000, 2);
    by_daemon(1);
    cr_assert_eq(events_read(0, NULL, NULL, rows, EVENTS_MAX), 3);
    cr_expect(rows[0].number < rows[1].number && rows[1].number < rows[2].number);
    cr_expect_str_eq(rows[1].text, "event 1 of uid 1000");
    cr_expect(rows[1].of_user && rows[1].uid == 1000 && rows[1].id == 1);
    cr_expect(!rows[2].of_user && !strcmp(rows[2].peer, "node-b") && !strcmp(rows[2].what, "link"));
    cr_expect_eq(events_read(rows[1].number, NULL, NULL, rows, EVENTS_MAX), 1, "what is new");
    cr_expect_eq(events_read(0, NULL, NULL, rows, 2), 2);
    cr_expect_str_eq(rows[1].text, "event 0", "the latest, if there is no room for all");
}

Test(events, a_flood_of_one_user_forgets_its_own) {
    by_daemon(100);
    by_user(1001, 50);
    by_user(1000, 10 * EVENTS_MAX);
    cr_expect_eq(events_read(0, is_daemons, NULL, rows, EVENTS_MAX), 100);
    cr_expect_eq(count_of(1001), 50);
    cr_expect_eq(count_of(1000), EVENTS_MAX - 150);
    cr_expect_str_eq(rows[0].text, "event 9366 of uid 1000", "%s", rows[0].text);
}

Test(events, a_flood_of_one_tenant_leaves_those_of_another_with_the_same_uid) {
    static char blue[] = "blue", none[] = "";
    by_user(1000, 30);
    by_tenant("blue", 50);
    by_tenant("red", 10 * EVENTS_MAX);
    cr_expect_eq(events_read(0, is_of_tenant, blue, rows, EVENTS_MAX), 50);
    cr_expect_eq(events_read(0, is_of_tenant, none, rows, EVENTS_MAX), 30);
}

Test(events, users_have_equal_shares_and_the_daemon_four) {
    by_daemon(2 * EVENTS_MAX);
    for (unsigned round = 0; round < EVENTS_MAX; round++)
        for (uid_t uid = 1000; uid < 1004; uid++)
            by_user(uid, 1);
    for (uid_t uid = 1000; uid < 1004; uid++)
        cr_expect(abs((int)count_of(uid) - 128) <= 1, "%u has %u", (unsigned)uid, count_of(uid));
    unsigned daemons = events_read(0, is_daemons, NULL, rows, EVENTS_MAX);
    cr_expect(daemons >= 508 && daemons <= 516, "%u", daemons);
}

Test(events, more_users_than_there_are_places_share_one) {
    by_user(1000, 5);
    for (uid_t uid = 2000; uid < 2000 + 5 * EVENTS_MAX; uid++)
        by_user(uid, 1);
    cr_expect_eq(count_of(1000), 5, "%u", count_of(1000));
    cr_expect_eq(events_read(0, NULL, NULL, rows, EVENTS_MAX), EVENTS_MAX);
}

Test(events, nothing_that_is_said_drives_a_terminal) {
    EVENT("peer", "up", audit_peer("evil\033[2J", "x"), audit_nothing(), ("one\nline\033[0m"));
    cr_assert_eq(events_read(0, NULL, NULL, rows, EVENTS_MAX), 1);
    cr_expect_str_eq(rows[0].text, "one\\x0aline\\x1b[0m");
    cr_expect_str_eq(rows[0].peer, "evil\\x1b[2J");
}
