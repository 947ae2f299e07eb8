/* SPDX-License-Identifier: MIT */
/*
 * hw_counters.h - what RDMA devices count themselves, from /sys. A driver may ask its firmware for
 * that and take its time, so it is read on a registration thread; who asks gets what was read last,
 * and has it read again if that is old. Internal to ctl/.
 */
#ifndef RDMAD_CTL_HW_COUNTERS_H
#define RDMAD_CTL_HW_COUNTERS_H

#include "daemon/state/state.h"

#define HW_COUNTERS 512u

struct hw_counter {
    char device[64], port[8], name[64];
    uint64_t value;
};

struct hw_counters {
    unsigned count;
    struct hw_counter row[HW_COUNTERS];
};

/* Reads ROOT/DEVICE/ports/PORT/hw_counters/NAME: as many as there is room for. */
void hw_counters_read(const char *root, struct hw_counters *out);

/* What was read last of this machine's. Has it read again if that is long ago. */
struct hw_cache;
struct hw_cache *hw_cache_new(struct state *st); /* NULL: out of memory */
const struct hw_counters *hw_cache_look(struct hw_cache *c, uint64_t now_ns);
void hw_cache_free(struct hw_cache *c); /* a read under way is forgotten; NULL is allowed */

#endif
