/* SPDX-License-Identifier: MIT */
/*
 * request_words.h - what a request asks for, in words.
 */
#ifndef RDMAD_LIBCLIENT_REQUEST_WORDS_H
#define RDMAD_LIBCLIENT_REQUEST_WORDS_H

#include <stdint.h>

/* "attach to a lease", of an RDMAD_MSG_*; never NULL. */
const char *rdmad_request_words(uint16_t type);

#endif
