/* SPDX-License-Identifier: MIT */
/*
 * cmd_config.c - config check FILE: the daemon's own parser, without the daemon.
 */
#include "common/errors.h"
#include "daemon/config/config.h"
#include "rdmactl/cli.h"
#include <stdio.h>
#include <stdlib.h>

int cmd_config_check(const struct command *self, int argc, char **argv) {
    const char *file = NULL;
    struct positionals pos = {.names = "FILE", .min = 1, .max = 1, .paths = true, .values = &file};
    int rc = args_parse(self, NULL, &pos, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    struct config config;
    struct error err;
    config_defaults(&config);
    struct config_places *places = config_places_new();
    if (!places)
        return cli_fail("RDMAD_E_NOMEM", "out of memory to check the settings");
    int code = config_load(&config, file, places, &err);
    if (!code)
        code = config_check_machine(&config, places, &err);
    free(places);
    if (code)
        return cli_fail(rdmad_error_name(code), "%s", err.text);
    if (cli.json) {
        json_t *name = json_string(file);
        return cli_print_json(json_pack("{s:o}", "file", name ? name : json_null()));
    }
    printf("%s: good\n", file);
    return EXIT_GOOD;
}
