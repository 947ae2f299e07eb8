/* SPDX-License-Identifier: MIT */
/*
 * buf_lock.h - the end of the locks that a program has left on a pool.
 */
#ifndef RDMAD_LIBCLIENT_BUF_LOCK_H
#define RDMAD_LIBCLIENT_BUF_LOCK_H

struct rdmad_holders;

void rdmad_locks_dispose(struct rdmad_holders *h);

#endif
