/* SPDX-License-Identifier: MIT */
/*
 * audit_limit.c - rows of origins, and shares of their classes.
 *
 * Causes are literals and few, so the rows of one origin are few; they are compared by their text,
 * for two files may have the same.
 */
#include "daemon/base/audit_limit.h"
#include "common/uri.h"
#include "daemon/base/address.h"
#include "daemon/base/clock.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define MINUTE_NS (60 * NSEC_PER_SEC)

static bool is_bad(enum audit_event event) {
    return event == AUDIT_REFUSED || event == AUDIT_THROTTLED || event == AUDIT_VIOLATED;
}

static bool minute_is_over(uint64_t since_ns, uint64_t now_ns) {
    return now_ns - since_ns >= MINUTE_NS;
}

/* A host, however its address is spelt and whatever its port. */
static void print_source(const char *address, char *buf, size_t size) {
    char host[RDMAD_HOST_MAX + 1];
    uint16_t port;
    if (!address)
        address = "";
    const char *text = rdmad_hostport_parse(address, host, &port) ? address : host;
    const struct in6_addr none = {0};
    struct in6_addr source = address_source(text);
    if (!memcmp(&source, &none, sizeof(none)) ||
        !inet_ntop(AF_INET6, &source, buf, (socklen_t)size))
        snprintf(buf, size, "%.60s", text);
}

static enum audit_class class_of(const struct audit_who *who) {
    if (who->kind == AUDIT_USER)
        return AUDIT_OF_USERS;
    if (who->kind != AUDIT_PEER)
        return AUDIT_OF_DAEMON;
    return who->peer && *who->peer ? AUDIT_OF_PEERS : AUDIT_OF_STRANGERS;
}

/* Zero-filled, so that it can be compared as a whole. */
static void name_origin(const struct audit_who *who, char out[AUDIT_WHO_MAX + 1]) {
    char source[AUDIT_WHO_MAX - 7];
    memset(out, 0, AUDIT_WHO_MAX + 1);
    switch (class_of(who)) {
    case AUDIT_OF_USERS:
        if (who->tenant && *who->tenant)
            snprintf(out, AUDIT_WHO_MAX + 1, "uid %u of tenant %s", (unsigned)who->uid,
                     who->tenant);
        else
            snprintf(out, AUDIT_WHO_MAX + 1, "uid %u", (unsigned)who->uid);
        break;
    case AUDIT_OF_PEERS:
        snprintf(out, AUDIT_WHO_MAX + 1, "peer %s", who->peer);
        break;
    case AUDIT_OF_STRANGERS:
        print_source(who->address, source, sizeof(source));
        snprintf(out, AUDIT_WHO_MAX + 1, "host %s", source);
        break;
    default:
        snprintf(out, AUDIT_WHO_MAX + 1, "rdmad");
    }
}

static bool row_is(const struct audit_row *row, enum audit_event event, const char *cause,
                   const char *who) {
    return row->cause && row->event == event && !strcmp(row->cause, cause) &&
           !memcmp(row->who, who, sizeof(row->who));
}

/* The row of an origin and cause, or a free one, or the oldest. */
static struct audit_row *row_find(struct audit_limit *l, enum audit_class class,
                                  enum audit_event event, const char *cause, const char *who) {
    struct audit_row *rows = l->rows[class], *best = rows;
    for (unsigned i = 0; i < AUDIT_ROWS; i++) {
        if (row_is(&rows[i], event, cause, who))
            return &rows[i];
        if (best->cause && (!rows[i].cause || rows[i].since_ns < best->since_ns))
            best = &rows[i];
    }
    if (best->cause)
        l->shares[class][is_bad(best->event)].skipped += best->skipped;
    *best = (struct audit_row){.event = event};
    memcpy(best->who, who, sizeof(best->who));
    return best;
}

/* Repetitions get half of what a class may have: the rest is for those who come first. */
static bool share_pass(struct audit_share *s, bool bad, bool first, uint64_t now_ns) {
    uint32_t most = bad ? AUDIT_CLASS_LINES_BAD : AUDIT_CLASS_LINES;
    if (minute_is_over(s->since_ns, now_ns)) {
        s->since_ns = now_ns;
        s->lines = 0;
    }
    if (s->lines >= (first ? most : most / 2))
        return false;
    s->lines++;
    return true;
}

