/* SPDX-License-Identifier: MIT */
/*
 * admin.h - one JSON-RPC call over a daemon's control.sock.
 */
#ifndef RDMAD_TEST_ADMIN_H
#define RDMAD_TEST_ADMIN_H

#include <jansson.h>

/* The whole reply, or NULL when nobody listens in that directory or none comes within
 * TEST_PATIENCE_MS. Takes params, which may be NULL. */
json_t *admin_call(const char *dir, const char *method, json_t *params);

#endif
