/* SPDX-License-Identifier: MIT */
/*
 * privileges.h - what the process does not need, given up.
 */
#ifndef RDMAD_PORTER_PRIVILEGES_H
#define RDMAD_PORTER_PRIVILEGES_H

#include <stdbool.h>

/* argv is that of the process, which may be executed once more. False: it must not go on. */
bool privileges_drop(int argc, char **argv);

#endif
