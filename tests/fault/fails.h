/* SPDX-License-Identifier: MIT */
/*
 * fails.h - whether a call of rdmad_fault is to fail now: what its files ask (page.h).
 */
#ifndef RDMAD_TEST_FAULT_FAILS_H
#define RDMAD_TEST_FAULT_FAILS_H

#include "tests/fault/page.h"

#include <stdbool.h>

/* Counts one call of that kind. True: it is the one that the test has chosen; then its name and
 * where it was made are in the page. */
bool fails(enum fault_kind kind, const char *call);

#endif
