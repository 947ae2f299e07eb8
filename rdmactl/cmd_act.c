/* SPDX-License-Identifier: MIT */
/*
 * cmd_act.c - lease revoke, peer add and reload: the commands that change the daemon. They return
 * when it is done.
 */
#include "rdmactl/cli.h"
#include <inttypes.h>
#include <stdio.h>

static int act(const char *method, json_t *params, const char *done) {
    json_t *result = daemon_call(method, params, PATIENCE_ACT_MS);
    if (!result)
        return EXIT_FAILED;
    if (cli.json)
        return cli_print_json(result);
    json_decref(result);
    printf("%s\n", done);
    return EXIT_GOOD;
}

int cmd_lease_revoke(const struct command *self, int argc, char **argv) {
    const char *text = NULL;
    struct positionals pos = {.names = "ID", .min = 1, .max = 1, .values = &text};
    int rc = args_parse(self, NULL, &pos, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    uint64_t id;
    if (!args_count(text, &id) || id > INT64_MAX)
        return cli_usage_error("\"%s\" is not a lease's number; lease show lists them", text);
    char done[96];
    snprintf(done, sizeof(done), "lease %" PRIu64 " is revoked, nobody can reach its memory", id);
    return act("lease.revoke", json_pack("{s:I}", "id", (json_int_t)id), done);
}

int cmd_peer_add(const struct command *self, int argc, char **argv) {
    const char *address = NULL;
    struct positionals pos = {.names = "HOST:PORT", .min = 1, .max = 1, .values = &address};
    int rc = args_parse(self, NULL, &pos, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    char done[320];
    snprintf(done, sizeof(done), "connected to %s", address);
    return act("peer.add", json_pack("{s:s}", "address", address), done);
}

int cmd_log(const struct command *self, int argc, char **argv) {
    const char *level = NULL;
    struct positionals pos = {.names = "LEVEL", .min = 1, .max = 1, .values = &level};
    int rc = args_parse(self, NULL, &pos, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    char done[96];
    snprintf(done, sizeof(done), "%.20s and what is more important is logged until the next reload",
             level);
    return act("log.level", json_pack("{s:s}", "level", level), done);
}

int cmd_reload(const struct command *self, int argc, char **argv) {
    int rc = args_parse(self, NULL, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    json_t *result = daemon_call("reload", NULL, PATIENCE_ACT_MS);
    if (!result)
        return EXIT_FAILED;
    if (cli.json)
        return cli_print_json(result);
    size_t i;
    json_t *key;
    printf("settings reloaded\n");
    json_array_foreach(json_object_get(result, "needs_restart"), i, key)
        printf("%s has changed and takes effect at the next start\n", json_string_value(key));
    json_decref(result);
    return EXIT_GOOD;
}
