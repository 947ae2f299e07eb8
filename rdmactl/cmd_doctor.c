/* SPDX-License-Identifier: MIT */
/*
 * cmd_doctor.c - what commonly goes wrong, checked one by one, each with what to do about it.
 *
 * One bad check makes the exit code 1. Checks that need the daemon's own facts are skipped, and say
 * so, without them.
 */
#include "rdmactl/doctor.h"
#include <stdio.h>
#include <time.h>

static const struct check {
    const char *name;
    check_run *run;
    bool needs_daemon;
} checks[] = {
    {"runtime directory", check_runtime_dir, false},
    {"administration", check_control, false},
    {"client socket", check_client_socket, false},
    {"permission", check_permission, true},
    {"version", check_version, true},
    {"fabric", check_fabric, true},
    {"peers", check_peers, true},
    {"devices", check_devices, false},
    {"kernel modules", check_modules, false},
    {"device nodes", check_nodes, false},
    {"ports", check_ports, false},
    {"GIDs", check_gids, false},
    {"retries", check_retries, true},
    {"locked memory", check_memlock, true},
    {"listen address", check_listen, true},
    {"descriptors", check_fds, true},
    {"limits", check_limits, true},
    {"memory", check_memory, true},
    {"huge pages", check_hugepages, false},
    {"congestion control", check_congestion, true},
    {"workers", check_workers, true},
};

static double now_ms(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void examine(struct exam *e) {
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        e->check = checks[i].name;
        if (e->status || !checks[i].needs_daemon)
            checks[i].run(e);
        else
            say(e, SKIPPED, "the daemon does not answer");
    }
}

static const char *row_text(const json_t *row, const char *key) {
    return json_string_value(json_object_get(row, key));
}

static void print_rows(const json_t *rows) {
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        const char *todo = row_text(row, "next");
        printf("%-8s %-19s %s\n", row_text(row, "result"), row_text(row, "check"),
               row_text(row, "text"));
        if (todo)
            printf("%28s -> %s\n", "", todo);
    }
}

int cmd_doctor(const struct command *self, int argc, char **argv) {
    int rc = args_parse(self, NULL, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    struct exam e = {.root = "", .rows = json_array()};
    struct failure ignored;
    double start = now_ms();
    json_t *status = daemon_try("status", NULL, PATIENCE_LOOK_MS, &e.why), *config = NULL,
           *devices = NULL;
    e.answer_ms = now_ms() - start;
    if (status) {
        config = daemon_try("config.show", NULL, PATIENCE_LOOK_MS, &ignored);
        devices = daemon_try("device.show", NULL, PATIENCE_DEVICES_MS, &e.no_device);
    }
    e.status = status;
    e.config = json_object_get(config, "config");
    e.devices = devices;
    examine(&e);
    json_decref(status);
    json_decref(config);
    json_decref(devices);
    int code = e.bad ? EXIT_FAILED : EXIT_GOOD;
    if (cli.json) {
        print_json(json_pack("{s:b, s:o}", "healthy", !e.bad, "checks", e.rows));
        return code;
    }
    print_rows(e.rows);
    json_decref(e.rows);
    return code;
}
