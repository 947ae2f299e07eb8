/* SPDX-License-Identifier: MIT */
/*
 * Without memory JSON is read out of a reserve, and what does not fit there is refused.
 */
#include "common/sanitizer.h"
#include "daemon/base/json_memory.h"
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#define LARGE (JSON_MEMORY_RESERVE / 4) /* beyond what malloc takes out of what it has already */

static void need_plain_malloc(void) {
#ifdef SANITIZED_ADDRESS
    cr_skip_test("the sanitizer's malloc does not live without memory");
#endif
}

/* From now on malloc has nothing large. */
static void run_out(void) {
    need_plain_malloc();
    const struct rlimit none = {0, RLIM_INFINITY};
    cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
}

static void let_in(void) {
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    cr_assert_eq(setrlimit(RLIMIT_AS, &all), 0);
}

Test(json_memory, there_is_some_when_malloc_has_none) {
    unsigned char *block[4], *more;
    run_out();
    for (unsigned i = 0; i < 4; i++) {
        block[i] = json_memory_take(LARGE);
        if (block[i])
            memset(block[i], (int)i + 1, LARGE);
    }
    more = json_memory_take(LARGE);
    let_in();
    for (unsigned i = 0; i < 4; i++) {
        cr_assert(block[i], "block %u", i);
        cr_assert_eq((uintptr_t)block[i] % _Alignof(max_align_t), 0);
        cr_assert(block[i][0] == i + 1 && block[i][LARGE - 1] == i + 1, "block %u is shared", i);
        json_memory_give(block[i]);
    }
    cr_assert_null(more, "more than there is");
}

Test(json_memory, the_reserve_is_whole_when_all_is_back) {
    run_out();
    unsigned whole = 0, none = 0;
    for (unsigned round = 0; round < 3; round++) {
        void *first = json_memory_take(LARGE), *rest = json_memory_take(3 * LARGE);
        whole += first && rest;
        json_memory_give(first);
        none += !json_memory_take(LARGE); /* the rest is not back */
        json_memory_give(rest);
    }
    let_in();
    cr_assert_eq(whole, 3);
    cr_assert_eq(none, 3);
}

Test(json_memory, no_size_makes_it_hand_out_what_is_not_there) {
    need_plain_malloc();
    cr_assert_null(json_memory_take(SIZE_MAX));
    cr_assert_null(json_memory_take(SIZE_MAX - 1));
    json_memory_give(NULL);
}
