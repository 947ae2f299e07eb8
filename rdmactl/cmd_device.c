/* SPDX-License-Identifier: MIT */
/*
 * cmd_device.c - device show: a block a device, with each port and GID and why it is or is not
 * used. The chosen ones are marked with a star.
 */
#include "rdmactl/cli.h"
#include <stdio.h>
#include <string.h>

/* A text of a row, fit for a terminal; "" when there is none. */
static const char *words(const json_t *row, const char *key, char buf[192]) {
    const char *s = json_string_value(json_object_get(row, key));
    return safe_text(buf, 192, s ? s : "");
}

static double number(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

static char mark(const json_t *row) {
    return json_is_true(json_object_get(row, "chosen")) ? '*' : ' ';
}

static void print_gid(const json_t *g) {
    char address[192], gid[192], type[192], netdev[192], why[192];
    words(g, "address", address);
    words(g, "netdev", netdev);
    printf("      %c gid %.0f: %s, %s%s%s%s%s\n", mark(g), number(g, "index"), words(g, "gid", gid),
           words(g, "type", type), *address ? ", " : "", address, *netdev ? ", " : "", netdev);
    if (*words(g, "why", why))
        printf("          %s\n", why);
}

static void print_port(const json_t *p) {
    char state[192], layer[192], netdev[192], speed[192], why[192], bytes[CELL_MAX];
    words(p, "netdev", netdev);
    words(p, "speed", speed);
    printf("  %c port %.0f: %s, %s%s%s%s%s\n", mark(p), number(p, "port"), words(p, "state", state),
           words(p, "link_layer", layer), *netdev ? " " : "", netdev, *speed ? ", " : "", speed);
    printf("      mtu %.0f of %.0f, lid %.0f, messages up to %s\n", number(p, "mtu"),
           number(p, "max_mtu"), number(p, "lid"),
           human_bytes(bytes, number(p, "max_message_bytes")));
    if (*words(p, "why", why))
        printf("      %s\n", why);
    size_t i;
    json_t *g;
    json_array_foreach(json_object_get(p, "gids"), i, g) {
        print_gid(g);
    }
}

static void print_facts(const json_t *facts) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)facts, key, value) {
        char buf[192];
        const char *s = json_string_value(value);
        printf("      %-36s %s\n", key, safe_text(buf, sizeof(buf), s ? s : "?"));
    }
}

static void print_device(const json_t *d) {
    char name[192], transport[192], guid[192], firmware[192], node[192], why[192];
    bool in_use = json_is_true(json_object_get(d, "in_use"));
    bool usable = json_is_true(json_object_get(d, "usable"));
    words(d, "transport", transport);
    words(d, "firmware", firmware);
    printf("%c %s: %s%s%s\n", mark(d), words(d, "name", name), transport, *transport ? ", " : "",
           in_use   ? "in use"
           : usable ? "not in use"
                    : "not usable");
    printf("    node guid %s, firmware %s, %s\n", words(d, "node_guid", guid),
           *firmware ? firmware : "unknown", words(d, "uverbs", node));
    if (*words(d, "why", why))
        printf("    %s\n", why);
    if (*words(d, "protection", name))
        printf("    leases hold by %s%s%s\n", name, *words(d, "self_test", why) ? ": " : "", why);
    if (*words(d, "atomics", name))
        printf("    atomic operations: %s; messages by %s\n", name, words(d, "services", why));
    size_t i;
    json_t *p;
    json_array_foreach(json_object_get(d, "ports"), i, p) {
        print_port(p);
    }
    print_facts(json_object_get(d, "facts"));
}

static void print_answer(const json_t *answer) {
    char fabric[192];
    const json_t *list = json_object_get(answer, "devices");
    const char *fabric_why = json_string_value(json_object_get(answer, "fabric_why"));
    const char *why = json_string_value(json_object_get(answer, "why"));
    size_t i;
    json_t *d;
    json_array_foreach(list, i, d) {
        print_device(d);
    }
    bool same = why && fabric_why && !strcmp(why, fabric_why);
    if (why)
        printf("%s: %s\n", json_array_size(list) ? "no device is chosen" : "no devices", why);
    printf("fabric in use: %s%s%s\n", words(answer, "fabric", fabric),
           same || !fabric_why ? "" : ": ", same || !fabric_why ? "" : fabric_why);
}

int cmd_device_show(const struct command *self, int argc, char **argv) {
    bool all = false, verbose = false;
    const struct opt opts[] = {
        {"all", 'a', OPT_FLAG, &all, 0, 0, NULL, "the same: every device is shown"},
        {"verbose", 'v', OPT_FLAG, &verbose, 0, 0, NULL, "everything that ibv_devinfo -v tells"},
        {0},
    };
    int rc = args_parse(self, opts, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    json_t *answer = daemon_call("device.show", verbose ? json_pack("{s:b}", "verbose", 1) : NULL,
                                 PATIENCE_DEVICES_MS);
    if (!answer)
        return EXIT_FAILED;
    if (cli.json)
        return print_json(answer);
    print_answer(answer);
    json_decref(answer);
    return EXIT_GOOD;
}
