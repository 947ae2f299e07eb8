/* SPDX-License-Identifier: MIT */
/*
 * tally_json.h - how ops ended, as status and the lists tell it. Internal to ctl/.
 */
#ifndef RDMAD_CTL_TALLY_JSON_H
#define RDMAD_CTL_TALLY_JSON_H

#include "daemon/plane/plane.h"
#include <jansson.h>

/* {"count", "mean", "p50", "p99", "p999"} in microseconds; null: nothing was done yet. */
json_t *tally_spans(const struct histogram *h);
/* [{"us", "count"}]: how many took about so many microseconds, the shortest first; what is between
 * two answers is their difference. One answer may have many rows, and all wait for the thread that
 * makes it: rows that come after TALLY_BUCKETS_MAX were told have null. told counts them. */
#define TALLY_BUCKETS_MAX 8192u
json_t *tally_buckets(const struct histogram *h, size_t *told);
/* {"RDMAD_E_TIMEOUT": 3}: those that there were. */
json_t *tally_failures(const uint64_t failed[PLANE_CODES]);
void tally_failures_add(json_t *to, const uint64_t failed[PLANE_CODES]);
/* Of all sessions: [{"op", "route", "lat_us"}], the kinds of which some were done. */
json_t *tally_kinds(const struct plane *plane);
/* Of the op in small letters; NULL: how long one takes is not counted. */
const char *tally_op_name(unsigned opcode);
const char *tally_route_name(enum plane_route route);

#endif
