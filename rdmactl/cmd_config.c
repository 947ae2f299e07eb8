/* SPDX-License-Identifier: MIT */
/*
 * cmd_config.c - config check FILE: the daemon's own parser, without the daemon.
 */
#include "common/errors.h"
#include "daemon/config/config.h"
#include "rdmactl/cli.h"
#include <stdio.h>

int cmd_config_check(const struct command *self, int argc, char **argv) {
    const char *file = NULL;
    struct positionals pos = {.names = "FILE", .min = 1, .max = 1, .values = &file};
    int rc = args_parse(self, NULL, &pos, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    struct config config;
    struct error err;
    config_defaults(&config);
    int code = config_load(&config, file, &err);
    if (code)
        return fail(rdmad_error_name(code), "%s", err.text);
    if (cli.json) {
        json_t *name = json_string(file);
        return print_json(json_pack("{s:o}", "file", name ? name : json_null()));
    }
    printf("%s: good\n", file);
    return EXIT_GOOD;
}
