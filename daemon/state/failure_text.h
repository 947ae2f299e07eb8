/* SPDX-License-Identifier: MIT */
/*
 * failure_text.h - an op that failed, in a sentence: which it was, to which peer it went, what
 * became of it and why, and what to do next, if there is room for that. before: words before it.
 */
#ifndef RDMAD_STATE_FAILURE_TEXT_H
#define RDMAD_STATE_FAILURE_TEXT_H

#include "daemon/plane/plane.h"

void failure_text(const struct plane_failure *f, uint64_t session, const char *before,
                  char text[RDMAD_TEXT_MAX + 1]);

#endif
