/* SPDX-License-Identifier: MIT */
/*
 * What device.show answers: all that a survey found, facts only when they are asked for, and names
 * that are no text do not spoil the answer.
 */
#include "daemon/ctl/device_json.h"
#include <criterion/criterion.h>
#include <stdlib.h>

static struct device_gid gids[] = {{.index = 3,
                                    .gid = "::ffff:10.0.0.1",
                                    .address = "10.0.0.1",
                                    .type = "RoCE v2",
                                    .netdev = "eth0",
                                    .usable = true,
                                    .chosen = true,
                                    .rank = -2,
                                    .why = "routable"}};
static struct device_port ports[] = {{.number = 1,
                                      .state = "ACTIVE",
                                      .link_layer = "Ethernet",
                                      .mtu = 1024,
                                      .max_mtu = 4096,
                                      .max_message = UINT64_C(1) << 31,
                                      .usable = true,
                                      .gids = gids,
                                      .gid_count = 1}};
static struct device_fact facts[] = {{"max_qp", "1048560"}, {"hw_ver", "0x0"}};
static struct device_view devices[] = {
    {.name = "rxe0",
     .in_use = true,
     .windows = "registrations",
     .self_test = "a write outside of a window was not refused",
     .ports = ports,
     .port_count = 1,
     .facts = facts,
     .fact_count = 2},
    {.name = "\xff", .why = "no permission"},
};
static const struct device_list list = {.devices = devices, .count = 2, .chosen = 0};

static const json_t *at(const json_t *row, const char *key) {
    const json_t *value = json_object_get(row, key);
    cr_assert_not_null(value, "%s is missing", key);
    return value;
}

Test(device_json, everything_that_was_found_is_told) {
    json_t *rows = device_list_json(&list, false);
    cr_assert_eq(json_array_size(rows), 2);
    const json_t *d = json_array_get(rows, 0);
    cr_expect_str_eq(json_string_value(at(d, "name")), "rxe0");
    cr_expect_str_eq(json_string_value(at(d, "protection")), "registrations");
    cr_expect(json_is_true(at(d, "in_use")) && json_is_false(at(d, "usable")));
    const json_t *p = json_array_get(at(d, "ports"), 0);
    cr_expect_eq(json_integer_value(at(p, "max_message_bytes")), 2147483648);
    cr_expect_str_eq(json_string_value(at(p, "state")), "ACTIVE");
    const json_t *g = json_array_get(at(p, "gids"), 0);
    cr_expect_eq(json_integer_value(at(g, "index")), 3);
    cr_expect_eq(json_integer_value(at(g, "rank")), -2);
    cr_expect_str_eq(json_string_value(at(g, "why")), "routable");
    cr_expect(json_is_true(at(g, "chosen")));
    json_decref(rows);
}

Test(device_json, facts_are_told_when_asked_for) {
    json_t *rows = device_list_json(&list, false);
    cr_expect_null(json_object_get(json_array_get(rows, 0), "facts"));
    json_decref(rows);
    rows = device_list_json(&list, true);
    const json_t *f = at(json_array_get(rows, 0), "facts");
    cr_expect_str_eq(json_string_value(at(f, "max_qp")), "1048560");
    cr_expect_eq(json_object_size(at(json_array_get(rows, 1), "facts")), 0);
    json_decref(rows);
}

Test(device_json, a_name_that_is_no_text_is_shown_as_a_question_mark) {
    json_t *rows = device_list_json(&list, true);
    cr_expect_str_eq(json_string_value(at(json_array_get(rows, 1), "name")), "?");
    cr_expect_str_eq(json_string_value(at(json_array_get(rows, 1), "why")), "no permission");
    char *text = json_dumps(rows, 0);
    cr_expect_not_null(text);
    free(text);
    json_decref(rows);
}
