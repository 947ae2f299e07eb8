/* SPDX-License-Identifier: MIT */
/*
 * error.c - what went wrong last, in full words, for each thread.
 *
 * A thread remembers the last error of each of the few sessions it failed on most recently, so that
 * two sessions do not take each other's words away.
 */
#include "libclient/base/error.h"
#include "common/errors.h"
#include "libclient/base/session.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REMEMBERED 4u

struct error_record {
    uint64_t session; /* serial; 0: no session */
    uint64_t order;   /* 0: unused */
    char text[2 * RDMAD_TEXT_MAX];
};

static __thread struct error_record records[REMEMBERED];
static __thread uint64_t order;

static struct error_record *record_for(const struct rdmad_session *session) {
    uint64_t serial = session ? session->serial : 0;
    struct error_record *oldest = &records[0];
    for (unsigned i = 0; i < REMEMBERED; i++) {
        if (records[i].order && records[i].session == serial)
            return &records[i];
        if (records[i].order < oldest->order)
            oldest = &records[i];
    }
    oldest->session = serial;
    return oldest;
}

int rdmad_fail(const struct rdmad_session *session, int code, const char *format, ...) {
    struct error_record *r = record_for(session);
    char text[sizeof(r->text)]; /* the old sentence may be among the arguments */
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    memcpy(r->text, text, sizeof(text));
    r->order = ++order;
    return code;
}

int rdmad_fail_errno(const struct rdmad_session *session, int code, const char *format, ...) {
    int saved = errno;
    char text[RDMAD_TEXT_MAX + 1], why[96];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    return rdmad_fail(session, code, "%s: %s", text, strerror_r(saved, why, sizeof(why)));
}

const char *rdmad_last_error(const rdmad_session *session) {
    if (session)
        RDMAD_LIVE(session, SESSION);
    return rdmad_error_said(session);
}

const char *rdmad_error_said(const struct rdmad_session *session) {
    const struct error_record *newest = &records[0];
    for (unsigned i = 0; i < REMEMBERED; i++) {
        if (session && records[i].order && records[i].session == session->serial)
            return records[i].text;
        if (records[i].order > newest->order)
            newest = &records[i];
    }
    if (session || !newest->order)
        return "no error";
    return newest->text;
}

const char *rdmad_strerror(int error) {
    return rdmad_error_text(error);
}

const char *rdmad_errname(int error) {
    return rdmad_error_name(error);
}

const char *rdmad_version(void) {
    return RDMAD_VERSION;
}
