/* SPDX-License-Identifier: MIT */
/*
 * cmd_doctor.c - what commonly goes wrong, checked one by one, each with what to do about it.
 *
 * One bad check makes the exit code 1. Checks that need the daemon's own facts are skipped, and say
 * so, without them.
 */
#include "rdmactl/doctor.h"
#include <stdio.h>

static const struct check {
    const char *name;
    doctor_check *run;
    bool needs_daemon;
} checks[] = {
    {"runtime directory", doctor_check_runtime_dir, false},
    {"administration", doctor_check_control, false},
    {"client socket", doctor_check_client_socket, false},
    {"permission", doctor_check_permission, true},
    {"version", doctor_check_version, true},
    {"fabric", doctor_check_fabric, true},
    {"peers", doctor_check_peers, true},
    {"devices", doctor_check_devices, false},
    {"kernel modules", doctor_check_modules, false},
    {"device nodes", doctor_check_nodes, false},
    {"ports", doctor_check_ports, false},
    {"GIDs", doctor_check_gids, false},
    {"retries", doctor_check_retries, true},
    {"locked memory", doctor_check_memlock, true},
    {"identity", doctor_check_identity, true},
    {"listen address", doctor_check_listen, true},
    {"descriptors", doctor_check_fds, true},
    {"limits", doctor_check_limits, true},
    {"own limits", doctor_check_own_limits, true},
    {"memory", doctor_check_memory, true},
    {"huge pages", doctor_check_hugepages, false},
    {"congestion control", doctor_check_congestion, true},
    {"workers", doctor_check_workers, true},
};

static void examine(struct exam *e) {
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        e->check = checks[i].name;
        if (e->status || !checks[i].needs_daemon)
            checks[i].run(e);
        else
            exam_say(e, SKIPPED, "the daemon does not answer");
    }
}

static const char *row_text(const json_t *row, const char *key) {
    return json_string_value(json_object_get(row, key));
}

static void print_checks(const json_t *rows) {
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
    double start = cli_now_s();
    json_t *status = daemon_try("status", NULL, PATIENCE_LOOK_MS, &e.why), *config = NULL,
           *devices = NULL, *limits = NULL;
    e.answer_ms = (cli_now_s() - start) * 1e3;
    if (status) {
        config = daemon_try("config.show", NULL, PATIENCE_LOOK_MS, &ignored);
        limits = daemon_try("limit.show", NULL, PATIENCE_LOOK_MS, &ignored);
        devices = daemon_try("device.show", NULL, PATIENCE_DEVICES_MS, &e.no_device);
    }
    e.status = status;
    e.config = json_object_get(config, "config");
    e.devices = devices;
    e.limits = json_object_get(limits, "limits");
    examine(&e);
    json_decref(status);
    json_decref(config);
    json_decref(devices);
    json_decref(limits);
    int code = e.bad ? EXIT_FAILED : EXIT_GOOD;
    if (cli.json) {
        cli_print_json(json_pack("{s:b, s:o}", "healthy", !e.bad, "checks", e.rows));
        return code;
    }
    print_checks(e.rows);
    json_decref(e.rows);
    return code;
}
