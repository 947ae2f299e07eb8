/* SPDX-License-Identifier: MIT */
/*
 * cmd_top.c - sessions by what they move right now: two looks at session.show and the difference.
 *
 * A user's share is of what all sessions together made the daemon do, in the daemon's measure: the
 * bytes that were moved and OP_COST for each op.
 */
#include "rdmactl/cli.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OP_COST 2048.0 /* as in daemon/op/engine/user.h */

struct rate {
    const json_t *row; /* borrowed from the newer look */
    double ops, bytes_read, bytes_written;
    double share;     /* of the session's user, 0 to 1 */
    double throttled; /* the user, 0 to 1 of the time */
};

static const json_t *row_of(const json_t *list, json_int_t id) {
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row) {
        if (json_integer_value(json_object_get(row, "id")) == id)
            return row;
    }
    return NULL;
}

/* What is first: the most of it. */
enum sort_key { SORT_BYTES, SORT_OPS, SORT_P99, SORT_MEMORY };
static enum sort_key sort_key;

static double latency(const json_t *row, const char *share) {
    return cli_number(json_object_get(row, "lat_us"), share);
}

static int busiest_first(const void *a, const void *b) {
    const struct rate *x = a, *y = b;
    double kx = x->ops, ky = y->ops;
    if (sort_key == SORT_P99)
        kx = latency(x->row, "p99"), ky = latency(y->row, "p99");
    if (sort_key == SORT_MEMORY)
        kx = cli_number(x->row, "bytes"), ky = cli_number(y->row, "bytes");
    if (sort_key != SORT_BYTES && kx != ky)
        return kx < ky ? 1 : -1;
    double bx = x->bytes_read + x->bytes_written, by = y->bytes_read + y->bytes_written;
    if (bx != by)
        return bx < by ? 1 : -1;
    return x->ops < y->ops ? 1 : x->ops > y->ops ? -1 : 0;
}

static double cost(const struct rate *r) {
    return r->bytes_read + r->bytes_written + r->ops * OP_COST;
}

static void add_shares(struct rate *rate, size_t count) {
    double all = 0;
    for (size_t i = 0; i < count; i++)
        all += cost(&rate[i]);
    for (size_t i = 0; i < count && all > 0; i++) {
        double uid = cli_number(rate[i].row, "uid");
        for (size_t k = 0; k < count; k++)
            if (cli_number(rate[k].row, "uid") == uid)
                rate[i].share += cost(&rate[k]) / all;
    }
}

/* The caller's to free. */
static struct rate *rates(const json_t *before, const json_t *after, double span_s, size_t *count) {
    *count = json_array_size(after);
    struct rate *out = calloc(*count + 1, sizeof(*out));
    size_t i;
    json_t *row;
    json_array_foreach(after, i, row) {
        if (!out)
            break;
        const json_t *old = row_of(before, json_integer_value(json_object_get(row, "id")));
        out[i].row = row;
        out[i].ops = (cli_number(row, "ops") - cli_number(old, "ops")) / span_s;
        out[i].bytes_read =
            (cli_number(row, "bytes_read") - cli_number(old, "bytes_read")) / span_s;
        out[i].bytes_written =
            (cli_number(row, "bytes_written") - cli_number(old, "bytes_written")) / span_s;
        double held = (cli_number(row, "throttled_s") - cli_number(old, "throttled_s")) / span_s;
        out[i].throttled = !old || held < 0 ? 0 : held > 1 ? 1 : held;
    }
    if (out)
        add_shares(out, *count);
    if (out)
        qsort(out, *count, sizeof(*out), busiest_first);
    return out;
}

#define COLUMNS 14

/* Since the session began. */
static void print_latency(struct table *t, const json_t *row) {
    char buf[CELL_MAX];
    bool some = latency(row, "count") > 0;
    table_cell(t, true, some ? cli_human_us(buf, latency(row, "p50")) : "-");
    table_cell(t, true, some ? cli_human_us(buf, latency(row, "p99")) : "-");
}

