/* SPDX-License-Identifier: MIT */
/*
 * cmd_status.c - status, metrics and config show: one answer of the daemon, printed.
 */
#include "rdmactl/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *status_words(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "?";
}

/* Peers that have not got the best of ours. */
static void print_fallback(const json_t *fabric) {
    double fallen = cli_number(fabric, "peers_fallen_back");
    if (fallen > 0)
        printf("           WARNING: %.0f connection%s with peers over %s: see rdmactl peer show\n",
               fallen, fallen > 1 ? "s" : "", status_words(fabric, "fallback"));
}

static void print_identity(const json_t *id) {
    const char *name = json_string_value(json_object_get(id, "name"));
    const char *warning = status_words(id, "warning");
    char when[CELL_MAX];
    time_t until = (time_t)cli_number(id, "not_after");
    struct tm tm;
    if (name && gmtime_r(&until, &tm) && strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &tm))
        printf("identity   %s, until %s%s\n", name, when,
               json_is_true(json_object_get(id, "has_ca")) ? ", with the cluster's CA" : "");
    else if (!name)
        printf("identity   none: it talks to no other daemon beyond loopback%s\n",
               json_is_true(json_object_get(id, "insecure")) ? " unless in clear" : "");
    if (json_is_true(json_object_get(id, "insecure")))
        printf("           WARNING: peer.insecure: whoever reaches this daemon can be a peer, and "
               "read and change what peers say\n");
    if (warning[0] && warning[0] != '?')
        printf("           WARNING: %s\n", warning);
}

static void print_silent(const json_t *silent) {
    size_t at;
    json_t *row;
    json_array_foreach(silent, at, row)
        printf("           WARNING: %s has not gone on for %.1f s%s\n", status_words(row, "thread"),
               cli_number(row, "silent_s"),
               json_is_true(json_object_get(row, "hangs"))
                   ? ": the service manager's watchdog is not answered"
                   : "");
}

static void print_head(const json_t *s) {
    const json_t *fabric = json_object_get(s, "fabric");
    const json_t *listen = json_object_get(s, "listen");
    const char *host = status_words(listen, "host");
    const json_t *process = json_object_get(s, "process");
    const double rss = cli_number(process, "rss_bytes"); /* 0: the caller is not told */
    char age[CELL_MAX], memory[CELL_MAX];
    printf("rdmad %s on %s, %s, up %s, pid %.0f%s%s\n", status_words(s, "version"),
           status_words(s, "node"), status_words(s, "state"),
           cli_human_seconds(age, cli_number(s, "uptime_s")), cli_number(process, "pid"),
           rss > 0 ? ", resident " : "", rss > 0 ? cli_human_bytes(memory, rss) : "");
    printf("fabric     %s (%s): %s\n", status_words(fabric, "name"), status_words(fabric, "text"),
           status_words(fabric, "why"));
    if (json_is_string(json_object_get(fabric, "trouble")))
        printf("           WARNING: nothing goes over it now: %s\n",
               status_words(fabric, "trouble"));
    print_fallback(fabric);
    printf(strchr(host, ':') ? "listens on [%s]:%.0f%s\n" : "listens on %s:%.0f%s\n", host,
           cli_number(listen, "port"),
           json_is_false(json_object_get(listen, "reachable"))
               ? ", an address that no interface has: peers cannot reach it until one has"
               : "");
    print_identity(json_object_get(s, "identity"));
    const char *group = json_string_value(json_object_get(json_object_get(s, "clients"), "group"));
    if (group)
        printf("clients    members of group %s\n", group);
    const json_t *objects = json_object_get(s, "objects");
    if (cli_number(objects, "lanes_in") > 0)
        printf("tcp data   of %.0f connections of peers %.0f are encrypted\n",
               cli_number(objects, "lanes_in"), cli_number(objects, "lanes_in_encrypted"));
    printf("workers    %.0f\n", cli_number(s, "workers"));
    print_silent(json_object_get(s, "silent_threads"));
    putchar('\n');
}

static void limit_cell(struct table *t, const json_t *value, bool bytes) {
    char buf[CELL_MAX];
    if (!json_is_number(value))
        table_cell(t, true, "-");
    else if (bytes)
        table_cell(t, true, cli_human_bytes(buf, json_number_value(value)));
    else {
        snprintf(buf, sizeof(buf), "%.0f", json_number_value(value));
        table_cell(t, true, buf);
    }
}