bool audit_limit_pass(struct audit_limit *l, enum audit_event event, const char *cause,
                      const struct audit_who *who, uint64_t now_ns, uint32_t *skipped) {
    char origin[AUDIT_WHO_MAX + 1];
    enum audit_class class = class_of(who);
    bool bad = is_bad(event);
    name_origin(who, origin);
    struct audit_row *row = row_find(l, class, event, cause, origin);
    if (!row->cause || minute_is_over(row->since_ns, now_ns)) {
        row->cause = cause;
        row->since_ns = now_ns;
        row->lines = 0;
    }
    *skipped = 0;
    if (row->lines >= (bad ? AUDIT_LINES_BAD : AUDIT_LINES) ||
        !share_pass(&l->shares[class][bad], bad, row->lines == 0, now_ns)) {
        row->skipped += row->skipped < UINT32_MAX;
        l->counting = true;
        return false;
    }
    row->lines++;
    *skipped = row->skipped;
    row->skipped = 0;
    return true;
}

/* ---- what was skipped -------------------------------------------------------------------------
 */

/* A row that had a line tells its own count; one that had none leaves it to its class, for of those
 * there can be very many. */
static bool row_tell(struct audit_share *s, struct audit_row *row, struct audit_skipped *out) {
    struct audit_row was = *row;
    *row = (struct audit_row){0};
    if (!was.skipped)
        return false;
    if (!was.lines) {
        s->skipped += was.skipped;
        return false;
    }
    *out = (struct audit_skipped){.event = was.event, .cause = was.cause, .count = was.skipped};
    memcpy(out->who, was.who, sizeof(out->who));
    return true;
}

static bool share_tell(struct audit_share *s, enum audit_class class, bool bad,
                       struct audit_skipped *out) {
    static const char *const others[AUDIT_CLASSES] = {"rdmad", "other users", "other peers",
                                                      "other hosts"};
    if (!s->skipped)
        return false;
    *out = (struct audit_skipped){
        .event = bad ? AUDIT_REFUSED : AUDIT_ADMITTED, .cause = "various", .count = s->skipped};
    snprintf(out->who, sizeof(out->who), "%s", others[class]);
    s->skipped = 0;
    return true;
}

/* All rows of a class before its share, which they may add to. */
static bool class_tell(struct audit_limit *l, enum audit_class class, bool all, uint64_t now_ns,
                       struct audit_skipped *out) {
    for (unsigned i = 0; i < AUDIT_ROWS; i++) {
        struct audit_row *row = &l->rows[class][i];
        if (row->cause && (all || minute_is_over(row->since_ns, now_ns)) &&
            row_tell(&l->shares[class][is_bad(row->event)], row, out))
            return true;
    }
    for (unsigned bad = 0; bad < 2; bad++) {
        struct audit_share *s = &l->shares[class][bad];
        if ((all || minute_is_over(s->since_ns, now_ns)) && share_tell(s, class, bad, out))
            return true;
    }
    return false;
}

static bool is_counting(const struct audit_limit *l) {
    for (unsigned class = 0; class < AUDIT_CLASSES; class ++) {
        if (l->shares[class][0].skipped || l->shares[class][1].skipped)
            return true;
        for (unsigned i = 0; i < AUDIT_ROWS; i++)
            if (l->rows[class][i].skipped)
                return true;
    }
    return false;
}

bool audit_limit_tell(struct audit_limit *l, bool all, uint64_t now_ns, struct audit_skipped *out) {
    if (!l->counting)
        return false;
    for (enum audit_class class = 0; class < AUDIT_CLASSES; class ++)
        if (class_tell(l, class, all, now_ns, out))
            return true;
    l->counting = is_counting(l);
    return false;
}

uint64_t audit_limit_next(const struct audit_limit *l, uint64_t now_ns) {
    uint64_t next = CLOCK_NEVER;
    if (!l->counting)
        return next;
    for (unsigned class = 0; class < AUDIT_CLASSES; class ++) {
        for (unsigned bad = 0; bad < 2; bad++) {
            const struct audit_share *s = &l->shares[class][bad];
            if (s->skipped && s->since_ns + MINUTE_NS < next)
                next = s->since_ns + MINUTE_NS;
        }
        for (unsigned i = 0; i < AUDIT_ROWS; i++) {
            const struct audit_row *row = &l->rows[class][i];
            if (row->skipped && row->since_ns + MINUTE_NS < next)
                next = row->since_ns + MINUTE_NS;
        }
    }
    return next > now_ns ? next : now_ns;
}
