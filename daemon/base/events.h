/* SPDX-License-Identifier: MIT */
/*
 * events.h - what changed, and what was refused, failed and ended, as far as it is remembered: for
 * rdmactl events and rdmactl why.
 *
 * The memory has a fixed size, shared equally by those whose doing the events were: users, and the
 * daemon itself with its peers, who count as four. When it is full, whoever has most forgets its
 * oldest. So nobody makes others' events forgotten but by having none itself.
 *
 * Each event of the audit that is written is remembered, and EVENT() adds what is no event of the
 * audit. Thread-safe; it takes a lock for a few lines, so workers leave it to others.
 */
#ifndef RDMAD_BASE_EVENTS_H
#define RDMAD_BASE_EVENTS_H

#include "daemon/base/audit_event.h"
#include "daemon/base/log.h"
#include <rdmad/abi.h>
#include <stdbool.h>
#include <stddef.h>

#define EVENTS_MAX 1024u
#define EVENTS_OWNERS 128u /* users beyond that share one place */

struct event_row {
    uint64_t number; /* from 1 on, in their order */
    uint64_t at_ns;  /* of the daemon's clock */
    int64_t at_s;    /* since 1970 */
    bool of_user;    /* else the daemon's, or a peer's */
    uid_t uid;
    char tenant[RDMAD_NAME_MAX + 1]; /* by whose socket that came; "": nobody's */
    const char *what, *cause;        /* literals: "refused", "limit" */
    const char *object;              /* a literal, or NULL */
    uint64_t id;                     /* of that */
    uint64_t session;                /* whose that is; 0: that is not said */
    char peer[RDMAD_NAME_MAX + 1];
    char text[RDMAD_TEXT_MAX + 1];
};

/* The texts are copied; what and cause are literals. */
void events_add(const char *what, const char *cause, const struct audit_who *who,
                struct audit_object object, const char *text);

/* EVENT("link", "broken", who, object, (format, args...)) */
#define EVENT(what, cause, who, object, message)                                    \
    do {                                                                            \
        const struct audit_who event_who_here = (who);                              \
        events_add((what), (cause), &event_who_here, (object), log_format message); \
    } while (0)

/* Those beyond number after, in their order, that wanted (NULL: all) lets through; at most room,
 * the latest. Returns how many. wanted is called under the lock. */
unsigned events_read(uint64_t after, bool (*wanted)(void *arg, const struct event_row *e),
                     void *arg, struct event_row *out, unsigned room);
void events_forget(void); /* all; for tests */

#endif
