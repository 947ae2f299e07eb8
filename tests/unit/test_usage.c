/* SPDX-License-Identifier: MIT */
/* What users came to stays when their sessions have gone, and nobody makes it grow without end. */
#include "daemon/state/usage.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define CROWD (USAGE_ROWS + 2 * USAGE_IDLE + 9)

static struct usage u;
static const struct usage_sums one_op = {.ops = 1};

static struct user_id user_of(unsigned i) {
    return (struct user_id){.uid = 1000 + i};
}

/* A session of that user, which had an op of so long. */
static void one_session(unsigned i, uint64_t span_ns) {
    struct list node;
    struct histogram h = {0};
    list_init(&node);
    histogram_add(&h, span_ns, 1);
    usage_leave(&u, usage_join(&u, user_of(i), "", &node), &node, &one_op, &h);
}

static struct usage_user *find(unsigned i) {
    list_for_each (node, &u.users) {
        struct usage_user *user = list_entry(node, struct usage_user, node);
        if (user_id_same(user->who, user_of(i)))
            return user;
    }
    return NULL;
}

/* The same ops, wherever they are now. */
static uint64_t ops_of_all(uint64_t *times) {
    uint64_t ops = u.others.sums.ops;
    *times = histogram_count(&u.others.latency);
    list_for_each (node, &u.users) {
        const struct usage_user *user = list_entry(node, struct usage_user, node);
        ops += user->sums.ops;
        *times += histogram_count(&user->latency);
    }
    return ops;
}

static unsigned entries(void) {
    unsigned n = 0;
    list_for_each (node, &u.users)
        n++;
    return n;
}

Test(usage, what_sessions_came_to_stays_with_their_user) {
    struct list node;
    usage_init(&u);
    list_init(&node);
    one_session(0, 1000);
    one_session(1, 5000);
    struct usage_user *user = usage_join(&u, user_of(0), "", &node);
    one_session(0, 9000);
    cr_expect_eq(user, find(0), "a user has one entry");
    cr_expect_eq(user->sums.ops, 2);
    cr_expect_eq(histogram_count(&user->latency), 2);
    cr_expect_eq(user->latency.sum_ns, 10000);
    cr_expect_eq(user->sessions.next, &node, "who reads it finds the session that is there");
    usage_leave(&u, user, &node, &one_op, &(struct histogram){0});
    usage_fini(&u);
}

Test(usage, a_tenants_user_is_another) {
    struct list a, b;
    struct user_id tenants = {.uid = 1000, .tenant = 1};
    usage_init(&u);
    list_init(&a);
    list_init(&b);
    struct usage_user *own = usage_join(&u, user_of(0), "", &a);
    struct usage_user *blue = usage_join(&u, tenants, "blue", &b);
    cr_expect_neq(own, blue);
    cr_expect_str_eq(blue->tenant, "blue");
    usage_fini(&u);
}

Test(usage, users_beyond_the_rows_share_one_and_the_last_of_them_are_remembered) {
    uint64_t times;
    usage_init(&u);
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < CROWD; i++)
            one_session(i, 1000);
    cr_expect_eq(u.nusers, USAGE_ROWS);
    cr_expect_eq(u.named[0]->who.uid, 1000);
    cr_expect_eq(u.named[USAGE_ROWS - 1]->sums.ops, 2, "who has a row keeps what it came to");
    cr_expect_eq(entries(), USAGE_ROWS + USAGE_IDLE, "%u entries", entries());
    cr_expect_not_null(find(CROWD - 1));
    cr_expect_null(find(USAGE_ROWS), "who went first is forgotten first");
    cr_expect_eq(ops_of_all(&times), 2 * CROWD, "nothing is lost");
    cr_expect_eq(times, 2 * CROWD);
    usage_fini(&u);
}

Test(usage, who_has_a_session_is_not_forgotten) {
    struct list node;
    usage_init(&u);
    list_init(&node);
    for (unsigned i = 0; i < USAGE_ROWS; i++)
        one_session(i, 1000);
    one_session(CROWD, 1000);
    struct usage_user *user = usage_join(&u, user_of(CROWD), "", &node);
    for (unsigned i = USAGE_ROWS; i < CROWD; i++)
        one_session(i, 1000);
    cr_expect_eq(find(CROWD), user);
    cr_expect_eq(user->sums.ops, 1);
    usage_leave(&u, user, &node, &one_op, &(struct histogram){0});
    cr_expect_eq(find(CROWD), user, "it went last");
    usage_fini(&u);
}

Test(usage, peers_beyond_the_table_share_a_row) {
    char name[40];
    usage_init(&u);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < USAGE_ROWS + 9; i++) {
            snprintf(name, sizeof(name), "peer%u", i);
            usage_add(&u.peers[usage_peer(&u, name)].sums, &one_op);
        }
    }
    cr_expect_eq(u.npeers, USAGE_ROWS);
    cr_expect(!strcmp(u.peers[63].name, "peer63") && u.peers[63].sums.ops == 2);
    cr_expect_eq(u.peers[USAGE_ROWS].sums.ops, 18);
    usage_fini(&u);
}
