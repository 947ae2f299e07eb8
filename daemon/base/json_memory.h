/* SPDX-License-Identifier: MIT */
/*
 * json_memory.h - memory for jansson that does not run out at once.
 *
 * jansson 2.14 does not notice that its buffer could not grow while it read a string, and reads
 * past its end: without memory any request or setting could end the daemon. So where malloc has
 * none, a block comes out of a reserve. It holds what reading a request takes, which is 5 MiB at
 * most; a file of settings may take more, but is root's. The reserve is whole again as soon as all
 * of its blocks were given back.
 *
 * For json_set_alloc_funcs, before anything else of jansson is called. Thread-safe.
 */
#ifndef RDMAD_BASE_JSON_MEMORY_H
#define RDMAD_BASE_JSON_MEMORY_H

#include <stddef.h>

#define JSON_MEMORY_RESERVE ((size_t)8 << 20)

/* NULL: neither malloc nor the reserve has so much. */
void *json_memory_take(size_t bytes);
void json_memory_give(void *block);

#endif
