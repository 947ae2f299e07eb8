/* SPDX-License-Identifier: MIT */
/*
 * pool_create.h - the end of a pool that nobody destroyed.
 */
#ifndef RDMAD_LIBCLIENT_POOL_CREATE_H
#define RDMAD_LIBCLIENT_POOL_CREATE_H

#include "libclient/memory/pool.h"

/* Unmaps and frees; tells nobody. It is gone since that call. */
void rdmad_pool_dispose(struct rdmad_pool *pool, const char *call);

#endif
