/* SPDX-License-Identifier: MIT */
/*
 * rows.h - a list as show answers it, for show*.c. Internal to ctl/.
 */
#ifndef RDMAD_CTL_ROWS_H
#define RDMAD_CTL_ROWS_H

#include "daemon/base/clock.h"
#include "daemon/ctl/call.h"
#include "daemon/state/state.h"
#include <string.h>

/* A list is cut at this many rows; the answer then has "truncated": true. */
#define CTL_MAX_ROWS 16384u

struct rows {
    json_t *list;
    uint64_t now_ns;
    bool truncated;
    const char *protection;      /* of leases */
    const struct state *state;   /* of leases */
    const struct ctl_call *call; /* likewise: what it sees */
    bool buckets;                /* lat_buckets are asked for */
    size_t buckets_told;
};

static inline struct rows rows_new(void) {
    return (struct rows){.list = json_array(), .now_ns = clock_now_ns()};
}

static inline bool rows_full(struct rows *rows) {
    rows->truncated = json_array_size(rows->list) >= CTL_MAX_ROWS;
    return rows->truncated;
}

static inline void rows_reply(struct ctl_call *call, struct rows *rows, const char *noun) {
    json_t *answer = json_pack("{s:o}", noun, rows->list);
    if (rows->truncated)
        json_object_set_new(answer, "truncated", json_true());
    ctl_reply(call, answer);
}

static inline double rows_seconds(uint64_t ns) {
    return (double)ns / 1e9;
}

/* A peer's or a client's text is not known to be UTF-8; what is not is shown as "?". */
static inline json_t *rows_text(const char *s) {
    json_t *value = json_string(s);
    return value ? value : json_string("?");
}

/* What a client may have chosen as it likes. The integers of our JSON end at 2^63: a larger one is
 * its decimal digits in a string, so that who reads it gets it back as it was. */
static inline json_t *rows_any_number(uint64_t number) {
    return number <= INT64_MAX ? json_integer((json_int_t)number)
                               : json_sprintf("%llu", (unsigned long long)number);
}

/* By the tenant's number. */
static inline json_t *rows_tenant(const struct state *st, uint32_t number) {
    return number ? json_string(state_tenant(st, number)) : json_null();
}

/* 0: there is none of that name. */
static inline uint32_t rows_tenant_number(const struct state *st, const char *name) {
    for (uint32_t i = 0; st->tenants && st->tenants[i]; i++)
        if (!strcmp(st->tenants[i], name))
            return i + 1;
    return 0;
}

static inline int rows_find_tenant(const struct state *st, const char *name, uint32_t *number,
                                   struct error *err) {
    *number = rows_tenant_number(st, name);
    if (*number)
        return 0;
    return error_set(
        err, RDMAD_E_INVAL,
        "no tenant \"%.80s\" has a socket here; \"sockets\" of the configuration as it "
        "was at the start lists them",
        name);
}

/* Of "rwad" (read, write, atomic, delegate) those that are among the rights, or none. */
static inline json_t *rows_rights(uint64_t rights, const char *none) {
    static const char letters[] = "rwad";
    char text[sizeof(letters)] = "";
    size_t n = 0;
    for (unsigned i = 0; letters[i]; i++)
        if (rights & 1u << i)
            text[n++] = letters[i];
    return json_string(n ? text : none);
}

/* What holds for a user: weight, priority, rates, throttled_s. */
void rows_share(const struct state *st, struct user_id who, json_t *row);

static inline const char *rows_scope(uint32_t scope) {
    return scope == RDMAD_SCOPE_ANY ? "any" : scope == RDMAD_SCOPE_PEER ? "peer" : "uid";
}

#endif
