/* SPDX-License-Identifier: MIT */
/*
 * fault_steer.h - the test's half of a fault page (tests/fault/page.h): which call of rdmad_fault
 * fails, and which it was.
 */
#ifndef RDMAD_TEST_FAULT_STEER_H
#define RDMAD_TEST_FAULT_STEER_H

#include "tests/fault/page.h"

extern const char *const fault_kind_names[FAULT_KINDS];

/* A new page in that file, until the process ends. */
struct fault_page *fault_page_make(const char *path);
/* The daemons that start from now on map that page. */
void fault_page_use(const char *path);
/* The call of that kind that comes after number - 1 others fails, once; number 0: none does. */
void fault_page_arm(struct fault_page *page, enum fault_kind kind, long number);
/* Prints where the call that failed was made, innermost first. */
void fault_page_show(const struct fault_page *page);

#endif
