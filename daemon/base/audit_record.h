/* SPDX-License-Identifier: MIT */
/*
 * audit_record.h - one event of the audit, copied, and how it is written: in the log, and as a line
 * of JSON. Both are printable ASCII, whatever is in the texts.
 */
#ifndef RDMAD_BASE_AUDIT_RECORD_H
#define RDMAD_BASE_AUDIT_RECORD_H

#include "daemon/base/audit_event.h"
#include <rdmad/abi.h>
#include <stddef.h>
#include <time.h>

#define AUDIT_ADDRESS_MAX 270u /* a host and its port */
/* Bytes of a line that is long enough for every record: each byte of a text can become five. */
#define AUDIT_LINE_MAX 4096u

struct audit_record {
    struct timespec at; /* CLOCK_REALTIME */
    enum audit_event event;
    const char *cause, *object; /* literals; object may be NULL */
    int kind;                   /* as of struct audit_who */
    uid_t uid;
    pid_t pid;
    uint64_t id, skipped;
    char tenant[RDMAD_NAME_MAX + 1];
    char peer[RDMAD_NAME_MAX + 1], address[AUDIT_ADDRESS_MAX + 1], text[RDMAD_TEXT_MAX + 1];
};

void audit_record_fill(struct audit_record *r, enum audit_event event, const char *cause,
                       const struct audit_who *who, struct audit_object object, const char *text);
/* "refused" */
const char *audit_event_name(enum audit_event event);
void audit_record_log(const struct audit_record *r);
/* The line with its newline; returns its length. */
size_t audit_record_json(const struct audit_record *r, char line[AUDIT_LINE_MAX]);

#endif
