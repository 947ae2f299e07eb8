/* SPDX-License-Identifier: MIT */
/* The table by numbers finds what is in it, and nothing else, at any size. */
#include "daemon/op/tool/ids.h"
#include <criterion/criterion.h>
#include <rdmad/abi.h>

enum { MANY = 5000 };
static struct id_node things[MANY];
static struct ids ids;

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
