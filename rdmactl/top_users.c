/* SPDX-License-Identifier: MIT */
/*
 * top_users.c - users by what all their sessions do right now, those that came or ended meanwhile,
 * too: the daemon keeps sums of each user, and these are differences of two looks at them.
 *
 * A user whom the daemon did not know at the first look is one that came since, so all that it has
 * come to is of the time between. One without a session is shown if it did something in that time.
 */
#include "rdmactl/top.h"
#include <stdio.h>
#include <stdlib.h>

#define USER_COLUMNS 12

struct user_rate {
    struct top_rank rank; /* first: top_sort */
    const json_t *row;    /* borrowed from the newer look */
    struct top_rates rates;
    double share, throttled;
    struct top_latency latency;
};

static const json_t *user_former(const json_t *before, const json_t *row) {
    size_t i;
    json_t *old;
    json_array_foreach(before, i, old) {
        if (top_same_user(old, row))
            return old;
    }
    return NULL;
}

static bool rate_user(const json_t *old, const json_t *row, double span_s, struct user_rate *out) {
    double held = old ? top_rate(old, row, "throttled_s", span_s) : 0;
    *out = (struct user_rate){.row = row,
                              .rates = top_rates_between(old, row, span_s),
                              .latency = top_latency_between(old, row),
                              .throttled = held > 1 ? 1 : held};
    return cli_number(row, "sessions") > 0 || out->rates.ops > 0;
}

static struct top_rank user_rank(const struct user_rate *u, enum sort_key key, size_t at) {
    const double by[SORT_KEYS] = {[SORT_BYTES] = u->rates.bytes_read + u->rates.bytes_written,
                                  [SORT_OPS] = u->rates.ops,
                                  [SORT_P99] = u->latency.p99,
                                  [SORT_MEMORY] = cli_number(u->row, "bytes"),
                                  [SORT_QUEUE] = top_queue(u->row)};
    return top_rank_by(by, key, at);
}

/* The caller's to free; NULL: out of memory. */
static struct user_rate *rate_users(const json_t *before, const json_t *after, double span_s,
                                    enum sort_key key, size_t *count) {
    struct user_rate *out = calloc(json_array_size(after) + 1, sizeof(*out));
    double all = 0;
    size_t i;
    json_t *row;
    *count = 0;
    if (!out)
        return NULL;
    json_array_foreach(after, i, row) {
        struct user_rate *u = &out[*count];
        if (!rate_user(user_former(before, row), row, span_s, u))
            continue;
        u->rank = user_rank(u, key, i);
        all += top_cost(&u->rates);
        ++*count;
    }
    for (i = 0; i < *count && all > 0; i++)
        out[i].share = top_cost(&out[i].rates) / all;
    top_sort(out, *count, sizeof(*out));
    return out;
}

/* ---- shown --------------------------------------------------------------------------------- */

static void user_cells(struct table *t, const struct user_rate *u) {
    char buf[CELL_MAX];
    top_user_cell(t, u->row);
    top_count_cell(t, cli_number(u->row, "sessions"));
    table_cell(t, true, cli_human_bytes(buf, cli_number(u->row, "bytes")));
    top_rates_cells(t, &u->rates);
    top_time_cell(t, &u->latency, u->latency.p50);
    top_time_cell(t, &u->latency, u->latency.p99);
    top_count_cell(t, top_queue(u->row));
    top_share_cell(t, u->share);
    top_count_cell(t, cli_number(u->row, "weight"));
    top_share_cell(t, u->throttled);
}

struct table *top_users(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key) {
    static const char *const head[USER_COLUMNS] = {"UID",    "SESSIONS",  "MEMORY", "OPS/S",
                                                   "READ/S", "WRITTEN/S", "P50",    "P99",
                                                   "QUEUE",  "SHARE",     "WEIGHT", "THROTTLED"};
    size_t count = 0;
    struct user_rate *rate = rate_users(before, after, span_s, key, &count);
    struct table *t = table_new(USER_COLUMNS);
    for (unsigned i = 0; i < USER_COLUMNS; i++)
        table_cell(t, true, head[i]);
    for (size_t i = 0; i < count; i++)
        user_cells(t, &rate[i]);
    free(rate);
    return t;
}

json_t *top_users_json(const json_t *before, const json_t *after, double span_s,
                       enum sort_key key) {
    size_t count = 0;
    struct user_rate *rate = rate_users(before, after, span_s, key, &count);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct user_rate *u = &rate[i];
        json_t *row = json_copy((json_t *)u->row);
        top_rates_json(row, &u->rates);
        top_latency_json(row, &u->latency);
        json_object_set_new(row, "share", json_real(u->share));
        json_object_set_new(row, "throttled", json_real(u->throttled));
        json_array_append_new(list, row);
    }
    free(rate);
    return list;
}
