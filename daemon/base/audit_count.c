/* SPDX-License-Identifier: MIT */
/*
 * audit_count.c - a small table. Its last rows, one a kind of event, are those of all other causes.
 */
#include "daemon/base/audit_count.h"
#include <stddef.h>
#include <string.h>

#define OTHER "other"

static struct audit_count *audit_count_row(struct audit_counts *c, enum audit_event event,
                                           const char *cause) {
    for (unsigned i = 0; i < c->used; i++)
        if (c->row[i].event == event && !strcmp(c->row[i].cause, cause))
            return &c->row[i];
    return NULL;
}

void audit_count_add(struct audit_counts *c, enum audit_event event, const char *cause) {
    struct audit_count *row = audit_count_row(c, event, cause);
    if (!row && c->used >= AUDIT_COUNTS - AUDIT_EVENTS) {
        cause = OTHER;
        row = audit_count_row(c, event, cause);
    }
    if (!row) {
        row = &c->row[c->used++];
        *row = (struct audit_count){event, cause, 0};
    }
    row->count++;
}
