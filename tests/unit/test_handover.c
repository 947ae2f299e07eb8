/* SPDX-License-Identifier: MIT */
/* The words of the life before are taken as they were written, or not at all. */
#include "daemon/handover.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct handover taken(const char *words) {
    struct handover h;
    memset(&h, 0xa5, sizeof(h));
    cr_assert_eq(setenv("RDMAD_LIFE_BEFORE", words, 1), 0);
    handover_take(&h);
    cr_assert_null(getenv("RDMAD_LIFE_BEFORE"), "a later life would find them");
    return h;
}

Test(handover, words_are_taken_as_they_stand) {
    struct handover h = taken("3 5 7471 4242 0.9.0 more");
    cr_assert_eq(h.times, 3);
    cr_assert_eq(h.began_ns, 5);
    cr_assert_eq(h.port, 7471);
    cr_assert_eq(h.porter, 4242);
    cr_assert_str_eq(h.from, "0.9.0");
}

Test(handover, words_not_as_written_are_not_there) {
    static const char *const words[] = {"01 5 7471 1 0.9.0",
                                        "0 5 7471 1 0.9.0",
                                        "-1 5 7471 1 0.9.0",
                                        "1 5 70000 1 0.9.0",
                                        "4294967297 5 7471 1 0.9.0",
                                        "1 5 7471 99999999999 0.9.0",
                                        "1 5 7471 -1 0.9.0",
                                        "1  5 7471 1 0.9.0",
                                        "1 18446744073709551615 7471 1 0.9.0",
                                        "1 5 7471 1 0123456789012345678901234567890123",
                                        "1 5 7471 1",
                                        ""};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct handover h = taken(words[i]);
        cr_assert_eq(h.times, 0, "'%s'", words[i]);
        cr_assert_eq(h.port, 0, "'%s'", words[i]);
        cr_assert_eq(h.porter, 0, "'%s'", words[i]);
        cr_assert_eq(h.from[0], '\0', "'%s'", words[i]);
    }
}
