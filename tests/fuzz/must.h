/* SPDX-License-Identifier: MIT */
/*
 * must.h - what a fuzzer expects: libFuzzer shows where it was when it aborted, but not why.
 */
#ifndef RDMAD_TESTS_FUZZ_MUST_H
#define RDMAD_TESTS_FUZZ_MUST_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define must(condition) ((condition) ? (void)0 : must_failed(#condition, __FILE__, __LINE__))

static inline _Noreturn void must_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: this does not hold: %s (errno: %s)\n", file, line, condition,
            strerror(errno));
    abort();
}

#endif
