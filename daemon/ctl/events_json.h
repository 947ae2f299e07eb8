/* SPDX-License-Identifier: MIT */
/*
 * events_json.h - what is remembered, as far as a caller may see it. Internal to ctl/.
 */
#ifndef RDMAD_CTL_EVENTS_JSON_H
#define RDMAD_CTL_EVENTS_JSON_H

#include "daemon/ctl/call.h"

/* Rows of events, the oldest first. kind NULL: of any object; else of that one alone. since_ns: not
 * before that; after: beyond that number. NULL: out of memory. */
json_t *events_json(const struct ctl_call *call, const char *kind, uint64_t id, uint64_t since_ns,
                    uint64_t after);

#endif
