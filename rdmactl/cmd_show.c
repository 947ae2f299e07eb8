/* SPDX-License-Identifier: MIT */
/*
 * cmd_show.c - OBJECT show of most objects: the daemon's list as a table whose columns
 * are data.
 */
#include "rdmactl/cli.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define LOOK_AGAIN_MS 20

enum cell { CELL_TEXT, CELL_NUMBER, CELL_BYTES, CELL_SECONDS, CELL_US };

struct column {
    const char *key; /* of the row, as listing_value() has it */
    const char *head;
    enum cell kind;
};

struct noun {
    const char *object, *list;
    struct column columns[22];
};

static const struct noun nouns[] = {
    {"session",
     "sessions",
     {{"id", "ID", CELL_NUMBER},
      {"name", "NAME", CELL_TEXT},
      {"uid", "UID", CELL_NUMBER},
      {"tenant", "TENANT", CELL_TEXT},
      {"pid", "PID", CELL_NUMBER},
      {"state", "STATE", CELL_TEXT},
      {"bytes", "MEMORY", CELL_BYTES},
      {"leases", "LEASES", CELL_NUMBER},
      {"attaches", "ATTACHES", CELL_NUMBER},
      {"ops", "OPS", CELL_NUMBER},
      {"ops_failed", "FAILED", CELL_NUMBER},
      {"lat_us.p50", "P50", CELL_US},
      {"lat_us.p99", "P99", CELL_US},
      {"bytes_read", "READ", CELL_BYTES},
      {"bytes_written", "WRITTEN", CELL_BYTES},
      {"weight", "WEIGHT", CELL_NUMBER},
      {"throttled_s", "THROTTLED", CELL_SECONDS},
      {"age_s", "AGE", CELL_SECONDS}}},
    {"user",
     "users",
     {{"uid", "UID", CELL_NUMBER},
      {"tenant", "TENANT", CELL_TEXT},
      {"sessions", "SESSIONS", CELL_NUMBER},
      {"bytes", "MEMORY", CELL_BYTES},
      {"leases", "LEASES", CELL_NUMBER},
      {"ops", "OPS", CELL_NUMBER},
      {"ops_failed", "FAILED", CELL_NUMBER},
      {"lat_us.p50", "P50", CELL_US},
      {"lat_us.p99", "P99", CELL_US},
      {"bytes_read", "READ", CELL_BYTES},
      {"bytes_written", "WRITTEN", CELL_BYTES},
      {"weight", "WEIGHT", CELL_NUMBER},
      {"throttled_s", "THROTTLED", CELL_SECONDS}}},
    {"pool",
     "pools",
     {{"session", "SESSION", CELL_NUMBER},
      {"number", "POOL", CELL_NUMBER}, /* of its session's; the id has a generation in it */
      {"name", "NAME", CELL_TEXT},
      {"uid", "UID", CELL_NUMBER},
      {"bytes", "SIZE", CELL_BYTES},
      {"hugetlb", "HUGETLB", CELL_TEXT},
      {"leases", "LEASES", CELL_NUMBER}}},
    {"lease",
     "leases",
     {{"id", "ID", CELL_NUMBER},
      {"name", "NAME", CELL_TEXT},
      {"state", "STATE", CELL_TEXT},
      {"session", "SESSION", CELL_NUMBER},
      {"length", "LENGTH", CELL_BYTES},
      {"rights", "RIGHTS", CELL_TEXT},
      {"flags", "FLAGS", CELL_TEXT},
      {"scope", "SCOPE", CELL_TEXT},
      {"ttl_s", "LEFT", CELL_SECONDS},
      {"attached", "ATTACHED", CELL_NUMBER},
      {"held_by", "BY", CELL_TEXT},
      {"protection", "HOLDS BY", CELL_TEXT},
      {"audit.bytes_read", "READ", CELL_BYTES},
      {"audit.bytes_written", "WRITTEN", CELL_BYTES},
      {"reason", "ENDED BY", CELL_TEXT}}},
    {"peer",
     "peers",
     {{"id", "ID", CELL_NUMBER},
      {"direction", "DIR", CELL_TEXT},
      {"state", "STATE", CELL_TEXT},
      {"address", "ADDRESS", CELL_TEXT},
      {"node", "NODE", CELL_TEXT},
      {"secured", "SECURED", CELL_TEXT},
      {"proven", "PROVEN", CELL_TEXT},
      {"fabric", "FABRIC", CELL_TEXT},
      {"attaches", "ATTACHES", CELL_NUMBER},
      {"channels", "CHANNELS", CELL_NUMBER},
      {"age_s", "AGE", CELL_SECONDS}}},
    {"link",
     "links",
     {{"peer", "PEER", CELL_NUMBER},
      {"node", "NODE", CELL_TEXT},
      {"address", "ADDRESS", CELL_TEXT},
      {"worker", "WORKER", CELL_NUMBER},
      {"fabric", "FABRIC", CELL_TEXT},
      {"encryption", "ENCRYPTION", CELL_TEXT},
      {"state", "STATE", CELL_TEXT},
      {"handles", "HANDLES", CELL_NUMBER},
      {"channels", "CHANNELS", CELL_NUMBER},
      {"ops", "OPS", CELL_NUMBER},
      {"ops_failed", "FAILED", CELL_NUMBER},
      {"lat_us.p50", "P50", CELL_US},
      {"lat_us.p99", "P99", CELL_US},
      {"rtt_us", "RTT", CELL_US},
      {"bytes_per_second", "RATE", CELL_BYTES},
      {"retransmits", "RESENT", CELL_NUMBER},
      {"quiesce_s", "QUIESCE", CELL_SECONDS},
      {"rebuilds", "REBUILDS", CELL_NUMBER},
      {"last_error_ago_s", "AGO", CELL_SECONDS},
      {"last_error", "LAST ERROR", CELL_TEXT}}},
    {"channel",
     "channels",
     {{"id", "ID", CELL_NUMBER},
      {"service", "SERVICE", CELL_TEXT},
      {"session", "SESSION", CELL_NUMBER},
      {"uid", "UID", CELL_NUMBER},
      {"side", "SIDE", CELL_TEXT},
      {"peer_node", "OTHER END", CELL_TEXT},
      {"peer_proven", "PROVEN", CELL_TEXT},
      {"peer_address", "AT", CELL_TEXT},
      {"peer_uid", "ITS UID", CELL_NUMBER},
      {"kind", "KIND", CELL_TEXT},
      {"fabric", "FABRIC", CELL_TEXT},
      {"state", "STATE", CELL_TEXT},
      {"messages_sent", "SENT", CELL_NUMBER},
      {"bytes_sent", "BYTES", CELL_BYTES},
      {"messages_received", "RECEIVED", CELL_NUMBER},
      {"bytes_received", "BYTES", CELL_BYTES},
      {"receives_posted", "POSTED", CELL_NUMBER},
      {"sends_waiting", "WAITING", CELL_NUMBER},
      {"stalls", "STALLS", CELL_NUMBER},
      {"lost", "LOST", CELL_NUMBER},
      {"reason", "ENDED BY", CELL_TEXT}}},
    {"service",
     "services",
     {{"id", "ID", CELL_NUMBER},
      {"name", "NAME", CELL_TEXT},
      {"session", "SESSION", CELL_NUMBER},
      {"uid", "UID", CELL_NUMBER},
      {"scope", "SCOPE", CELL_TEXT},
      {"waiting", "WAITING", CELL_NUMBER},
      {"backlog", "BACKLOG", CELL_NUMBER},
      {"accepted", "ACCEPTED", CELL_NUMBER},
      {"budget.bytes", "BUDGET", CELL_BYTES},
      {"budget.free", "FREE", CELL_BYTES},
      {"age_s", "AGE", CELL_SECONDS}}},
};

