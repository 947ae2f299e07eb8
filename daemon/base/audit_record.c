/* SPDX-License-Identifier: MIT */
/*
 * audit_record.c - an event, in both its forms.
 *
 * A text is first escaped as the log escapes it and then quoted for JSON: so whoever decodes the
 * JSON and prints it has no control byte on the terminal either.
 */
#include "daemon/base/audit_record.h"
#include "daemon/base/log.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *audit_event_name(enum audit_event event) {
    static const char *const names[AUDIT_EVENTS] = {
        [AUDIT_ADMITTED] = "admitted", [AUDIT_REFUSED] = "refused", [AUDIT_GRANTED] = "granted",
        [AUDIT_ATTACHED] = "attached", [AUDIT_REVOKED] = "revoked", [AUDIT_THROTTLED] = "throttled",
        [AUDIT_VIOLATED] = "violated", [AUDIT_ADMIN] = "admin",
    };
    return names[event];
}

void audit_record_fill(struct audit_record *r, enum audit_event event, const char *cause,
                       const struct audit_who *who, struct audit_object object, const char *text) {
    *r = (struct audit_record){.event = event,
                               .cause = cause,
                               .object = object.kind,
                               .id = object.id,
                               .kind = (int)who->kind,
                               .uid = who->uid,
                               .pid = who->pid};
    clock_gettime(CLOCK_REALTIME, &r->at);
    snprintf(r->tenant, sizeof(r->tenant), "%s", who->tenant ? who->tenant : "");
    snprintf(r->peer, sizeof(r->peer), "%s", who->peer ? who->peer : "");
    snprintf(r->address, sizeof(r->address), "%s", who->address ? who->address : "");
    snprintf(r->text, sizeof(r->text), "%s", text);
}

/* What an honest day is full of is information. */
static int level_of(enum audit_event event) {
    bool good = event == AUDIT_ADMITTED || event == AUDIT_GRANTED || event == AUDIT_ATTACHED;
    return good ? LOG_INFO : LOG_NOTICE;
}

void audit_record_log(const struct audit_record *r) {
    struct log_field fields[12];
    unsigned n = 0;
    fields[n++] = FIELD_STR("MESSAGE_ID", AUDIT_MESSAGE_ID);
    fields[n++] = FIELD_STR("AUDIT", audit_event_name(r->event));
    fields[n++] = FIELD_STR("CAUSE", r->cause);
    if (r->kind == AUDIT_USER)
        fields[n++] = FIELD_U64("UID", r->uid);
    if (r->kind == AUDIT_USER && r->pid)
        fields[n++] = FIELD_U64("PID", r->pid);
    if (r->tenant[0])
        fields[n++] = FIELD_STR("TENANT", r->tenant);
    if (r->peer[0])
        fields[n++] = FIELD_STR("PEER_NAME", r->peer);
    if (r->address[0])
        fields[n++] = FIELD_STR("PEER_ADDRESS", r->address);
    if (r->object) {
        fields[n++] = FIELD_STR("OBJECT", r->object);
        fields[n++] = FIELD_U64("OBJECT_ID", r->id);
    }
    if (r->skipped)
        fields[n++] = FIELD_U64("SKIPPED", r->skipped);
    fields[n] = (struct log_field){NULL, NULL, 0};
    log_write(level_of(r->event), NULL, LOG_OWN, r->text, fields);
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

struct line {
    char *buf;
    size_t used;
};

/* The largest record fits (AUDIT_LINE_MAX); a mistake in that is cut, not written beyond. */
static void line_put(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line_put(struct line *l, const char *format, ...) {
    size_t room = AUDIT_LINE_MAX - l->used;
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(l->buf + l->used, room, format, ap);
    va_end(ap);
    if (n > 0)
        l->used += (size_t)n < room ? (size_t)n : room - 1;
}

static void line_put_text(struct line *l, const char *key, const char *text) {
    char plain[4 * RDMAD_TEXT_MAX + 128];
    size_t used = 0;
    log_escape(plain, sizeof(plain), &used, text);
    line_put(l, ",\"%s\":\"", key);
    for (const char *c = plain; *c; c++)
        line_put(l, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    line_put(l, "\"");
}

static void line_put_time(struct line *l, const struct timespec *at) {
    struct tm tm;
    gmtime_r(&at->tv_sec, &tm);
    line_put(l, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ\"", tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, at->tv_nsec / 1000);
}

size_t audit_record_json(const struct audit_record *r, char line[AUDIT_LINE_MAX]) {
    struct line l = {.buf = line};
    line_put_time(&l, &r->at);
    line_put_text(&l, "event", audit_event_name(r->event));
    line_put_text(&l, "cause", r->cause);
    if (r->kind == AUDIT_USER)
        line_put(&l, ",\"uid\":%u", (unsigned)r->uid);
    if (r->kind == AUDIT_USER && r->pid)
        line_put(&l, ",\"pid\":%d", (int)r->pid);
    if (r->tenant[0])
        line_put_text(&l, "tenant", r->tenant);
    if (r->kind == AUDIT_PEER) {
        line_put_text(&l, "peer", r->peer);
        line_put_text(&l, "address", r->address);
    }
    if (r->object) {
        line_put_text(&l, "object", r->object);
        line_put(&l, ",\"id\":%" PRIu64, r->id);
    }
    if (r->skipped)
        line_put(&l, ",\"skipped\":%" PRIu64, r->skipped);
    line_put_text(&l, "text", r->text);
    line_put(&l, "}\n");
    return l.used;
}
