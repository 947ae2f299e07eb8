/* SPDX-License-Identifier: MIT */
/*
 * top_sessions.c - sessions by what they do right now.
 *
 * A user's share is of what all sessions together made the daemon do, as top_cost has it.
 *
 * A session that was not there at the first look has come since, so all that it has come to is of
 * the time between.
 */
#include "rdmactl/top.h"
#include <stdlib.h>

#define SESSION_COLUMNS 15

struct session_rate {
    struct top_rank rank; /* first: top_sort */
    const json_t *row;    /* borrowed from the newer look */
    struct top_rates rates;
    struct top_latency latency;
    double share;     /* of the session's user, 0 to 1 */
    double throttled; /* the user, 0 to 1 of the time */
};

static const json_t *session_former(const json_t *before, const json_t *row) {
    json_int_t id = json_integer_value(json_object_get(row, "id"));
    size_t i;
    json_t *old;
    json_array_foreach(before, i, old) {
        if (json_integer_value(json_object_get(old, "id")) == id)
            return old;
    }
    return NULL;
}

static void add_shares(struct session_rate *rate, size_t count) {
    double all = 0;
    for (size_t i = 0; i < count; i++)
        all += top_cost(&rate[i].rates);
    for (size_t i = 0; i < count && all > 0; i++) {
        for (size_t k = 0; k < count; k++)
            if (top_same_user(rate[k].row, rate[i].row))
                rate[i].share += top_cost(&rate[k].rates) / all;
    }
}

static struct session_rate rate_session(const json_t *old, const json_t *row, double span_s) {
    double held = old ? top_rate(old, row, "throttled_s", span_s) : 0;
    return (struct session_rate){.row = row,
                                 .rates = top_rates_between(old, row, span_s),
                                 .latency = top_latency_between(old, row),
                                 .throttled = held > 1 ? 1 : held};
}

static struct top_rank session_rank(const struct session_rate *s, enum sort_key key, size_t at) {
    const double by[SORT_KEYS] = {[SORT_BYTES] = s->rates.bytes_read + s->rates.bytes_written,
                                  [SORT_OPS] = s->rates.ops,
                                  [SORT_P99] = s->latency.p99,
                                  [SORT_MEMORY] = cli_number(s->row, "bytes"),
                                  [SORT_QUEUE] = top_queue(s->row)};
    return top_rank_by(by, key, at);
}

/* The caller's to free; NULL: out of memory. */
static struct session_rate *rate_sessions(const json_t *before, const json_t *after, double span_s,
                                          enum sort_key key, size_t *count) {
    struct session_rate *out = calloc(json_array_size(after) + 1, sizeof(*out));
    size_t i;
    json_t *row;
    *count = out ? json_array_size(after) : 0;
    if (!out)
        return NULL;
    json_array_foreach(after, i, row) {
        out[i] = rate_session(session_former(before, row), row, span_s);
        out[i].rank = session_rank(&out[i], key, i);
    }
    add_shares(out, *count);
    top_sort(out, *count, sizeof(*out));
    return out;
}

static void session_cells(struct table *t, const struct session_rate *s) {
    char buf[CELL_MAX];
    top_count_cell(t, cli_number(s->row, "id"));
    table_cell(t, false, cli_text(s->row, "name"));
    top_user_cell(t, s->row);
    top_count_cell(t, cli_number(s->row, "pid"));
    table_cell(t, true, cli_human_bytes(buf, cli_number(s->row, "bytes")));
    top_rates_cells(t, &s->rates);
    top_time_cell(t, &s->latency, s->latency.p50);
    top_time_cell(t, &s->latency, s->latency.p99);
    top_count_cell(t, top_queue(s->row));
    top_share_cell(t, s->share);
    top_count_cell(t, cli_number(s->row, "weight"));
    top_share_cell(t, s->throttled);
    table_cell(t, false, cli_text(s->row, "state"));
}

struct table *top_sessions(const json_t *before, const json_t *after, double span_s,
                           enum sort_key key) {
    static const char *const head[SESSION_COLUMNS] = {
        "ID",  "NAME", "UID",   "PID",   "MEMORY", "OPS/S",     "READ/S", "WRITTEN/S",
        "P50", "P99",  "QUEUE", "SHARE", "WEIGHT", "THROTTLED", "STATE"};
    size_t count = 0;
    struct session_rate *rate = rate_sessions(before, after, span_s, key, &count);
    struct table *t = table_new(SESSION_COLUMNS);
    for (unsigned i = 0; i < SESSION_COLUMNS; i++)
        table_cell(t, i != 1 && i != SESSION_COLUMNS - 1, head[i]);
    for (size_t i = 0; i < count; i++)
        session_cells(t, &rate[i]);
    free(rate);
    return t;
}

json_t *top_sessions_json(const json_t *before, const json_t *after, double span_s,
                          enum sort_key key) {
    size_t count = 0;
    struct session_rate *rate = rate_sessions(before, after, span_s, key, &count);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *row = json_copy((json_t *)rate[i].row);
        top_rates_json(row, &rate[i].rates);
        top_latency_json(row, &rate[i].latency);
        json_object_set_new(row, "share", json_real(rate[i].share));
        json_object_set_new(row, "throttled", json_real(rate[i].throttled));
        json_array_append_new(list, row);
    }
    free(rate);
    return list;
}
