/* SPDX-License-Identifier: MIT */
/*
 * listing.c - what each show of a list takes: --where, which rows, and --watch, again and again.
 */
#include "rdmactl/cli.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool clears; /* a terminal that is watched */

const json_t *listing_value(const json_t *row, const char *key) {
    const char *dot = strchr(key, '.');
    if (!dot)
        return json_object_get(row, key);
    char outer[32];
    snprintf(outer, sizeof(outer), "%.*s", (int)(dot - key), key);
    return json_object_get(json_object_get(row, outer), dot + 1);
}

/* "KEY=VALUE": whether that is so of the row. */
static bool fits(const json_t *row, const char *where) {
    const char *equals = strchr(where, '=');
    char key[64], text[64];
    snprintf(key, sizeof(key), "%.*s", (int)(equals - where), where);
    const json_t *value = listing_value(row, key);
    if (json_is_string(value))
        return !strcmp(json_string_value(value), equals + 1);
    if (json_is_boolean(value))
        return !strcmp(json_is_true(value) ? "yes" : "no", equals + 1);
    snprintf(text, sizeof(text), "%.15g", json_number_value(value));
    return json_is_number(value) && !strcmp(text, equals + 1);
}

void listing_filter(const struct listing *l, json_t *list) {
    for (size_t i = json_array_size(list); l->where && i-- > 0;)
        if (!fits(json_array_get(list, i), l->where))
            json_array_remove(list, i);
}

void listing_begin(void) {
    if (clears)
        fputs("\033[H\033[J", stdout);
}

int listing_show(const struct listing *l, int (*show)(const struct listing *l)) {
    const char *where = l->where;
    if (where && (where[0] == '=' || !strchr(where, '=')))
        return cli_usage_error("\"%s\" is not KEY=VALUE; -j shows the keys", where);
    if (l->interval_ms && cli.json)
        return cli_usage_error("-j is one JSON document, so there is nothing to watch");
    if (!l->interval_ms)
        return show(l);
    int signals = signals_catch();
    int rc;
    clears = isatty(STDOUT_FILENO);
    for (;;) {
        struct pollfd wake = {.fd = signals, .events = POLLIN};
        rc = show(l);
        fflush(stdout);
        if (rc != EXIT_GOOD || (poll(&wake, 1, (int)l->interval_ms) && signals_take(signals)))
            break;
    }
    close(signals);
    return rc;
}