static const struct noun *find_noun(const char *object) {
    const struct noun *n = nouns;
    while (strcmp(n->object, object) != 0)
        n++;
    return n;
}

static void print_value(struct table *t, const struct column *c, const json_t *value) {
    char buf[CELL_MAX];
    bool right = c->kind != CELL_TEXT;
    double number = json_number_value(value);
    if (json_is_boolean(value))
        table_cell(t, right, json_is_true(value) ? "yes" : "no");
    else if (c->kind == CELL_TEXT)
        table_cell(t, right, json_string_length(value) ? json_string_value(value) : "-");
    else if (!json_is_number(value))
        table_cell(t, right, "-");
    else if (c->kind == CELL_BYTES)
        table_cell(t, right, cli_human_bytes(buf, number));
    else if (c->kind == CELL_SECONDS)
        table_cell(t, right, cli_human_seconds(buf, number));
    else if (c->kind == CELL_US)
        table_cell(t, right, cli_human_us(buf, number));
    else {
        snprintf(buf, sizeof(buf), "%.0f", number);
        table_cell(t, right, buf);
    }
}

static void print_table(const struct noun *n, const json_t *list) {
    unsigned columns = 0;
    while (columns < sizeof(n->columns) / sizeof(n->columns[0]) && n->columns[columns].key)
        columns++;
    struct table *t = table_new(columns);
    for (unsigned c = 0; c < columns; c++)
        table_cell(t, n->columns[c].kind != CELL_TEXT, n->columns[c].head);
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row) {
        for (unsigned c = 0; c < columns; c++)
            print_value(t, &n->columns[c], listing_value(row, n->columns[c].key));
    }
    table_print(t);
}

