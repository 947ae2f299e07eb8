/* SPDX-License-Identifier: MIT */
/*
 * cmd_events.c - events and why: what the daemon remembers, a line an event.
 */
#include "rdmactl/cli.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FOLLOW_MS 500

static void print_event(const json_t *e) {
    char when[32] = "?", text[1100], who[100] = "";
    time_t at = (time_t)cli_number(e, "time");
    struct tm tm;
    const char *peer = json_string_value(json_object_get(e, "peer"));
    const char *tenant = json_string_value(json_object_get(e, "tenant"));
    if (localtime_r(&at, &tm))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
    if (json_is_number(json_object_get(e, "uid")))
        snprintf(who, sizeof(who), " (uid %.0f%s%.64s)", cli_number(e, "uid"), tenant ? "@" : "",
                 tenant ? tenant : "");
    else if (peer)
        snprintf(who, sizeof(who), " (%.64s)", peer);
    const char *said = json_string_value(json_object_get(e, "text"));
    printf("%s  %s %s%s: %s\n", when, json_string_value(json_object_get(e, "what")),
           json_string_value(json_object_get(e, "cause")), who,
           cli_safe_text(text, sizeof(text), said ? said : "?"));
}

/* Returns the number of the last. */
static json_int_t print_events(const json_t *list, json_int_t last) {
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)list, i, row) {
        print_event(row);
        last = json_integer_value(json_object_get(row, "number"));
    }
    fflush(stdout);
    return last;
}

/* Until a signal comes or the daemon does not answer. */
static int follow(json_int_t last) {
    int signals = signals_catch();
    int code = EXIT_GOOD;
    for (;;) {
        struct pollfd wake = {.fd = signals, .events = POLLIN};
        if (poll(&wake, 1, FOLLOW_MS) && signals_take(signals))
            break;
        json_t *result = daemon_call("events", json_pack("{s:I}", "after", last), PATIENCE_LOOK_MS);
        if (!result) {
            code = EXIT_FAILED;
            break;
        }
        last = print_events(json_object_get(result, "events"), last);
        json_decref(result);
    }
    close(signals);
    return code;
}

int cmd_events(const struct command *self, int argc, char **argv) {
    bool on = false;
    uint64_t since_ms = 0;
    const struct opt opts[] = {
        {"follow", 'f', OPT_FLAG, &on, 0, 0, NULL, "go on with what happens, until interrupted"},
        {"since", 's', OPT_TIME, &since_ms, 1000, UINT64_C(1) << 41, "TIME", "not before, as 1h"},
        {0},
    };
    int rc = args_parse(self, opts, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    if (cli.json && on)
        return cli_usage_error("-j is one JSON document, so there is nothing to follow");
    json_t *params = since_ms ? json_pack("{s:I}", "since_s", (json_int_t)(since_ms / 1000)) : NULL;
    json_t *result = daemon_call("events", params, PATIENCE_LOOK_MS);
    if (!result)
        return EXIT_FAILED;
    if (cli.json)
        return cli_print_json(result);
    json_int_t last = print_events(json_object_get(result, "events"), 0);
    json_decref(result);
    return on ? follow(last) : EXIT_GOOD;
}

int cmd_why(const struct command *self, int argc, char **argv) {
    const char *values[2] = {NULL, NULL};
    struct positionals pos = {.names = "OBJECT ID", .min = 2, .max = 2, .values = values};
    int rc = args_parse(self, NULL, &pos, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    uint64_t id;
    if (!args_count(values[1], &id) || id > INT64_MAX)
        return cli_usage_error("\"%s\" is no number; the show verbs list them", values[1]);
    json_t *result =
        daemon_call("why", json_pack("{s:s, s:I}", "object", values[0], "id", (json_int_t)id),
                    PATIENCE_LOOK_MS);
    if (!result)
        return EXIT_FAILED;
    if (cli.json)
        return cli_print_json(result);
    size_t i;
    json_t *sentence;
    json_array_foreach(json_object_get(result, "now"), i, sentence) {
        char text[1100];
        printf("now  %s\n", cli_safe_text(text, sizeof(text), json_string_value(sentence)));
    }
    print_events(json_object_get(result, "events"), 0);
    const char *next = json_string_value(json_object_get(result, "next"));
    if (next)
        printf("->   %s\n", next);
    json_decref(result);
    return EXIT_GOOD;
}
