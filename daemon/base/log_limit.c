/* SPDX-License-Identifier: MIT */
/*
 * log_limit.c - the rows of a place, and what all of them together may.
 */
#include "daemon/base/log_limit.h"
#include "daemon/base/clock.h"
#include <string.h>

static bool second_is_over(uint64_t since_ns, uint64_t now_ns) {
    return now_ns - since_ns >= NSEC_PER_SEC;
}

/* The row of whose, or a free one, or the oldest, whose count is the place's from now on. */
static struct log_row *log_row_find(struct log_limit *l, uint64_t whose) {
    struct log_row *best = l->rows;
    for (unsigned i = 0; i < LOG_ROWS; i++) {
        struct log_row *row = &l->rows[i];
        bool is_free = !row->lines && !row->dropped;
        if (!is_free && row->whose == whose)
            return row;
        if ((best->lines || best->dropped) && (is_free || row->since_ns < best->since_ns))
            best = row;
    }
    l->dropped += best->dropped;
    *best = (struct log_row){.whose = whose};
    return best;
}

static bool place_pass(struct log_limit *l, bool first, uint64_t now_ns) {
    if (second_is_over(l->since_ns, now_ns)) {
        l->since_ns = now_ns;
        l->lines = 0;
    }
    if (l->lines >= (first ? LOG_PLACE_LINES : LOG_PLACE_LINES / 2))
        return false;
    l->lines++;
    return true;
}

bool log_limit_pass(struct log_limit *l, uint64_t whose, uint64_t now_ns, uint32_t *dropped) {
    struct log_row *row = log_row_find(l, whose);
    if (second_is_over(row->since_ns, now_ns)) {
        row->since_ns = now_ns;
        row->lines = 0;
    }
    if (row->lines >= LOG_LINES || !place_pass(l, row->lines == 0, now_ns)) {
        row->dropped++;
        return false;
    }
    row->lines++;
    *dropped = row->dropped + l->dropped;
    row->dropped = l->dropped = 0;
    return true;
}

/* FNV-1a, with the highest bit set: the numbers of users and connections do not have it. */
uint64_t log_of_bytes(const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash | UINT64_C(1) << 63;
}

uint64_t log_of_name(const char *name) {
    return log_of_bytes(name, strlen(name));
}
