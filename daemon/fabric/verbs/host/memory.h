/* SPDX-License-Identifier: MIT */
/*
 * memory.h - pools as the device in use knows them.
 */
#ifndef RDMAD_FABRIC_VERBS_HOST_MEMORY_H
#define RDMAD_FABRIC_VERBS_HOST_MEMORY_H

#include "daemon/fabric/fabric.h"
#include "daemon/fabric/verbs/device/device.h"

/* fabric_ops.memory_add and .memory_remove. */
int memory_add(struct fabric_host *h, void *base, uint64_t bytes, struct fabric_memory **out,
               struct error *err);
void memory_remove(struct fabric_memory *m);
/* The registration of m on d; NULL: it failed when d was adopted. A member that has d may use it
 * until it lets go of d. */
struct ibv_mr *memory_mr(const struct fabric_memory *m, const struct device *d);
/* Where in it that address is. */
uint64_t memory_offset(const struct fabric_memory *m, const void *at);

/* ---- for in_use.c --------------------------------------------------------------------------- */

/* Registers all memory on h->open, which nobody else has yet. Stops early when the device is gone.
 * Memory may be added meanwhile: memories_missing, called with the lock, tells if some is not
 * registered. */
void memories_register(struct fabric_host *h);
bool memories_missing(const struct fabric_host *h);
/* Deregisters all memory of h->open, which no member holds; waits for calls under way. */
void memories_deregister(struct fabric_host *h);

#endif
