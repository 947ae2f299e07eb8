/* SPDX-License-Identifier: MIT */
/*
 * log.c - lines to stderr, or entries to the journal.
 *
 * systemd sets JOURNAL_STREAM to the device and inode of the journal's stream; only when our stderr
 * is that very stream do we speak the journal's own protocol, so that a redirected daemon writes
 * where it was told to. A line is one write(2): lines of several threads never mix. What does not
 * fit is cut. An entry is made by who has something to say, and written by the log's thread where
 * there is one (log_queue.h).
 */
#include "daemon/base/log.h"
#include "daemon/base/clock.h"
#include "daemon/base/log_queue.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <sys/stat.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#define TEXT_MAX 1024
#define FIELDS_MAX 12
#define FIELD_MAX 320

static int log_level = LOG_INFO;
static bool to_journal;
static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const level_name[] = {"emergency", "alert",  "critical", "error",
                                         "warning",   "notice", "info",     "debug"};

static bool stderr_is_journal(void) {
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    uint64_t device, inode;
    if (!stream || sscanf(stream, "%" SCNu64 ":%" SCNu64, &device, &inode) != 2)
        return false;
    return !fstat(STDERR_FILENO, &st) && st.st_dev == device && st.st_ino == inode;
}

void log_init(int level, int stderr_only) {
    log_set_level(level);
    to_journal = !stderr_only && stderr_is_journal();
}

int log_level_named(const char *name) {
    static const char *const names[] = {"", "", "", "error", "warning", "notice", "info", "debug"};
    for (int level = LOG_ERR; level <= LOG_DEBUG; level++)
        if (!strcmp(name, names[level]))
            return level;
    return LOG_INFO;
}

void log_set_level(int level) {
    __atomic_store_n(&log_level, level, __ATOMIC_RELAXED);
}

const char *log_format(const char *format, ...) {
    static _Thread_local char text[TEXT_MAX];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    return text;
}

void log_escape(char *buf, size_t size, size_t *used, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = c >= 0x20 && c < 0x7f && c != '\\';
        size_t need = plain ? 1 : 4;
        if (*used + need >= size)
            break;
        if (plain)
            buf[*used] = (char)c;
        else
            snprintf(buf + *used, 5, "\\x%02x", c);
        *used += need;
    }
    buf[*used] = '\0';
}

