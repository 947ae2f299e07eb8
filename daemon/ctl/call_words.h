/* SPDX-License-Identifier: MIT */
/*
 * call_words.h - what a call that changes something does, to what and why, in words for the audit:
 * "pauses session 23: noise at night". Of the parameters that the method has, once they are
 * checked.
 */
#ifndef RDMAD_CTL_CALL_WORDS_H
#define RDMAD_CTL_CALL_WORDS_H

#include <jansson.h>
#include <rdmad/abi.h>

/* Returns words. What does not fit is cut, the reason first. */
#define CALL_WORDS (RDMAD_TEXT_MAX + 1u)
const char *call_words(const char *method, const json_t *params, char words[CALL_WORDS]);

#endif
