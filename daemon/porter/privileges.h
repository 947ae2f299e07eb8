/* SPDX-License-Identifier: MIT */
/*
 * privileges.h - the process gives up what it does not need.
 */
#ifndef RDMAD_PORTER_PRIVILEGES_H
#define RDMAD_PORTER_PRIVILEGES_H

#include <stdbool.h>

/* argv is that of the process, which may be executed once more. False: it must not go on. */
bool privileges_drop(int argc, char **argv);

#endif
