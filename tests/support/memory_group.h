/* SPDX-License-Identifier: MIT */
/*
 * memory_group.h - memory cgroups of the test's own, below the one that it runs in; version 1 or 2.
 *
 *     if (!memory_group_make("rdmad-test-1"))
 *         skip("no memory cgroup can be made here");
 *     memory_group_limit("rdmad-test-1", bytes)
 *     memory_group_enter("rdmad-test-1", pid)
 *     ... when nobody is in it any more: memory_group_remove("rdmad-test-1")
 */
#ifndef RDMAD_TEST_MEMORY_GROUP_H
#define RDMAD_TEST_MEMORY_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* False: there is no memory controller, or it is not ours. */
bool memory_group_make(const char *name);
/* Puts the process in it, and makes it if need be. Who is in one sees the groups below that. */
bool memory_group_enter(const char *name, pid_t pid);
/* Bytes; UINT64_MAX: it has no account. */
uint64_t memory_group_charged(const char *name);
/* How much it may have, without swap. False: it cannot be said. */
bool memory_group_limit(const char *name, uint64_t bytes);
/* How many processes were killed for it. */
uint64_t memory_group_kills(const char *name);
void memory_group_remove(const char *name);

#endif
