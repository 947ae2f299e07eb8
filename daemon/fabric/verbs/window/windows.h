/* SPDX-License-Identifier: MIT */
/*
 * windows.h - the windows of an instance: fabric_ops.window_*, and what happens to all of them.
 */
#ifndef RDMAD_FABRIC_VERBS_WINDOW_WINDOWS_H
#define RDMAD_FABRIC_VERBS_WINDOW_WINDOWS_H

#include "daemon/fabric/verbs/instance/instance.h"

int verbs_window_open(struct fabric *f, const struct fabric_window_spec *spec,
                      struct fabric_window **out, struct fabric_blob *key, struct error *err);
void verbs_window_extend(struct fabric_window *w, uint64_t deadline_ns);
bool verbs_window_close(struct fabric_window *w, int reason);

void windows_init(struct verbs *v);
void windows_device_came(struct verbs *v);  /* chooses how it protects */
void windows_device_going(struct verbs *v); /* all are taken back; their owners still close them */
void windows_close(struct verbs *v);        /* waits for all jobs; for the instance's end */

#endif