/* Who sees its own only is not told of these, and they are 0 there (ctl_totals_own). */
static bool is_of_no_user(const char *key) {
    static const char *const keys[] = {"peers", "links", "lanes_in", "lanes_in_encrypted", "fds"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (!strcmp(keys[i], key))
            return true;
    return false;
}

/* Every object with its limits; what has none, or is not told, is a dash. */
static void print_objects(const json_t *s) {
    static const char *const head[] = {"OBJECT", "NOW", "LIMIT", "A UID", "A SESSION"};
    struct table *t = table_new(5);
    for (int i = 0; i < 5; i++)
        table_cell(t, i > 0, head[i]);
    const char *key;
    json_t *value;
    const bool own = !strcmp(status_words(s, "shown"), "own");
    json_object_foreach(json_object_get(s, "objects"), key, value) {
        const json_t *limit = json_object_get(json_object_get(s, "limits"), key);
        bool bytes = strstr(key, "bytes") != NULL;
        table_cell(t, false, key);
        limit_cell(t, own && is_of_no_user(key) ? NULL : value, bytes);
        limit_cell(t, json_object_get(limit, "max"), bytes);
        limit_cell(t, json_object_get(limit, "max_uid"), bytes);
        limit_cell(t, json_object_get(limit, "max_session"), bytes);
    }
    table_print(t);
}

static void print_traffic(const json_t *traffic) {
    char in[CELL_MAX], out[CELL_MAX];
    printf("\nops        %.0f ended, %.0f of them failed\n", cli_number(traffic, "ops"),
           cli_number(traffic, "ops_failed"));
    printf("moved      %s read, %s written\n",
           cli_human_bytes(in, cli_number(traffic, "bytes_read")),
           cli_human_bytes(out, cli_number(traffic, "bytes_written")));
}

static void print_failures(const json_t *failures) {
    const char *code;
    json_t *count;
    if (!json_object_size(failures))
        return;
    printf("failures  ");
    json_object_foreach((json_t *)failures, code, count)
        printf(" %s %.0f", code, json_number_value(count));
    putchar('\n');
}

/* By kind and route, or of all that the caller sees. */
static void print_latency(const json_t *s) {
    static const char *const head[] = {"LATENCY", "ROUTE", "DONE", "P50", "P99", "P99.9"};
    static const char *const keys[] = {"p50", "p99", "p999"};
    json_t *list = json_object_get(s, "latency");
    if (!json_array_size(list))
        return;
    struct table *t = table_new(6);
    char buf[CELL_MAX];
    size_t at;
    json_t *row;
    for (int i = 0; i < 6; i++)
        table_cell(t, i > 1, head[i]);
    json_array_foreach(list, at, row) {
        const json_t *spans = json_object_get(row, "lat_us");
        table_cell(t, false, status_words(row, "op"));
        table_cell(t, false, status_words(row, "route"));
        snprintf(buf, sizeof(buf), "%.0f", cli_number(spans, "count"));
        table_cell(t, true, buf);
        for (int i = 0; i < 3; i++)
            table_cell(t, true, cli_human_us(buf, cli_number(spans, keys[i])));
    }
    putchar('\n');
    table_print(t);
}

static void print_spans(const json_t *spans) {
    char p50[CELL_MAX], p99[CELL_MAX];
    if (json_is_object(spans))
        printf("latency    p50 %s, p99 %s, of %.0f ops that were done\n",
               cli_human_us(p50, cli_number(spans, "p50")),
               cli_human_us(p99, cli_number(spans, "p99")), cli_number(spans, "count"));
}

int cmd_status(const struct command *self, int argc, char **argv) {
    int rc = args_parse(self, NULL, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    json_t *s = daemon_call("status", NULL, PATIENCE_LOOK_MS);
    if (!s)
        return EXIT_FAILED;
    if (cli.json)
        return cli_print_json(s);
    print_head(s);
    print_objects(s);
    print_traffic(json_object_get(s, "traffic"));
    print_spans(json_object_get(s, "lat_us"));
    print_failures(json_object_get(s, "failures"));
    print_latency(s);
    json_decref(s);
    return EXIT_GOOD;
}

int cmd_metrics(const struct command *self, int argc, char **argv) {
    const char *format = NULL;
    const struct opt opts[] = {
        {"format", 'f', OPT_TEXT, &format, 0, 0, "FORMAT", "openmetrics (so it is) or prometheus"},
        {0},
    };
    int rc = args_parse(self, opts, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    json_t *result = daemon_call("metrics", format ? json_pack("{s:s}", "format", format) : NULL,
                                 PATIENCE_LOOK_MS);
    if (!result)
        return EXIT_FAILED;
    if (cli.json)
        return cli_print_json(result);
    fputs(status_words(result, "text"), stdout);
    json_decref(result);
    return EXIT_GOOD;
}

int cmd_config_show(const struct command *self, int argc, char **argv) {
    int rc = args_parse(self, NULL, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    json_t *result = daemon_call("config.show", NULL, PATIENCE_LOOK_MS);
    if (!result)
        return EXIT_FAILED;
    if (cli.json)
        return cli_print_json(result);
    struct table *t = table_new(2);
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(result, "config"), key, value) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        table_cell(t, false, key);
        table_cell(t, false, text ? text : "?");
        free(text);
    }
    table_print(t);
    json_decref(result);
    return EXIT_GOOD;
}
