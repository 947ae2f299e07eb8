/* SPDX-License-Identifier: MIT */
/*
 * runtime_dir.h - the directory of a daemon's sockets when none is named.
 *
 * /run/rdmad is the machine's daemon. A user without rights there runs one in
 * $XDG_RUNTIME_DIR/rdmad, and that user's programs find it when the machine has none. So that
 * nobody is led to somebody else's daemon, every directory on the way must belong to the user and
 * be writable by nobody else.
 */
#ifndef RDMAD_COMMON_RUNTIME_DIR_H
#define RDMAD_COMMON_RUNTIME_DIR_H

#include <stddef.h>

#define RDMAD_RUNTIME_DIR "/run/rdmad"
#define RDMAD_RUNTIME_DIR_MAX 80u /* a socket's path is short; with the final NUL */

/* The user's own directory, which need not exist. NULL: there is no $XDG_RUNTIME_DIR that is the
 * user's own. */
const char *rdmad_user_dir(char buf[RDMAD_RUNTIME_DIR_MAX]);
/* Where to look for the socket of that name: the machine's directory, unless it has none there and
 * the user's own has. */
const char *rdmad_default_dir(const char *name, char buf[RDMAD_RUNTIME_DIR_MAX]);

#endif
