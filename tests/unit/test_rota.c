/* SPDX-License-Identifier: MIT */
/* However many connections a user has and however much they say, each user is heard as much. */
#include "daemon/ipc/rota.h"
#include <criterion/criterion.h>
#include <event2/event.h>
#include <stdlib.h>

static struct event_base *base;
static struct rota *rota;

/* A connection with so much to say. */
struct talker {
    struct rota_member m;
    unsigned left, heard;
    struct talker *kills; /* when it is heard next */
};

static void hear(struct talker *t) {
    unsigned n = rota_room(&t->m);
    if (n > t->left)
        n = t->left;
    t->left -= n;
    t->heard += n;
    rota_used(&t->m, n);
    if (t->left)
        rota_wait(&t->m);
}

static void go_on(struct rota_member *m) {
    struct talker *t = container_of(m, struct talker, m);
    struct talker *victim = t->kills;
    t->kills = NULL;
    if (victim)
        rota_leave(&victim->m);
    if (victim != t)
        hear(t);
}

static void setup(void) {
    base = event_base_new();
    rota = rota_new(base);
}

static void teardown(void) {
    rota_free(rota);
    event_base_free(base);
}

TestSuite(rota, .init = setup, .fini = teardown);

static struct talker *talkers_of(unsigned count, struct user_id who, unsigned left) {
    struct talker *t = calloc(count, sizeof(*t));
    for (unsigned i = 0; i < count; i++) {
        t[i].left = left;
        cr_assert_eq(rota_join(rota, &t[i].m, who, go_on), 0);
        if (left)
            hear(&t[i]);
    }
    return t;
}

static struct talker *talkers(unsigned count, uid_t uid, unsigned left) {
    return talkers_of(count, (struct user_id){.uid = uid}, left);
}

static unsigned heard(const struct talker *t, unsigned count) {
    unsigned sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += t[i].heard;
    return sum;
}

static void leave(struct talker *t, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        rota_leave(&t[i].m);
    free(t);
}

static void passes(unsigned n) {
    while (n--)
        event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

Test(rota, a_user_with_64_connections_is_heard_as_much_as_one_with_one) {
    struct talker *many = talkers(64, 1, 100000), *one = talkers(1, 2, 100000);
    unsigned before = heard(many, 64), one_before = heard(one, 1);
    passes(100);
    unsigned of_many = heard(many, 64) - before, of_one = heard(one, 1) - one_before;
    cr_assert_eq(of_many, 100 * ROTA_PACKETS);
    cr_assert_eq(of_one, 100 * ROTA_PACKETS);
    for (unsigned i = 0; i < 64; i++)
        cr_assert(many[i].heard > of_many / 64 / 2 && many[i].heard < 2 * of_many / 64,
                  "connection %u: %u", i, many[i].heard);
    leave(many, 64);
    leave(one, 1);
}

Test(rota, tenants_of_one_uid_are_heard_as_much_as_each_other) {
    struct talker *blue = talkers_of(64, (struct user_id){.uid = 1, .tenant = 1}, 100000);
    struct talker *red = talkers_of(1, (struct user_id){.uid = 1, .tenant = 2}, 100000);
    unsigned before = heard(blue, 64), red_before = heard(red, 1);
    passes(100);
    cr_assert_eq(heard(blue, 64) - before, 100 * ROTA_PACKETS);
    cr_assert_eq(heard(red, 1) - red_before, 100 * ROTA_PACKETS);
    leave(blue, 64);
    leave(red, 1);
}

Test(rota, who_says_little_is_not_made_to_wait_while_others_flood) {
    struct talker *many = talkers(64, 1, 100000), *one = talkers(1, 2, 0);
    for (unsigned i = 0; i < 50; i++) {
        one->left = 1;
        hear(one);
        cr_assert_eq(one->left, 0);
        passes(1);
    }
    leave(many, 64);
    leave(one, 1);
}

Test(rota, there_are_no_passes_while_nobody_waits) {
    struct talker *one = talkers(1, 1, 0);
    for (unsigned i = 0; i < ROTA_PACKETS; i++) {
        one->left = 1;
        hear(one);
        cr_assert_eq(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
    }
    one->left = 1;
    hear(one);
    cr_assert_eq(one->left, 1, "beyond its part");
    passes(1);
    cr_assert_eq(one->left, 0);
    leave(one, 1);
}

Test(rota, all_of_very_many_users_get_their_turn) {
    enum { USERS = 100 };
    struct talker *t[USERS];
    for (unsigned i = 0; i < USERS; i++)
        t[i] = talkers(2, 100 + i, 1000000);
    unsigned before = 0;
    for (unsigned i = 0; i < USERS; i++)
        before += heard(t[i], 2);
    passes(1);
    unsigned after = 0;
    for (unsigned i = 0; i < USERS; i++)
        after += heard(t[i], 2);
    cr_assert_leq(after - before, ROTA_OF_ALL);
    passes(99);
    for (unsigned i = 0; i < USERS; i++)
        cr_assert_geq(heard(t[i], 2), 10 * ROTA_PACKETS, "user %u: %u", i, heard(t[i], 2));
    for (unsigned i = 0; i < USERS; i++)
        leave(t[i], 2);
}

Test(rota, members_may_go_in_the_middle_of_a_pass) {
    struct talker *a = talkers(4, 1, 1000), *b = talkers(1, 2, 1000);
    a[0].kills = &a[0];
    a[1].kills = &a[2];
    b->kills = b; /* the last of its user */
    passes(3);
    cr_assert_null(b->m.user);
    cr_assert(a[1].left < a[3].left + 100);
    leave(a, 4);
    leave(b, 1);
}
