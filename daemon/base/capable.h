/* SPDX-License-Identifier: MIT */
/*
 * capable.h - what this process may do by its capabilities and groups, asked without doing it.
 */
#ifndef RDMAD_BASE_CAPABLE_H
#define RDMAD_BASE_CAPABLE_H

#include <stdbool.h>
#include <sys/types.h>

/* capability: CAP_* of <linux/capability.h>, which is effective. */
bool capable(int capability);
/* Whether it may give a file of its own to the group, or to the user. */
bool capable_of_group(gid_t group);
bool capable_of_user(uid_t user);

#endif
