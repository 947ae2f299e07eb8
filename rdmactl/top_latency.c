/* SPDX-License-Identifier: MIT */
/*
 * top_latency.c - how long the ops between two looks took, of the buckets that the daemon tells of
 * all ops that there were.
 */
#include "rdmactl/top.h"

/* How many there were at the first look of those that took about so long. Both lists have the
 * shortest first, and at moves on in the older one. */
static double count_before(const json_t *old, size_t *at, double us) {
    while (*at < json_array_size(old) && cli_number(json_array_get(old, *at), "us") < us)
        ++*at;
    const json_t *bucket = json_array_get(old, *at);
    return bucket && cli_number(bucket, "us") == us ? cli_number(bucket, "count") : 0;
}

static void add_bucket(json_t *list, double us, double count) {
    json_array_append_new(list, json_pack("{s:f, s:f}", "us", us, "count", count));
}

json_t *top_took(const json_t *old, const json_t *row) {
    const json_t *was = json_object_get(old, "lat_buckets");
    const json_t *is = json_object_get(row, "lat_buckets");
    size_t at = 0, i;
    json_t *bucket;
    if (!json_is_array(is) || (old && !json_is_array(was)))
        return NULL;
    json_t *took = json_array();
    json_array_foreach(is, i, bucket) {
        double us = cli_number(bucket, "us");
        double more = cli_number(bucket, "count") - count_before(was, &at, us);
        if (more > 0)
            add_bucket(took, us, more);
    }
    return took;
}

json_t *top_took_together(const json_t *a, const json_t *b) {
    json_t *sum = json_array();
    size_t i = 0, k = 0;
    while (i < json_array_size(a) || k < json_array_size(b)) {
        const json_t *x = json_array_get(a, i), *y = json_array_get(b, k);
        double us = !y || (x && cli_number(x, "us") < cli_number(y, "us")) ? cli_number(x, "us")
                                                                           : cli_number(y, "us");
        bool from_a = x && cli_number(x, "us") == us, from_b = y && cli_number(y, "us") == us;
        add_bucket(sum, us,
                   (from_a ? cli_number(x, "count") : 0) + (from_b ? cli_number(y, "count") : 0));
        i += from_a;
        k += from_b;
    }
    return sum;
}

/* The time that so many of these ops did not exceed. */
static double time_of(const json_t *took, double rank) {
    double seen = 0, us = 0;
    size_t i;
    json_t *bucket;
    json_array_foreach(took, i, bucket) {
        seen += cli_number(bucket, "count");
        us = cli_number(bucket, "us");
        if (seen >= rank)
            break;
    }
    return us;
}

/* Of half of them, and of 99 in 100; of two the longer. */
struct top_latency top_latency_of(const json_t *took) {
    struct top_latency out = {0};
    size_t i;
    json_t *bucket;
    json_array_foreach(took, i, bucket) {
        out.done += cli_number(bucket, "count");
    }
    out.p50 = time_of(took, out.done * 0.50);
    out.p99 = time_of(took, out.done * 0.99);
    return out;
}

struct top_latency top_latency_between(const json_t *old, const json_t *row) {
    json_t *took = top_took(old, row);
    struct top_latency out = top_latency_of(took);
    json_decref(took);
    return out;
}

void top_time_cell(struct table *t, const struct top_latency *latency, double us) {
    char buf[CELL_MAX];
    table_cell(t, true, latency->done > 0 ? cli_human_us(buf, us) : "-");
}

void top_latency_json(json_t *row, const struct top_latency *latency) {
    bool some = latency->done > 0;
    json_object_set_new(row, "p50_us", some ? json_real(latency->p50) : json_null());
    json_object_set_new(row, "p99_us", some ? json_real(latency->p99) : json_null());
}
