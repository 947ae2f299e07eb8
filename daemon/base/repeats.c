/* SPDX-License-Identifier: MIT */
/*
 * repeats.c - see repeats.h.
 */
#include "daemon/base/repeats.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool was_told_lately(const struct repeats_row *row, uint64_t now_ns) {
    return row->told_ns && now_ns < row->told_ns + REPEATS_AGAIN_NS;
}

/* Its own, else one that is free or has waited longest, which goes to *gone; NULL: each was told
 * lately. */
static struct repeats_row *repeats_row_of(struct repeats *r, const char *name, int code,
                                          uint64_t now_ns, struct repeats_row *gone) {
    struct repeats_row *free = NULL;
    for (unsigned i = 0; i < REPEATS_ROWS; i++) {
        struct repeats_row *row = &r->row[i];
        if (row->told_ns && row->code == code && !strcmp(row->name, name))
            return row;
        if (!was_told_lately(row, now_ns) && (!free || row->told_ns < free->told_ns))
            free = row;
    }
    if (free) {
        *gone = *free;
        *free = (struct repeats_row){.code = code};
        snprintf(free->name, sizeof(free->name), "%s", name);
    }
    return free;
}

uint64_t repeats_count(struct repeats *r, const char *name, int code, uint64_t now_ns,
                       uint64_t *since_ns, struct repeats_row *gone) {
    *gone = (struct repeats_row){0};
    struct repeats_row *row = repeats_row_of(r, name, code, now_ns, gone);
    if (!row)
        row = &r->others;
    row->untold++;
    if (was_told_lately(row, now_ns))
        return 0;
    uint64_t count = row->untold;
    *since_ns = row->told_ns ? now_ns - row->told_ns : 0;
    row->told_ns = now_ns;
    row->untold = 0;
    return count;
}

void repeats_over(struct repeats *r, const char *name) {
    for (unsigned i = 0; i < REPEATS_ROWS; i++)
        if (!strcmp(r->row[i].name, name))
            r->row[i] = (struct repeats_row){0};
}
