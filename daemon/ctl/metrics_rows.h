/* SPDX-License-Identifier: MIT */
/*
 * metrics_rows.h - what is told apart by kinds of ops, causes, users, peers, devices. Internal to
 * ctl/.
 */
#ifndef RDMAD_CTL_METRICS_ROWS_H
#define RDMAD_CTL_METRICS_ROWS_H

#include "daemon/ctl/hw_counters.h"
#include "daemon/ctl/openmetrics.h"

void metrics_rows(struct metrics_writer *w, struct state *st, const struct hw_counters *devices);

#endif
