/* SPDX-License-Identifier: MIT */
/*
 * failure_text.h - an op that failed, in a sentence: which it was, what became of it and why, and
 * what to do next.
 */
#ifndef RDMAD_STATE_FAILURE_TEXT_H
#define RDMAD_STATE_FAILURE_TEXT_H

#include "daemon/plane/plane.h"

void failure_text(const struct plane_failure *f, uint64_t session, char text[RDMAD_TEXT_MAX + 1]);

#endif
