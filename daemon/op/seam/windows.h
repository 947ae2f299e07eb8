/* SPDX-License-Identifier: MIT */
/*
 * windows.h - what a fabric says of a window, whose cookie is its op_window.
 */
#ifndef RDMAD_OP_SEAM_WINDOWS_H
#define RDMAD_OP_SEAM_WINDOWS_H

#include "daemon/fabric/fabric.h"

/* fabric_env's window_opened and window_closed. */
void window_key_came(void *worker, void *cookie, const struct fabric_blob *key,
                     const struct error *err);
void window_is_gone(void *worker, void *cookie);

#endif