/* A user's sessions together. */
struct user_sum {
    double uid, sessions, memory, ops, bytes_read, bytes_written, share, throttled;
};

/* The caller's to free. */
static struct user_sum *sum_users(const struct rate *rate, size_t count, size_t *users) {
    struct user_sum *sum = calloc(count + 1, sizeof(*sum));
    *users = 0;
    for (size_t i = 0; sum && i < count; i++) {
        double uid = cli_number(rate[i].row, "uid");
        size_t u = 0;
        while (u < *users && sum[u].uid != uid)
            u++;
        if (u == *users)
            sum[(*users)++] = (struct user_sum){
                .uid = uid, .share = rate[i].share, .throttled = rate[i].throttled};
        sum[u].sessions++;
        sum[u].memory += cli_number(rate[i].row, "bytes");
        sum[u].ops += rate[i].ops;
        sum[u].bytes_read += rate[i].bytes_read;
        sum[u].bytes_written += rate[i].bytes_written;
    }
    return sum;
}

static void print_count(struct table *t, double number) {
    char buf[CELL_MAX];
    snprintf(buf, sizeof(buf), "%.0f", number);
    table_cell(t, true, buf);
}

static void print_share(struct table *t, double share) {
    char buf[CELL_MAX];
    snprintf(buf, sizeof(buf), "%.0f%%", 100 * share);
    table_cell(t, true, buf);
}

static void users_print(const struct rate *rate, size_t count, bool batch) {
    static const char *const head[] = {"UID",    "SESSIONS",  "MEMORY", "OPS/S",
                                       "READ/S", "WRITTEN/S", "SHARE",  "THROTTLED"};
    size_t users;
    struct user_sum *sum = sum_users(rate, count, &users);
    struct table *t = table_new(8);
    char buf[CELL_MAX];
    for (int i = 0; i < 8; i++)
        table_cell(t, true, head[i]);
    for (size_t i = 0; i < users; i++) {
        print_count(t, sum[i].uid);
        print_count(t, sum[i].sessions);
        table_cell(t, true, cli_human_bytes(buf, sum[i].memory));
        print_count(t, sum[i].ops);
        table_cell(t, true, cli_human_bytes(buf, sum[i].bytes_read));
        table_cell(t, true, cli_human_bytes(buf, sum[i].bytes_written));
        print_share(t, sum[i].share);
        print_share(t, sum[i].throttled);
    }
    free(sum);
    if (!batch)
        fputs("\033[H\033[J", stdout);
    table_print(t);
    fflush(stdout);
}

static void top_print(const struct rate *rate, size_t count, bool batch) {
    static const char *const head[] = {"ID",    "NAME",   "UID",       "PID",  "MEMORY",
                                       "OPS/S", "READ/S", "WRITTEN/S", "P50",  "P99",
                                       "SHARE", "WEIGHT", "THROTTLED", "STATE"};
    struct table *t = table_new(COLUMNS);
    char buf[CELL_MAX];
    for (int i = 0; i < COLUMNS; i++)
        table_cell(t, i != 1 && i != COLUMNS - 1, head[i]);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = rate[i].row;
        const char *name = json_string_value(json_object_get(row, "name"));
        snprintf(buf, sizeof(buf), "%.0f", cli_number(row, "id"));
        table_cell(t, true, buf);
        table_cell(t, false, name && *name ? name : "-");
        snprintf(buf, sizeof(buf), "%.0f", cli_number(row, "uid"));
        table_cell(t, true, buf);
        snprintf(buf, sizeof(buf), "%.0f", cli_number(row, "pid"));
        table_cell(t, true, buf);
        table_cell(t, true, cli_human_bytes(buf, cli_number(row, "bytes")));
        snprintf(buf, sizeof(buf), "%.0f", rate[i].ops);
        table_cell(t, true, buf);
        table_cell(t, true, cli_human_bytes(buf, rate[i].bytes_read));
        table_cell(t, true, cli_human_bytes(buf, rate[i].bytes_written));
        print_latency(t, row);
        snprintf(buf, sizeof(buf), "%.0f%%", 100 * rate[i].share);
        table_cell(t, true, buf);
        snprintf(buf, sizeof(buf), "%.0f", cli_number(row, "weight"));
        table_cell(t, true, buf);
        snprintf(buf, sizeof(buf), "%.0f%%", 100 * rate[i].throttled);
        table_cell(t, true, buf);
        const char *state = json_string_value(json_object_get(row, "state"));
        table_cell(t, false, state ? state : "-");
    }
    if (!batch)
        fputs("\033[H\033[J", stdout);
    table_print(t);
    fflush(stdout);
}

