/* SPDX-License-Identifier: MIT */
/*
 * log.h - one line an event, with structured fields, to stderr or the journal.
 *
 * LOG(WARNING, ("session %lu broke its ring", id), FIELD_U64("SESSION", id)) writes one line. Text
 * from outside is printed with control bytes escaped. A place that can be provoked from outside
 * uses LOG_LIMITED_OF, which lets ten lines a second of each through and then counts what it drops
 * (log_limit.h); LOG_LIMITED where nobody outside is known to have caused it.
 *
 * From log_start() to log_stop() a thread of its own writes, so nobody waits for a journal, a disk
 * or a reader that hangs (log_queue.h). Without it, whoever has something to say writes.
 *
 * Thread-safe. Under the journal (JOURNAL_STREAM names our stderr) fields go as fields named
 * RDMAD_KEY, else as key=value after the text. MESSAGE_ID is the journal's own, and only there.
 */
#ifndef RDMAD_BASE_LOG_H
#define RDMAD_BASE_LOG_H

#include "daemon/base/error.h"
#include "daemon/base/log_limit.h"
#include <stddef.h>
#include <stdint.h>
#include <syslog.h>

struct log_field {
    const char *key;  /* upper case, [A-Z0-9_]; NULL ends the list */
    const char *text; /* or NULL: */
    uint64_t number;
};

#define FIELD_U64(k, v) ((struct log_field){(k), NULL, (uint64_t)(v)})
#define FIELD_STR(k, v) ((struct log_field){(k), (v), 0})

/* stderr_only: ignore the journal even when stderr is connected to it. level: highest shown. */
void log_init(int level, int stderr_only);
void log_set_level(int level);
/* "error" to "debug"; LOG_INFO for what is none of them. */
int log_level_named(const char *name);
int log_start(struct error *err); /* RDMAD_E_SYSTEM: no thread can be had */
/* Writes what is queued, for a second at most. If that did not do, all that is said from now on is
 * dropped. */
void log_stop(void);

/* limit NULL: it always passes. whose: of log_limit.h. */
void log_write(int level, struct log_limit *limit, uint64_t whose, const char *text,
               const struct log_field *fields);
const char *log_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Appends text to buf (which has size bytes, *used of them taken) with every byte that is not
 * printable ASCII escaped, so that nothing from outside can forge a line or drive a terminal. What
 * does not fit is left out. */
void log_escape(char *buf, size_t size, size_t *used, const char *text);

/* LOG(level, (format, args...), fields...) */
#define LOG(level, message, ...)                              \
    log_write(LOG_##level, NULL, LOG_OWN, log_format message, \
              (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){NULL, NULL, 0}})
#define LOG_LIMITED_OF(whose, level, message, ...)                                        \
    do {                                                                                  \
        static struct log_limit log_limit_here;                                           \
        log_write(LOG_##level, &log_limit_here, (whose), log_format message,              \
                  (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){NULL, NULL, 0}}); \
    } while (0)
#define LOG_LIMITED(level, ...) LOG_LIMITED_OF(LOG_OWN, level, __VA_ARGS__)

#endif
