/* SPDX-License-Identifier: MIT */
/*
 * confine.h - the system calls that the porter and its children need, and no others.
 */
#ifndef RDMAD_PORTER_CONFINE_H
#define RDMAD_PORTER_CONFINE_H

#include <stdbool.h>

/* From here on the process, and those that it forks, get EPERM for every other call, or for one
 * with other arguments: they open nothing, connect to nothing, execute nothing, signal nobody. It
 * cannot be undone. False: the kernel does not know of filters, or this build has none (another
 * architecture, a sanitizer that writes reports); errno is 0 then. Needs PR_SET_NO_NEW_PRIVS. */
bool confine_process(void);

#endif