static json_t *rates_json(const struct rate *rate, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *row = json_copy((json_t *)rate[i].row);
        json_object_set_new(row, "ops_per_s", json_real(rate[i].ops));
        json_object_set_new(row, "bytes_read_per_s", json_real(rate[i].bytes_read));
        json_object_set_new(row, "bytes_written_per_s", json_real(rate[i].bytes_written));
        json_object_set_new(row, "share", json_real(rate[i].share));
        json_object_set_new(row, "throttled", json_real(rate[i].throttled));
        json_array_append_new(list, row);
    }
    return json_pack("{s:o}", "sessions", list);
}

/* Looks count times (0: until interrupted), interval_ms apart. */
static int top_watch(uint64_t count, uint64_t interval_ms, bool batch, bool by_user) {
    int signals = signals_catch();
    json_t *before = daemon_call("session.show", NULL, PATIENCE_LOOK_MS);
    double then = cli_now_s();
    uint64_t shown = 0;
    while (before && (!count || shown < count)) {
        struct pollfd wake = {.fd = signals, .events = POLLIN};
        if (poll(&wake, 1, (int)interval_ms) && signals_take(signals))
            break;
        json_t *after = daemon_call("session.show", NULL, PATIENCE_LOOK_MS);
        double now = cli_now_s();
        size_t rows = 0;
        struct rate *rate = after ? rates(json_object_get(before, "sessions"),
                                          json_object_get(after, "sessions"), now - then, &rows)
                                  : NULL;
        if (rate && cli.json)
            cli_print_json(rates_json(rate, rows));
        else if (rate)
            (by_user ? users_print : top_print)(rate, rows, batch);
        free(rate);
        json_decref(before);
        before = after;
        then = now;
        shown++;
    }
    int code = before ? EXIT_GOOD : EXIT_FAILED;
    json_decref(before);
    close(signals);
    return code;
}

static bool take_sort_key(const char *name) {
    static const char *const keys[] = {
        [SORT_BYTES] = "bytes", [SORT_OPS] = "ops", [SORT_P99] = "p99", [SORT_MEMORY] = "memory"};
    for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (strcmp(keys[i], name) != 0)
            continue;
        sort_key = (enum sort_key)i;
        return true;
    }
    return false;
}

int cmd_top(const struct command *self, int argc, char **argv) {
    bool batch = false;
    bool by_user = false;
    const char *sort = "bytes";
    uint64_t count = 0, interval_ms = 1000;
    const struct opt opts[] = {
        {"batch", 'b', OPT_FLAG, &batch, 0, 0, NULL, "plain text, for a pipe or a file"},
        {"count", 'n', OPT_COUNT, &count, 1, 1000000, "COUNT", "end after so many looks"},
        {"interval", 'i', OPT_TIME, &interval_ms, 100, 3600000, "TIME", "between looks (1s)"},
        {"sort", 's', OPT_TEXT, &sort, 0, 0, "KEY", "bytes, ops, p99 or memory: the most first"},
        {"users", 'u', OPT_FLAG, &by_user, 0, 0, NULL, "users, with all their sessions"},
        {0},
    };
    int rc = args_parse(self, opts, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    if (!take_sort_key(sort))
        return cli_usage_error("top sorts by bytes, ops, p99 or memory, not by \"%s\"", sort);
    if (cli.json && count > 1)
        return cli_usage_error("-j is one JSON document, so one look: use -n 1");
    return top_watch(cli.json ? 1 : count, interval_ms, batch || !isatty(STDOUT_FILENO), by_user);
}
