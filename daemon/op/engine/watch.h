/* SPDX-License-Identifier: MIT */
/*
 * watch.h - what wakes a sleeping worker: the descriptors in its epoll.
 *
 * Each is registered once, with a pointer to what it belongs to: the mailbox, the timer, a fabric
 * of links, or a ring. turn/loop.c waits and tells them apart.
 */
#ifndef RDMAD_OP_ENGINE_WATCH_H
#define RDMAD_OP_ENGINE_WATCH_H

#include "daemon/op/engine/worker.h"

/* The worker must have its mailbox and its fabrics. */
int watch_open(struct worker *w, struct error *err);
void watch_close(struct worker *w); /* harmless after a watch_open that failed, or none */

int watch_ring_add(struct worker *w, struct op_ring *r, struct error *err);
void watch_ring_remove(struct worker *w, struct op_ring *r);
void watch_ring_listen(struct worker *w, struct op_ring *r, bool listen); /* to its doorbell */

#endif