/* The daemon tells of a link's network what it saw when it was asked last, and looks again. */
static bool is_old(const json_t *result) {
    const json_t *list = json_object_get(result, "links");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *ago = json_object_get(json_array_get(list, i), "looked_ago_s");
        if (!json_is_number(ago) || json_number_value(ago) > 1)
            return true;
    }
    return false;
}

static json_t *ask_for_list(const char *object, bool all) {
    char method[32];
    snprintf(method, sizeof(method), "%s.show", object);
    json_t *result =
        daemon_call(method, all ? json_pack("{s:b}", "all", 1) : NULL, PATIENCE_LOOK_MS);
    if (result && is_old(result)) {
        json_decref(result);
        poll(NULL, 0, LOOK_AGAIN_MS);
        result = daemon_call(method, NULL, PATIENCE_LOOK_MS);
    }
    return result;
}

static int show_once(const struct listing *l) {
    json_t *result = ask_for_list(l->object, l->more);
    if (!result)
        return EXIT_FAILED;
    const struct noun *n = find_noun(l->object);
    json_t *list = json_object_get(result, n->list);
    int code = listing_filter(l, list);
    if (code) {
        json_decref(result);
        return code;
    }
    if (cli.json)
        return cli_print_json(result);
    listing_begin();
    print_table(n, list);
    if (json_is_true(json_object_get(result, "truncated")))
        printf("(the list is cut here, there are more)\n");
    json_decref(result);
    return EXIT_GOOD;
}

int cmd_show(const struct command *self, int argc, char **argv) {
    struct listing l = {.object = self->object};
    const struct opt opts[] = {
        {"all", 'a', OPT_FLAG, &l.more, 0, 0, NULL, "what ended, too, as far as it is remembered"},
        LISTING_OPTS(&l),
        {0},
    };
    /* Only leases are remembered after their end. */
    int rc =
        args_parse(self, strcmp(self->object, "lease") != 0 ? opts + 1 : opts, NULL, argc, argv);
    return rc == ARGS_RUN ? listing_show(&l, show_once) : rc;
}
