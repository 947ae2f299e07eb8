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
static bool row_fits(const json_t *row, const char *where) {
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

/* Some row has it, or has nothing where it would be. */
static bool is_key(const json_t *list, const char *key) {
    char outer[64];
    snprintf(outer, sizeof(outer), "%.*s", (int)strcspn(key, "."), key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        if (listing_value(row, key) || json_is_null(json_object_get(row, outer)))
            return true;
    }
    return false;
}

static int fail_key(const json_t *row, const char *key) {
    char keys[512] = "";
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)row, name, value) {
        size_t used = strlen(keys);
        snprintf(keys + used, sizeof(keys) - used, "%s%s%s", used ? ", " : "", name,
                 json_is_object(value) ? ".*" : "");
    }
    return cli_usage_error("--where: there is no key %s; there are %s", key, keys);
}

int listing_filter(const struct listing *l, json_t *list) {
    size_t i = json_array_size(list);
    char key[64];
    if (!l->where || !i)
        return EXIT_GOOD;
    snprintf(key, sizeof(key), "%.*s", (int)strcspn(l->where, "="), l->where);
    if (!is_key(list, key))
        return fail_key(json_array_get(list, 0), key);
    while (i-- > 0)
        if (!row_fits(json_array_get(list, i), l->where))
            json_array_remove(list, i);
    return EXIT_GOOD;
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
        if (rc != EXIT_GOOD || ferror(stdout) /* main says so */ ||
            (poll(&wake, 1, (int)l->interval_ms) && signals_take(signals)))
            break;
    }
    close(signals);
    return rc;
}
