/* SPDX-License-Identifier: MIT */
/*
 * fault_scenario.h - every kind of object used once, by clients of two daemons, and every answer
 * looked at: what test_faults.c has each call of the daemons fail under.
 */
#ifndef RDMAD_TEST_FAULT_SCENARIO_H
#define RDMAD_TEST_FAULT_SCENARIO_H

#include "tests/support/harness.h"

#include <rdmad/rdmad.h>

struct fault_report {                /* of a scenario, shared with who started it */
    char step[96];                   /* the call that it is in, for when it hangs */
    char why[2 * RDMAD_TEXT_MAX];    /* what was wrong with it; "" while nothing was */
    char first[RDMAD_TEXT_MAX + 96]; /* the first refusal: which call, in which words */
    unsigned refused;                /* calls that were */
    unsigned lost;                   /* sessions */
};

/* Ends the process, having said why, as soon as an answer is no answer: no RDMAD_E_*, no sentence,
 * a wrong byte; or, if strict, when anything at all is refused. Hanging calls end by a signal. */
void fault_scenario(const struct tdaemon *owner, const struct tdaemon *lessee, bool strict,
                    struct fault_report *report);

#endif
