/* SPDX-License-Identifier: MIT */
/*
 * audit_limit.h - how many events of one origin and cause are written a minute.
 *
 * An origin is a user (a uid, by a tenant's socket one of its own), a peer by its proven name, a
 * stranger by its address (of IPv6 the /64), or the daemon. The first event of an origin, kind and
 * cause always passes, and as many in a minute as AUDIT_LINES and AUDIT_LINES_BAD say; the others
 * are counted, and the count is told when the minute is over. Somebody who has many uids or
 * addresses could have many firsts: all origins of one class share a bound, of which repetitions
 * get half. So no class can have more lines than it may, nor use up another's.
 *
 * A table of a fixed size: when it is full the oldest row of its class gives way, and its count
 * goes into the class's. Not thread-safe; it takes now_ns.
 */
#ifndef RDMAD_BASE_AUDIT_LIMIT_H
#define RDMAD_BASE_AUDIT_LIMIT_H

#include "daemon/base/audit_event.h"
#include <stdbool.h>

/* Lines a minute of one origin, kind of event and cause. */
#define AUDIT_LINES_BAD 10u /* refused, throttled, violated */
#define AUDIT_LINES 60u     /* all others */
/* Lines a minute of a class. As many again can follow, with the counts. */
#define AUDIT_CLASS_LINES_BAD 44u
#define AUDIT_CLASS_LINES 600u

#define AUDIT_ROWS 256u /* of a class */
#define AUDIT_WHO_MAX 95u

enum audit_class {
    AUDIT_OF_DAEMON,
    AUDIT_OF_USERS,
    AUDIT_OF_PEERS,
    AUDIT_OF_STRANGERS,
    AUDIT_CLASSES
};

struct audit_row {
    uint64_t since_ns; /* when its minute began */
    enum audit_event event;
    const char *cause;           /* NULL: the row is free */
    char who[AUDIT_WHO_MAX + 1]; /* the origin in words, zero-filled: its identity */
    uint32_t lines, skipped;
};

struct audit_share { /* of a class, for the good or for the bad */
    uint64_t since_ns;
    uint32_t lines;
    uint64_t skipped; /* of rows that are not there any more, or that never had a line */
};

struct audit_limit { /* zero-initialised */
    struct audit_row rows[AUDIT_CLASSES][AUDIT_ROWS];
    struct audit_share shares[AUDIT_CLASSES][2];
    bool counting; /* something was skipped and is not told yet */
};

/* Whether the event is written. *skipped: how many of the same were not, since the last that was.
 */
bool audit_limit_pass(struct audit_limit *l, enum audit_event event, const char *cause,
                      const struct audit_who *who, uint64_t now_ns, uint32_t *skipped);

/* What was skipped and has nobody who tells it. */
struct audit_skipped {
    enum audit_event event;
    const char *cause;
    char who[AUDIT_WHO_MAX + 1];
    uint64_t count;
};
/* The next count whose minute is over (all: or is not); false: there is none. Each is told once. */
bool audit_limit_tell(struct audit_limit *l, bool all, uint64_t now_ns, struct audit_skipped *out);
/* When audit_limit_tell may next have something; CLOCK_NEVER: nothing was skipped. */
uint64_t audit_limit_next(const struct audit_limit *l, uint64_t now_ns);

#endif
