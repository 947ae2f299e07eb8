/* SPDX-License-Identifier: MIT */
/*
 * cmd_device.c - device show: a block a device, with each port and GID and why it is or is not
 * used. The chosen ones are marked with a star.
 */
#include "rdmactl/cli.h"
#include <stdio.h>
#include <string.h>

/* A text of a row, fit for a terminal; "" when there is none. */
static const char *row_words(const json_t *row, const char *key, char buf[192]) {
    const char *s = json_string_value(json_object_get(row, key));
    return cli_safe_text(buf, 192, s ? s : "");
}

static char mark(const json_t *row) {
    return json_is_true(json_object_get(row, "chosen")) ? '*' : ' ';
}

static void print_gid(const json_t *g) {
    char address[192], gid[192], type[192], netdev[192], why[192];
    row_words(g, "address", address);
    row_words(g, "netdev", netdev);
    printf("      %c gid %.0f: %s, %s%s%s%s%s\n", mark(g), cli_number(g, "index"),
           row_words(g, "gid", gid), row_words(g, "type", type), *address ? ", " : "", address,
           *netdev ? ", " : "", netdev);
    if (*row_words(g, "why", why))
        printf("          %s\n", why);
}

static void print_port(const json_t *p) {
    char state[192], layer[192], netdev[192], speed[192], why[192], bytes[CELL_MAX];
    row_words(p, "netdev", netdev);
    row_words(p, "speed", speed);
    printf("  %c port %.0f: %s, %s%s%s%s%s\n", mark(p), cli_number(p, "port"),
           row_words(p, "state", state), row_words(p, "link_layer", layer), *netdev ? " " : "",
           netdev, *speed ? ", " : "", speed);
    printf("      mtu %.0f of %.0f, lid %.0f, messages up to %s\n", cli_number(p, "mtu"),
           cli_number(p, "max_mtu"), cli_number(p, "lid"),
           cli_human_bytes(bytes, cli_number(p, "max_message_bytes")));
    if (*row_words(p, "why", why))
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
        printf("      %-36s %s\n", key, cli_safe_text(buf, sizeof(buf), s ? s : "?"));
    }
}

static void print_device(const json_t *d) {
    char name[192], transport[192], guid[192], firmware[192], node[192], why[192];
    bool in_use = json_is_true(json_object_get(d, "in_use"));
    bool usable = json_is_true(json_object_get(d, "usable"));
    row_words(d, "transport", transport);
    row_words(d, "firmware", firmware);
    printf("%c %s: %s%s%s\n", mark(d), row_words(d, "name", name), transport,
           *transport ? ", " : "",
           in_use   ? "in use"
           : usable ? "not in use"
                    : "not usable");
    printf("    node guid %s, firmware %s, %s\n", row_words(d, "node_guid", guid),
           *firmware ? firmware : "unknown", row_words(d, "uverbs", node));
    if (*row_words(d, "why", why))
        printf("    %s\n", why);
    if (*row_words(d, "protection", name))
        printf("    leases hold by %s%s%s\n", name, *row_words(d, "self_test", why) ? ": " : "",
               why);
    if (*row_words(d, "atomics", name))
        printf("    atomic operations: %s; messages by %s\n", name, row_words(d, "services", why));
    size_t i;
    json_t *p;
    json_array_foreach(json_object_get(d, "ports"), i, p) {
        print_port(p);
    }
    print_facts(json_object_get(d, "facts"));
}

/* any: the machine has devices, whether or not they are shown. */
static void print_answer(const json_t *answer, bool any) {
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
        printf("%s: %s\n", any ? "no device is chosen" : "no devices", why);
    printf("fabric in use: %s%s%s\n", row_words(answer, "fabric", fabric),
           same || !fabric_why ? "" : ": ", same || !fabric_why ? "" : fabric_why);
}

static int device_show_once(const struct listing *l) {
    json_t *answer = daemon_call("device.show", l->more ? json_pack("{s:b}", "verbose", 1) : NULL,
                                 PATIENCE_DEVICES_MS);
    if (!answer)
        return EXIT_FAILED;
    json_t *list = json_object_get(answer, "devices");
    bool any = json_array_size(list);
    int code = listing_filter(l, list);
    if (code) {
        json_decref(answer);
        return code;
    }
    if (cli.json)
        return cli_print_json(answer);
    listing_begin();
    print_answer(answer, any);
    json_decref(answer);
    return EXIT_GOOD;
}

int cmd_device_show(const struct command *self, int argc, char **argv) {
    struct listing l = {.object = self->object};
    bool all = false;
    const struct opt opts[] = {
        {"all", 'a', OPT_FLAG, &all, 0, 0, NULL, "the same: every device is shown"},
        {"verbose", 'v', OPT_FLAG, &l.more, 0, 0, NULL, "everything that ibv_devinfo -v tells"},
        LISTING_OPTS(&l),
        {0},
    };
    int rc = args_parse(self, opts, NULL, argc, argv);
    return rc == ARGS_RUN ? listing_show(&l, device_show_once) : rc;
}
