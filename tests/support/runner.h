/* SPDX-License-Identifier: MIT */
/*
 * runner.h - a main for tests that start real daemons.
 *
 * Criterion does not start under ThreadSanitizer, and these tests are worth most there. So each
 * test program is a list of cases; every case runs in a process of its own, one after the other,
 * and fails when it returns with a child still running, dies, or leaves orphans behind.
 *
 *     static void a_promise(void) { CHECK(1 + 1 == 2, "arithmetic is gone"); }
 *     TEST_MAIN(CASE(a_promise))
 *
 * Arguments name the cases to run; none means all.
 */
#ifndef RDMAD_TEST_RUNNER_H
#define RDMAD_TEST_RUNNER_H

#include <stdbool.h>
#include <stddef.h>

struct test_case {
    const char *name;
    void (*run)(void);
};

#define CASE(function) \
    { #function, function }

#define TEST_MAIN(...)                                                           \
    int main(int argc, char **argv) {                                            \
        static const struct test_case cases[] = {__VA_ARGS__};                   \
        return runner_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0])); \
    }

/* 0 when no case failed, 77 when each was skipped. */
int runner_main(int argc, char **argv, const struct test_case *cases, size_t count);

/* Ends the process when the condition does not hold, saying where and what. */
#define CHECK(condition, ...)                                          \
    do {                                                               \
        if (!(condition))                                              \
            check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__); \
    } while (0)

_Noreturn void check_failed(const char *file, int line, const char *condition, const char *format,
                            ...) __attribute__((format(printf, 4, 5)));

/* Called once when a CHECK fails, after it has said so, to show what may tell why. */
void on_check_failed(void (*show)(void));

/* Says why and leaves the case, which then counts as skipped (shown, never silent). */
_Noreturn void skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How much longer than in ./check a count should be: $RDMAD_TEST_SCALE, tests/soak sets 10. */
unsigned test_scale(void);
/*
 * How often a test does what it does many times: in full in tests/soak, a tenth of that in ./check,
 * and of that what $RDMAD_TEST_PERCENT says: an eighth in ./check's guest, which is ten times
 * slower. At least once.
 */
unsigned test_count(unsigned full);
/* What bounds in time are multiplied with on a slow machine: $RDMAD_TEST_PATIENCE, else 1. */
unsigned test_patience(void);
/* Whether what is kept the same on one daemon and over a link is to be tried on one, too: not in
 * the guest (tests/vm/guest.cmake), which sets $RDMAD_TEST_ROUTES to "link". */
bool test_local_route(void);
/* Whether this is a sanitizer's build: memory then says nothing, and speed less. */
bool test_sanitized(void);

#endif
