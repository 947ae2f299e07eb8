/* SPDX-License-Identifier: MIT */
/* The table by numbers finds what is in it, and nothing else, at any size. Allocations fail with
 * -Wl,--wrap=malloc. */
#include "daemon/op/tool/ids.h"
#include <criterion/criterion.h>
#include <rdmad/abi.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MANY = 70000 };
static struct id_node things[MANY];
static struct ids ids;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static bool out_of_memory;

void *__wrap_malloc(size_t size) {
    return out_of_memory ? NULL : __real_malloc(size);
}

/* Dense at first, then far apart, as counters and references are. */
static uint64_t id_of(unsigned i) {
    return i < MANY / 2 ? i : UINT64_C(0x100000000) * i;
}

Test(ids, an_empty_table_has_nothing) {
    cr_assert_null(ids_find(&ids, 0));
    cr_assert_null(ids_find(&ids, UINT64_MAX));
    ids_fini(&ids);
}

Test(ids, finds_each_of_many_while_some_come_and_go) {
    for (unsigned i = 0; i < MANY; i++) {
        cr_assert_null(ids_find(&ids, id_of(i)));
        cr_assert_eq(ids_add(&ids, &things[i], id_of(i)), 0);
    }
    for (unsigned i = 0; i < MANY; i += 3)
        ids_remove(&ids, &things[i]);
    for (unsigned i = 0; i < MANY; i++)
        cr_assert_eq(ids_find(&ids, id_of(i)), i % 3 ? &things[i] : NULL);
    for (unsigned i = 0; i < MANY; i += 3)
        cr_assert_eq(ids_add(&ids, &things[i], id_of(i)), 0);
    for (unsigned i = 0; i < MANY; i++)
        cr_assert_eq(ids_find(&ids, id_of(i)), &things[i]);
    for (unsigned i = 0; i < MANY; i++)
        ids_remove(&ids, &things[i]);
    cr_assert_eq(ids.used, 0);
    ids_fini(&ids);
}

Test(ids, a_number_is_taken_once) {
    cr_assert_eq(ids_add(&ids, &things[0], 7), 0);
    cr_assert_eq(ids_add(&ids, &things[1], 7), RDMAD_E_EXISTS);
    ids_remove(&ids, &things[1]); /* harmless: it is in no table */
    cr_assert_eq(ids_find(&ids, 7), &things[0]);
    ids_remove(&ids, &things[0]);
    cr_assert_eq(ids_add(&ids, &things[1], 7), 0);
    ids_remove(&ids, &things[1]);
    ids_fini(&ids);
}

/* ---- how long it takes ---- */

static unsigned length(const struct id_node *thing) {
    unsigned n = 0;
    for (; thing; thing = thing->next)
        n++;
    return n;
}

static struct id_node *chain(const struct ids *t, uint32_t n) {
    if (n < IDS_LEAST)
        return t->least[n];
    unsigned bits = 31 - (unsigned)__builtin_clz(n);
    return t->part[bits - 4][n - (1u << bits)];
}

static unsigned longest(const struct ids *t) {
    unsigned most = 0;
    for (uint32_t n = 0; n < IDS_LEAST + t->more; n++) {
        unsigned is = length(chain(t, n));
        most = is > most ? is : most;
    }
    return most;
}

static void add_all(struct ids *t, unsigned from, unsigned to) {
    for (unsigned i = from; i < to; i++)
        cr_assert_eq(ids_add(t, &things[i], i), 0);
}

/* What is asserted allocates, too. */
static void add_without_memory(struct ids *t, unsigned from, unsigned to) {
    unsigned refused = 0;
    out_of_memory = true;
    for (unsigned i = from; i < to; i++)
        refused += ids_add(t, &things[i], i) != 0;
    out_of_memory = false;
    cr_assert_eq(refused, 0, "%u are refused", refused);
}

static void all_found(const struct ids *t, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        cr_assert_eq(ids_find(t, i), &things[i], "%u is lost", i);
}

Test(ids, chains_stay_short_however_many_there_are) {
    ids_init(&ids, UINT64_C(0x123456789abcdef0));
    add_all(&ids, 0, MANY);
    cr_assert_leq(longest(&ids), 20, "%u in a chain", longest(&ids));
    for (unsigned i = 0; i < MANY; i++)
        ids_remove(&ids, &things[i]);
    for (unsigned i = 0; i < MANY; i++) /* as channels' numbers are */
        cr_assert_eq(ids_add(&ids, &things[i], UINT64_C(0x100000000) * (i % 7 + 1) + i), 0);
    cr_assert_leq(longest(&ids), 20, "%u in a chain", longest(&ids));
    ids_fini(&ids);
}

Test(ids, no_add_takes_more_than_a_few_buckets) {
    for (unsigned i = 0; i < MANY; i++) {
        uint32_t before = ids.more;
        cr_assert_eq(ids_add(&ids, &things[i], i), 0);
        cr_assert_leq(ids.more - before, 2, "%u for number %u", ids.more - before, i);
    }
    ids_fini(&ids);
}

Test(ids, without_memory_it_is_slower_and_loses_nothing) {
    add_without_memory(&ids, 0, 2000);
    cr_assert_eq(ids.more, 0);
    all_found(&ids, 2000);
    add_all(&ids, 2000, 3000);
    cr_assert_geq(ids.more, 1000, "it does not grow again");
    add_without_memory(&ids, 3000, 6000);
    all_found(&ids, 6000);
    add_all(&ids, 6000, 20000);
    cr_assert_eq(ids.more, 20000 - IDS_LEAST, "it did not catch up");
    all_found(&ids, 20000);
    for (unsigned i = 19999; i < 20000; i--) {
        ids_remove(&ids, &things[i]);
        cr_assert_null(ids_find(&ids, i));
    }
    cr_assert_eq(ids.used, 0);
    ids_fini(&ids);
}

/* Who keeps those that share a chain of one table has nothing of it at another. */
Test(ids, numbers_that_fall_together_do_so_by_a_secret) {
    struct ids known, same, other;
    static struct id_node chosen[2][MANY];
    unsigned n = 0;
    ids_init(&known, 12345);
    ids_init(&same, 12345);
    ids_init(&other, 54321);
    add_without_memory(&known, 0, 16000); /* so that very many fall together */
    for (const struct id_node *thing = chain(&known, 3); thing; thing = thing->next, n++) {
        cr_assert_eq(ids_add(&same, &chosen[0][n], thing->id), 0);
        cr_assert_eq(ids_add(&other, &chosen[1][n], thing->id), 0);
    }
    cr_assert_gt(n, 500, "%u", n);
    cr_assert_geq(longest(&same), 10, "%u of %u", longest(&same), n);
    cr_assert_lt(longest(&other), 9, "%u of %u", longest(&other), n);
    ids_fini(&known);
    ids_fini(&same);
    ids_fini(&other);
}
