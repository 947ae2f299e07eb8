/* SPDX-License-Identifier: MIT */
/*
 * undumped.h - memory through which bytes of clients go, and which is therefore in no core dump.
 */
#ifndef RDMAD_BASE_UNDUMPED_H
#define RDMAD_BASE_UNDUMPED_H

#include <stddef.h>

/* Zeroed pages of their own, so large things only. NULL: out of memory. */
void *undumped_new(size_t bytes);
void undumped_free(void *memory, size_t bytes); /* bytes as above; NULL is fine */

/* Whole pages that were mapped otherwise; they stay out of dumps until they are unmapped. */
void undumped_mark(void *memory, size_t bytes);

#endif
