/* SPDX-License-Identifier: MIT */
/* The words of the life before are taken as they were written, or not at all; and a trial has those
 * that a next life would have. */
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

static const char *word_of(char **env, const char *name) {
    size_t n = strlen(name);
    const char *found = NULL;
    for (; *env; env++) {
        if (strncmp(*env, name, n) != 0 || (*env)[n] != '=')
            continue;
        cr_assert_null(found, "%s is there twice", name);
        found = *env + n + 1;
    }
    return found;
}

Test(handover, a_trial_has_the_words_and_the_sockets_that_a_next_life_would_have) {
    struct handover h = {.times = 1, .port = 7471, .from = "0.9.0"}, again;
    struct kept kept = {.count = KEPT_MAX}, told;
    for (unsigned i = 0; i < KEPT_MAX; i++) {
        strcpy(kept.socket[i].name, i ? KEPT_NAME : "0123456789.sock");
        memset(kept.socket[i].path, '/', sizeof(kept.socket[i].path) - 1);
        snprintf(kept.socket[i].path, 20, "/run/a place %u/", i);
        kept.socket[i].path[strlen(kept.socket[i].path)] = i % 2 ? '/' : '\0';
    }
    setenv("LISTEN_FDS", "3", 1);
    setenv("RDMAD_LIFE_BEFORE", "words of another", 1);
    char **env = handover_for_trial(&h, &kept);
    cr_assert_not_null(env);
    cr_assert_null(word_of(env, "LISTEN_FDS"), "it has no socket");
    cr_assert_str_eq(word_of(env, "PATH"), getenv("PATH"));
    setenv("RDMAD_LIFE_BEFORE", word_of(env, "RDMAD_LIFE_BEFORE"), 1);
    setenv("RDMAD_TRIAL_SOCKETS", word_of(env, "RDMAD_TRIAL_SOCKETS"), 1);
    free(env);
    handover_take(&again);
    cr_assert_eq(again.times, 1);
    cr_assert_eq(again.port, 7471);
    handover_take_told(&told);
    cr_assert_eq(told.count, KEPT_MAX);
    for (unsigned i = 0; i < KEPT_MAX; i++) {
        cr_assert_str_eq(told.socket[i].name, kept.socket[i].name);
        cr_assert_str_eq(told.socket[i].path, kept.socket[i].path);
        cr_assert_eq(told.socket[i].fd, -1);
    }
}

Test(handover, sockets_that_nobody_has_told_of_are_none) {
    static const char *const texts[] = {"", "kept", "kept\n/run/a",
                                        "a-name-that-is-too-long /run/a\n", "\n\n"};
    struct kept told;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        setenv("RDMAD_TRIAL_SOCKETS", texts[i], 1);
        handover_take_told(&told);
        cr_assert_eq(told.count, 0, "'%s'", texts[i]);
    }
    handover_take_told(&told);
    cr_assert_eq(told.count, 0);
}
