/* SPDX-License-Identifier: MIT */
/*
 * audit_count.h - how many events of the audit there were, by kind and cause; also those that were
 * not written. Causes are literals, so the table has a fixed size; what does not fit counts as
 * "other". Not thread-safe.
 */
#ifndef RDMAD_BASE_AUDIT_COUNT_H
#define RDMAD_BASE_AUDIT_COUNT_H

#include "daemon/base/audit_event.h"

#define AUDIT_COUNTS 96u

struct audit_count {
    enum audit_event event;
    const char *cause;
    uint64_t count;
};

struct audit_counts { /* zero-initialised */
    struct audit_count row[AUDIT_COUNTS];
    unsigned used;
};

void audit_count_add(struct audit_counts *c, enum audit_event event, const char *cause);

#endif
