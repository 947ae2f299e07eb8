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

#define COLUMNS 12

struct user_rate {
    const json_t *row; /* borrowed from the newer look */
    double ops, bytes_read, bytes_written, share, throttled;
    double done, p50, p99; /* ops that were done, and how long they took, in microseconds */
    size_t at;             /* in the newer look */
};

static enum sort_key user_sort;

static double user_key(const struct user_rate *u) {
    const double by[] = {[SORT_BYTES] = u->bytes_read + u->bytes_written,
                         [SORT_OPS] = u->ops,
                         [SORT_P99] = u->p99,
                         [SORT_MEMORY] = cli_number(u->row, "bytes"),
                         [SORT_QUEUE] = top_queue(u->row)};
    return by[user_sort];
}

static int busiest_first(const void *a, const void *b) {
    const struct user_rate *x = a, *y = b;
    double kx = user_key(x), ky = user_key(y);
    if (kx != ky)
        return kx < ky ? 1 : -1;
    return x->at > y->at ? 1 : -1;
}

static const json_t *former_of(const json_t *before, const json_t *row) {
    size_t i;
    json_t *old;
    json_array_foreach(before, i, old) {
        if (top_same_user(old, row))
            return old;
    }
    return NULL;
}

/* ---- how long ops took between two looks --------------------------------------------------- */

/* How many there were at the first look of those that took about so long. Both lists have the
 * shortest first, and at moves on in the older one. */
static double count_before(const json_t *old, size_t *at, double us) {
    while (*at < json_array_size(old) && cli_number(json_array_get(old, *at), "us") < us)
        ++*at;
    const json_t *bucket = json_array_get(old, *at);
    return bucket && cli_number(bucket, "us") == us ? cli_number(bucket, "count") : 0;
}

/* The time that so many ops of those between the looks did not exceed. */
static double time_of(const json_t *old, const json_t *now, double rank) {
    double seen = 0, us = 0;
    size_t at = 0, i;
    json_t *bucket;
    json_array_foreach(now, i, bucket) {
        double time = cli_number(bucket, "us");
        double more = cli_number(bucket, "count") - count_before(old, &at, time);
        if (more <= 0)
            continue;
        seen += more;
        us = time;
        if (seen >= rank)
            break;
    }
    return us;
}

static double count_all(const json_t *buckets) {
    double count = 0;
    size_t i;
    json_t *bucket;
    json_array_foreach(buckets, i, bucket) {
        count += cli_number(bucket, "count");
    }
    return count;
}

/* Of half of them, and of 99 in 100; of two the longer. Where the daemon does not tell buckets
 * there is none. */
static void rate_latency(struct user_rate *u, const json_t *old) {
    const json_t *was = json_object_get(old, "lat_buckets");
    const json_t *is = json_object_get(u->row, "lat_buckets");
    if (json_is_null(was))
        return;
    u->done = count_all(is) - count_all(was);
    if (u->done <= 0)
        return;
    u->p50 = time_of(was, is, u->done * 0.50);
    u->p99 = time_of(was, is, u->done * 0.99);
}

/* ---- rates --------------------------------------------------------------------------------- */

static double rate_of(const json_t *old, const json_t *row, const char *key, double span_s) {
    double more = cli_number(row, key) - cli_number(old, key);
    return more > 0 ? more / span_s : 0;
}

static bool rate_user(const json_t *old, const json_t *row, double span_s, struct user_rate *out) {
    *out = (struct user_rate){.row = row,
                              .ops = rate_of(old, row, "ops", span_s),
                              .bytes_read = rate_of(old, row, "bytes_read", span_s),
                              .bytes_written = rate_of(old, row, "bytes_written", span_s)};
    double held = old ? rate_of(old, row, "throttled_s", span_s) : 0;
    out->throttled = held > 1 ? 1 : held;
    rate_latency(out, old);
    return cli_number(row, "sessions") > 0 || out->ops > 0;
}

static double user_cost(const struct user_rate *u) {
    return u->bytes_read + u->bytes_written + u->ops * TOP_OP_COST;
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
        if (!rate_user(former_of(before, row), row, span_s, u))
            continue;
        u->at = i;
        all += user_cost(u);
        ++*count;
    }
    for (i = 0; i < *count && all > 0; i++)
        out[i].share = user_cost(&out[i]) / all;
    user_sort = key;
    qsort(out, *count, sizeof(*out), busiest_first);
    return out;
}

/* ---- shown --------------------------------------------------------------------------------- */

static void user_cells(struct table *t, const struct user_rate *u) {
    char buf[CELL_MAX];
    top_user_cell(t, u->row);
    top_count_cell(t, cli_number(u->row, "sessions"));
    table_cell(t, true, cli_human_bytes(buf, cli_number(u->row, "bytes")));
    top_count_cell(t, u->ops);
    table_cell(t, true, cli_human_bytes(buf, u->bytes_read));
    table_cell(t, true, cli_human_bytes(buf, u->bytes_written));
    table_cell(t, true, u->done > 0 ? cli_human_us(buf, u->p50) : "-");
    table_cell(t, true, u->done > 0 ? cli_human_us(buf, u->p99) : "-");
    top_count_cell(t, top_queue(u->row));
    top_share_cell(t, u->share);
    top_count_cell(t, cli_number(u->row, "weight"));
    top_share_cell(t, u->throttled);
}

struct table *top_users(const json_t *before, const json_t *after, double span_s,
                        enum sort_key key) {
    static const char *const head[COLUMNS] = {"UID",    "SESSIONS",  "MEMORY", "OPS/S",
                                              "READ/S", "WRITTEN/S", "P50",    "P99",
                                              "QUEUE",  "SHARE",     "WEIGHT", "THROTTLED"};
    size_t count = 0;
    struct user_rate *rate = rate_users(before, after, span_s, key, &count);
    struct table *t = table_new(COLUMNS);
    for (unsigned i = 0; i < COLUMNS; i++)
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
        json_object_set_new(row, "ops_per_s", json_real(u->ops));
        json_object_set_new(row, "bytes_read_per_s", json_real(u->bytes_read));
        json_object_set_new(row, "bytes_written_per_s", json_real(u->bytes_written));
        json_object_set_new(row, "p50_us", u->done > 0 ? json_real(u->p50) : json_null());
        json_object_set_new(row, "p99_us", u->done > 0 ? json_real(u->p99) : json_null());
        json_object_set_new(row, "share", json_real(u->share));
        json_object_set_new(row, "throttled", json_real(u->throttled));
        json_array_append_new(list, row);
    }
    free(rate);
    return list;
}