static void append(char *buf, size_t size, size_t *used, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void append(char *buf, size_t size, size_t *used, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(buf + *used, size - *used, format, ap);
    va_end(ap);
    if (n > 0)
        *used += (size_t)n < size - *used ? (size_t)n : size - *used - 1;
}

static bool is_message_id(const struct log_field *field) {
    return !strcmp(field->key, "MESSAGE_ID");
}

/* ---- an entry for the journal -------------------------------------------------------------- */

#define PARTS_MAX (2 + FIELDS_MAX)

RDMAD_STATIC_ASSERT(TEXT_MAX + 16 + 16 + FIELDS_MAX * FIELD_MAX <= LOG_ENTRY_MAX,
                    "all of a journal's");
RDMAD_STATIC_ASSERT(2 * TEXT_MAX <= LOG_ENTRY_MAX, "a line");

/* A part's room in the entry; part_end() takes what was used of it. */
static char *part_begin(struct log_entry *entry, size_t *used) {
    *used = 0;
    return entry->bytes + entry->size;
}

static void part_end(struct log_entry *entry, size_t used) {
    entry->size += (uint32_t)used + 1;
    entry->parts++;
}

static void entry_for_journal(struct log_entry *entry, int level, const char *text,
                              const struct log_field *fields) {
    size_t used;
    entry->parts = entry->size = 0;
    char *part = part_begin(entry, &used);
    append(part, TEXT_MAX + 16, &used, "MESSAGE=");
    log_escape(part, TEXT_MAX + 16, &used, text);
    part_end(entry, used);
    part = part_begin(entry, &used);
    append(part, 16, &used, "PRIORITY=%d", level);
    part_end(entry, used);
    for (; fields->key && entry->parts < PARTS_MAX; fields++) {
        part = part_begin(entry, &used);
        append(part, FIELD_MAX, &used, "%s%s=", is_message_id(fields) ? "" : "RDMAD_", fields->key);
        if (fields->text)
            log_escape(part, FIELD_MAX, &used, fields->text);
        else
            append(part, FIELD_MAX, &used, "%" PRIu64, fields->number);
        part_end(entry, used);
    }
}

static void write_journal(const struct log_entry *entry) {
    struct iovec iov[PARTS_MAX];
    /* sendv does not write to what it sends, and takes a type that could. */
    char *part = (char *)entry->bytes;
    for (uint32_t i = 0; i < entry->parts; i++) {
        size_t size = strlen(part);
        iov[i] = (struct iovec){part, size};
        part += size + 1;
    }
    sd_journal_sendv(iov, (int)entry->parts);
}

/* ---- a line for standard error ------------------------------------------------------------- */

static void append_key(char *buf, size_t size, size_t *used, const char *key) {
    append(buf, size, used, " ");
    for (; *key; key++)
        append(buf, size, used, "%c", tolower((unsigned char)*key));
    append(buf, size, used, "=");
}

static void entry_for_stderr(struct log_entry *entry, int level, const char *text,
                             const struct log_field *fields) {
    char *line = entry->bytes;
    size_t used = 0, room = 2 * TEXT_MAX - 1; /* the newline always fits */
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    append(line, room, &used, "%02d:%02d:%02d.%03ld %s: ", tm.tm_hour, tm.tm_min, tm.tm_sec,
           now.tv_nsec / 1000000, level_name[level]);
    log_escape(line, room, &used, text);
    for (; fields->key; fields++) {
        if (is_message_id(fields))
            continue;
        append_key(line, room, &used, fields->key);
        if (fields->text)
            log_escape(line, room, &used, fields->text);
        else
            append(line, room, &used, "%" PRIu64, fields->number);
    }
    line[used++] = '\n';
    entry->parts = 0;
    entry->size = (uint32_t)used;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void entry_make(struct log_entry *entry, int level, const char *text,
                       const struct log_field *fields) {
    if (to_journal)
        entry_for_journal(entry, level, text, fields);
    else
        entry_for_stderr(entry, level, text, fields);
}

/* Lines that standard error did not take, on a full disk, say. They are counted until it takes one
 * again, and then that is told first. */
static struct {
    uint64_t lines;
    int why;
    bool torn; /* of the last line only a part was taken */
} missing;

static const struct log_field no_fields[] = {{NULL, NULL, 0}};

/* Whether it took all of it; errno if not. */
static bool stderr_write(const char *bytes, size_t size) {
    ssize_t n;
    do {
        n = write(STDERR_FILENO, bytes, size);
    } while (n < 0 && errno == EINTR);
    if (n > 0)
        __atomic_store_n(&missing.torn, (size_t)n < size, __ATOMIC_RELAXED);
    if (n >= 0 && (size_t)n < size)
        errno = ENOSPC;
    return n == (ssize_t)size;
}

static bool missing_write(void) {
    struct log_entry entry;
    uint64_t lines = __atomic_load_n(&missing.lines, __ATOMIC_RELAXED);
    if (__atomic_load_n(&missing.torn, __ATOMIC_RELAXED) && !stderr_write("\n", 1))
        return false;
    entry_for_stderr(&entry, LOG_WARNING,
                     log_format("%" PRIu64 " lines were not written: %s", lines,
                                strerror(__atomic_load_n(&missing.why, __ATOMIC_RELAXED))),
                     no_fields);
    if (!stderr_write(entry.bytes, entry.size))
        return false;
    __atomic_sub_fetch(&missing.lines, lines, __ATOMIC_RELAXED);
    return true;
}

static void entry_write(const struct log_entry *entry) {
    if (entry->parts) {
        write_journal(entry);
        return;
    }
    if ((__atomic_load_n(&missing.lines, __ATOMIC_RELAXED) && !missing_write()) ||
        !stderr_write(entry->bytes, entry->size)) {
        __atomic_store_n(&missing.why, errno, __ATOMIC_RELAXED);
        __atomic_add_fetch(&missing.lines, 1, __ATOMIC_RELAXED);
    }
}

static void lost_write(uint64_t entries) {
    struct log_entry entry;
    entry_make(&entry, LOG_WARNING,
               log_format("%" PRIu64 " lines were not written: the journal, the disk or the reader "
                          "of standard error was too slow",
                          entries),
               no_fields);
    entry_write(&entry);
}

int log_start(struct error *err) {
    static const struct log_queue_writer writer = {entry_write, lost_write};
    return log_queue_start(&writer, err);
}

void log_stop(void) {
    log_queue_stop();
}

static bool limit_pass(struct log_limit *limit, uint64_t whose, uint32_t *dropped) {
    uint64_t now = clock_now_ns();
    pthread_mutex_lock(&limit_lock);
    bool pass = log_limit_pass(limit, whose, now, dropped);
    pthread_mutex_unlock(&limit_lock);
    return pass;
}

void log_write(int level, struct log_limit *limit, uint64_t whose, const char *text,
               const struct log_field *fields) {
    if (level > __atomic_load_n(&log_level, __ATOMIC_RELAXED))
        return;

    char more[TEXT_MAX];
    uint32_t dropped = 0;
    if (limit && !limit_pass(limit, whose, &dropped))
        return;
    if (dropped) {
        snprintf(more, sizeof(more), "%.*s (%u more like it were not shown)", TEXT_MAX - 64, text,
                 dropped);
        text = more;
    }
    struct log_entry entry;
    entry_make(&entry, level, text, fields);
    if (!log_queue_put(&entry))
        entry_write(&entry);
}
