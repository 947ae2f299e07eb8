/* SPDX-License-Identifier: MIT */
/*
 * cmd_upgrade.c - upgrade: the running daemon gives way to what its program file is by now, or to
 * another. Returns when the next life answers.
 *
 * The life that ends answers when it has begun to stop. Whoever asks for the status after that
 * waits in the backlog of control.sock, or finds that life once more, or is hung up on by it, and
 * asks again.
 */
#include "rdmactl/cli.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ASK_AGAIN_MS 5
#define GONE_S 5.0 /* without any daemon: a service manager has had the time to start one */

struct before {
    char version[64];
    json_int_t life;
};

static const char *upgrade_text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "?";
}

static json_int_t life_of(const json_t *status) {
    return json_integer_value(json_object_get(status, "life"));
}

static void moment(void) {
    nanosleep(&(struct timespec){.tv_nsec = ASK_AGAIN_MS * 1000000L}, NULL);
}

/* The status of the next life, or NULL and *why. */
static json_t *await_next(const struct before *before, struct failure *why) {
    double end_s = cli_now_s() + (double)patience_ms(PATIENCE_ACT_MS) / 1e3, gone_s = 0;
    while (cli_now_s() < end_s) {
        json_t *status = daemon_try("status", NULL, PATIENCE_LOOK_MS, why);
        if (status && life_of(status) != before->life)
            return status;
        bool gone = !status && !strcmp(why->code, "RDMAD_E_NO_DAEMON");
        if (!gone)
            gone_s = 0;
        else if (gone_s == 0)
            gone_s = cli_now_s();
        else if (cli_now_s() - gone_s > GONE_S)
            return NULL;
        if (status)
            snprintf(why->text, sizeof(why->text), "rdmad %s still drains; see its log",
                     before->version);
        if (status)
            snprintf(why->code, sizeof(why->code), "RDMAD_E_TIMEOUT");
        json_decref(status);
        moment();
    }
    return NULL;
}

static int tell_upgraded(const struct before *before, const json_t *status) {
    const json_t *upgraded = json_object_get(status, "upgraded");
    const char *version = upgrade_text_of(status, "version");
    json_int_t pid = json_integer_value(json_object_get(json_object_get(status, "process"), "pid"));
    double pause_ms = cli_number(upgraded, "pause_ms");
    char pause[CELL_MAX];
    if (!json_is_object(upgraded))
        return cli_fail("RDMAD_E_DAEMON_LOST",
                        "rdmad %s runs, but as a process that was started anew: the upgrade from "
                        "%s ended in between; the log says why",
                        version, before->version);
    if (cli.json)
        return cli_print_json(json_pack("{s:s, s:s, s:I, s:I, s:f}", "from", before->version,
                                        "version", version, "pid", pid, "life", life_of(status),
                                        "pause_ms", pause_ms));
    printf("rdmad %s has followed rdmad %s, pid %" PRId64 ": clients waited for %s\n", version,
           before->version, (int64_t)pid, cli_human_seconds(pause, pause_ms / 1e3));
    return EXIT_GOOD;
}

/* The daemon is in another directory. */
static int program_of(const char *file, json_t **params) {
    char *whole = realpath(file, NULL);
    if (!whole)
        return cli_fail("RDMAD_E_INVAL", "%s: %s", file, strerror(errno));
    *params = json_pack("{s:s}", "program", whole);
    free(whole);
    return *params ? 0 : cli_usage_error("the file's name is not UTF-8");
}

int cmd_upgrade(const struct command *self, int argc, char **argv) {
    struct before before;
    struct failure why;
    const char *file = NULL;
    struct positionals pos = {
        .names = "BINARY", .min = 0, .max = 1, .paths = true, .values = &file};
    int rc = args_parse(self, NULL, &pos, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    json_t *params = NULL;
    if (file && (rc = program_of(file, &params)))
        return rc;
    json_t *begun = daemon_call("upgrade", params, PATIENCE_ACT_MS);
    if (!begun)
        return EXIT_FAILED;
    snprintf(before.version, sizeof(before.version), "%s", upgrade_text_of(begun, "version"));
    before.life = life_of(begun);
    json_decref(begun);
    json_t *status = await_next(&before, &why);
    if (!status)
        return cli_fail(why.code, "the next rdmad has not answered: %s", why.text);
    rc = tell_upgraded(&before, status);
    json_decref(status);
    return rc;
}
