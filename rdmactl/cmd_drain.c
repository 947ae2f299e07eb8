/* SPDX-License-Identifier: MIT */
/*
 * cmd_drain.c - drain: the daemon takes nothing new; returns when no op is in flight, or says what
 * still is when the time is over. drain --off takes that back.
 */
#include "rdmactl/cli.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 20
#define WAIT_DEFAULT_MS 30000u

static json_int_t number(const json_t *answer, const char *key) {
    return json_integer_value(json_object_get(answer, key));
}

/* "session 3 (uid 1000, pid 4711, kv) has 2, session 4 ..." */
static void list_holders(const json_t *answer, char *out, size_t size) {
    char name[CELL_MAX];
    size_t i, used = 0;
    const json_t *row;
    out[0] = '\0';
    json_array_foreach(json_object_get(answer, "holders"), i, row) {
        const char *said = json_string_value(json_object_get(row, "name"));
        int n =
            snprintf(out + used, size - used,
                     "%ssession %" PRId64 " (uid %" PRId64 ", pid %" PRId64 "%s%s) has %" PRId64,
                     i ? ", " : "", (int64_t)number(row, "id"), (int64_t)number(row, "uid"),
                     (int64_t)number(row, "pid"), said && *said ? ", " : "",
                     cli_safe_text(name, sizeof(name), said ? said : ""),
                     (int64_t)number(row, "ops_inflight"));
        if (n < 0 || (size_t)n >= size - used)
            break;
        used += (size_t)n;
    }
}

static int fail_held(const json_t *answer, uint64_t wait_ms) {
    char holders[400], waited[CELL_MAX];
    list_holders(answer, holders, sizeof(holders));
    return cli_fail(
        "RDMAD_E_TIMEOUT",
        "%" PRId64 " ops are in flight after %s: %s; rdmad takes nothing new meanwhile: ask again, "
        "end them (session kick), or take it back (drain --off)",
        (int64_t)number(answer, "ops_inflight"), cli_human_seconds(waited, (double)wait_ms / 1e3),
        holders);
}

static void tell_drained(const json_t *answer) {
    json_int_t ending = number(answer, "sessions_ending"), all = number(answer, "sessions");
    json_int_t attached = number(answer, "attached_by_peers");
    printf("drained: no op is in flight, and rdmad may be stopped; drain --off has it go on\n");
    if (all > ending)
        printf("%" PRId64 " sessions wait, and go on with the next rdmad\n",
               (int64_t)(all - ending));
    if (ending)
        printf("%" PRId64 " sessions end with this one (session show)\n", (int64_t)ending);
    if (attached)
        printf("%" PRId64 " leases of theirs are attached to from other nodes (lease show)\n",
               (int64_t)attached);
}

/* Takes answer over. */
static int wait_drained(json_t *answer, uint64_t wait_ms) {
    const struct timespec moment = {.tv_nsec = LOOK_MS * 1000000L};
    double end_s = cli_now_s() + (double)wait_ms / 1e3;
    json_int_t life = number(answer, "life");
    while (!json_is_true(json_object_get(answer, "done"))) {
        if (cli_now_s() >= end_s) {
            int rc = fail_held(answer, wait_ms);
            json_decref(answer);
            return rc;
        }
        json_decref(answer);
        nanosleep(&moment, NULL);
        answer = daemon_call("drain.show", NULL, PATIENCE_LOOK_MS);
        if (!answer)
            return EXIT_FAILED;
        if (number(answer, "life") != life || !json_is_true(json_object_get(answer, "draining"))) {
            json_decref(answer);
            return cli_fail("RDMAD_E_CANCELED",
                            "rdmad is not drained any more: somebody took it back, or it was "
                            "started anew");
        }
    }
    if (cli.json)
        return cli_print_json(answer);
    tell_drained(answer);
    json_decref(answer);
    return EXIT_GOOD;
}

int cmd_drain(const struct command *self, int argc, char **argv) {
    bool off = false;
    uint64_t wait_ms = WAIT_DEFAULT_MS;
    const struct opt opts[] = {
        {"off", 0, OPT_FLAG, &off, 0, 0, NULL, "takes it back: the daemon goes on"},
        {"wait", 0, OPT_TIME, &wait_ms, 0, 86400000, "TIME", "for ops in flight; 30s"},
        {0},
    };
    int rc = args_parse(self, opts, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    json_t *answer = daemon_call("drain", json_pack("{s:b}", "off", off), PATIENCE_ACT_MS);
    if (!answer)
        return EXIT_FAILED;
    if (!off)
        return wait_drained(answer, wait_ms);
    if (cli.json)
        return cli_print_json(answer);
    json_decref(answer);
    printf("rdmad takes new sessions and ops again\n");
    return EXIT_GOOD;
}
