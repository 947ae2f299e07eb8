/* SPDX-License-Identifier: MIT */
/*
 * log_limit.h - how many lines a second one place of the code writes, and for whom.
 *
 * Each who caused a line has LOG_LINES a second of a place, so that nobody's flood hides what
 * another did there. Somebody who has many uids or addresses is many: all of a place share
 * LOG_PLACE_LINES, of which those that had a line in this second get half, so that the rest is for
 * who comes first. What is not written is counted, and the count is told with the next line of the
 * same, or, where its row had to give way, of the place.
 *
 * This is audit_limit.h's rule in small: a few rows for each place, a second instead of a minute,
 * and a number instead of a name, for any thread may be held up here. Takes now_ns; not
 * thread-safe (log.c has a lock around it).
 */
#ifndef RDMAD_BASE_LOG_LIMIT_H
#define RDMAD_BASE_LOG_LIMIT_H

#include "daemon/base/user_id.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINES 10u       /* a second, of one place and who */
#define LOG_PLACE_LINES 40u /* of one place, whoever */
#define LOG_ROWS 16u

struct log_row {
    uint64_t whose, since_ns;
    uint32_t lines, dropped; /* both 0: the row is free */
};

struct log_limit { /* zero-initialised static of each limited place */
    uint64_t since_ns;
    uint32_t lines, dropped; /* dropped: by rows that are not there any more */
    struct log_row rows[LOG_ROWS];
};

/* Whether a line may pass; *dropped: how many did not since the last one that did. */
bool log_limit_pass(struct log_limit *l, uint64_t whose, uint64_t now_ns, uint32_t *dropped);

/* Whose a line is, as a number: the daemon's own, a user's, a connection's of a peer (where no more
 * is known of it), a peer's by its name, or a host's by its address. */
#define LOG_OWN UINT64_C(0)

static inline uint64_t log_of_user(struct user_id user) {
    return UINT64_C(1) << 61 ^ user_id_number(user);
}

static inline uint64_t log_of_connection(uint64_t peer) {
    return UINT64_C(1) << 62 ^ peer;
}

/* Two that have the same number share ten lines: no more comes of it. */
uint64_t log_of_bytes(const void *bytes, size_t size);
uint64_t log_of_name(const char *name);

#endif
