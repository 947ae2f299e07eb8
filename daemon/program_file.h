/* SPDX-License-Identifier: MIT */
/*
 * program_file.h - whether a file may become the daemon: nobody but root and the daemon's own user
 * can have put it there, or put another in its place.
 */
#ifndef RDMAD_PROGRAM_FILE_H
#define RDMAD_PROGRAM_FILE_H

#include "daemon/base/error.h"

/* May wait for a disk. path: absolute. The file, with links resolved, goes to out[PATH_MAX]. */
int program_file_check(const char *path, char *out, struct error *err);

#endif
