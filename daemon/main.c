/* SPDX-License-Identifier: MIT */
/*
 * main.c - from argv to an exit code: 0 stopped or nothing to do, 1 failed, 2 wrong usage or
 * settings. A service manager tries again after 1 and not after 2, which time does not mend.
 */
#include "daemon/base/json_memory.h"
#include "daemon/base/log.h"
#include "daemon/daemon.h"
#include "daemon/porter/messages.h"
#include "daemon/porter/porter.h"
#include "daemon/trial.h"
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What is opened next would be standard input, or what is written to standard error. */
static void open_standard(void) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", O_RDWR);
    }
}

int main(int argc, char **argv) {
    struct options options;
    if (argc > 1 && !strcmp(argv[1], PORTER_OPTION))
        return porter_run(argc, argv);
    open_standard();
    json_set_alloc_funcs(json_memory_take, json_memory_give);
    switch (options_parse(&options, argc, argv)) {
    case OPTIONS_EXIT_OK:
        return 0;
    case OPTIONS_EXIT_USAGE:
        return 2;
    case OPTIONS_RUN:
        break;
    }
    if (options.print_config) {
        config_print_reference(stdout);
        return 0;
    }
    log_init(LOG_INFO, options.check_config);
    struct config config;
    struct error why;
    int rc = options.check_config ? trial_of_start(&options, &why)
                                  : options_load(&options, &config, NULL, &why);
    if (rc) {
        LOG(ERR, ("%s", why.text));
        return options.check_config || rc == RDMAD_E_NOMEM ? 1 : 2;
    }
    return options.check_config ? 0 : daemon_run(&options, &config);
}
