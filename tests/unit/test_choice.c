/* SPDX-License-Identifier: MIT */
/*
 * The choice of fabric: RDMA where it can be used, TCP only where that is allowed, and always with
 * the reason. The survey of devices is this file's.
 */
#include "daemon/choice.h"
#include "daemon/fabric/device.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

const struct fabric_ops fabric_tcp = {.name = "tcp"};
const struct fabric_ops fabric_verbs = {.name = "verbs"};

static enum { NO_DEVICE, ONE_DEVICE, NOTHING_TO_TELL } world;
static unsigned surveys, lists;

static struct device_gid gids[] = {
    {.index = 0, .gid = "fe80::1", .type = "RoCE v2"},
    {.index = 1,
     .gid = "::ffff:10.0.0.1",
     .address = "10.0.0.1",
     .type = "RoCE v2",
     .chosen = true},
};
static struct device_port ports[] = {{.number = 1},
                                     {.number = 2, .chosen = true, .gids = gids, .gid_count = 2}};
static struct device_view devices[] = {
    {.name = "mlx5_0"},
    {.name = "mlx5_1", .chosen = true, .ports = ports, .port_count = 2},
};

int devices_survey(const struct fabric_settings *settings, const struct fabric_host *host,
                   struct device_list **out, struct error *err) {
    surveys++;
    cr_assert(settings && !host);
    if (world == NOTHING_TO_TELL)
        return error_set(err, RDMAD_E_SYSTEM, "no device can be asked");
    lists++;
    *out = calloc(1, sizeof(**out));
    (*out)->chosen = -1;
    error_set(&(*out)->why, RDMAD_E_FABRIC, "this machine has no RDMA device; load its driver");
    if (world == ONE_DEVICE)
        **out = (struct device_list){.devices = devices, .count = 2, .chosen = 1};
    return 0;
}

void device_list_free(struct device_list *list) {
    lists--;
    free(list);
}

static struct fabric_choice choice;
static struct error why;

static bool no_fallback;

static int choose(const char *fabric, bool require_rdma) {
    static const struct fabric_settings settings;
    struct config c;
    config_defaults(&c);
    strcpy(c.fabric, fabric);
    c.require_rdma = require_rdma;
    if (no_fallback)
        c.peer_fallback_tcp = false;
    int rc = choice_make(&c, &settings, &choice, &why);
    cr_assert_eq(lists, 0, "a list of devices is not given back");
    return rc;
}

Test(choice, a_device_that_can_be_used_is_used_and_named_with_port_and_gid) {
    world = ONE_DEVICE;
    static const char *const settings[] = {"auto", "verbs"};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(choose(settings[i / 2], i % 2), 0, "%s", why.text);
        cr_expect_str_eq(choice.fabrics[0]->name, "verbs");
        cr_expect_str_eq(choice.why.text, "started on mlx5_1 port 2, GID 1 (10.0.0.1, RoCE v2)");
    }
}

Test(choice, tcp_is_used_without_a_device_and_says_why) {
    world = NO_DEVICE;
    cr_assert_eq(choose("auto", false), 0);
    cr_expect_str_eq(choice.fabrics[0]->name, "tcp");
    cr_expect_str_eq(choice.why.text, "this machine has no RDMA device; load its driver");
    world = NOTHING_TO_TELL;
    cr_assert_eq(choose("auto", false), 0);
    cr_expect_str_eq(choice.fabrics[0]->name, "tcp");
    cr_expect_str_eq(choice.why.text, "no device can be asked");
}

Test(choice, tcp_that_was_asked_for_looks_at_no_device) {
    world = ONE_DEVICE;
    cr_assert_eq(choose("tcp", false), 0);
    cr_expect_str_eq(choice.fabrics[0]->name, "tcp");
    cr_expect_eq(surveys, 0);
    cr_expect(strstr(choice.why.text, "\"tcp\""), "%s", choice.why.text);
}

Test(choice, who_requires_rdma_is_refused_with_what_is_missing) {
    world = NO_DEVICE;
    cr_expect_eq(choose("auto", true), RDMAD_E_FABRIC);
    cr_expect_str_eq(why.text,
                     "RDMA is required: this machine has no RDMA device; load its driver");
    cr_expect_eq(choose("verbs", false), RDMAD_E_FABRIC);
    cr_expect_str_eq(why.text,
                     "fabric \"verbs\": this machine has no RDMA device; load its driver");
    world = NOTHING_TO_TELL;
    cr_expect_eq(choose("verbs", true), RDMAD_E_FABRIC);
}

Test(choice, a_device_that_does_not_start_is_replaced_by_tcp_only_where_that_is_allowed) {
    world = ONE_DEVICE;
    struct error failure = {.code = RDMAD_E_FABRIC, .text = "mlx5_1: no memory to pin"};
    cr_assert_eq(choose("verbs", false), 0);
    cr_expect_not(choice_next_best(&choice, &failure));
    cr_assert_eq(choose("auto", true), 0);
    cr_expect_not(choice_next_best(&choice, &failure));
    cr_assert_eq(choose("auto", false), 0);
    cr_assert(choice_next_best(&choice, &failure));
    cr_expect_str_eq(choice.fabrics[0]->name, "tcp");
    cr_expect_str_eq(choice.why.text, "verbs could not be started: mlx5_1: no memory to pin");
    cr_expect_not(choice_next_best(&choice, &failure), "there is nothing after tcp");
    cr_expect_null(choice.fabrics[1], "tcp is offered once");
}

/* What peers are offered besides. */
Test(choice, peers_without_verbs_are_offered_tcp_unless_it_is_forbidden) {
    world = ONE_DEVICE;
    for (int asked = 0; asked < 2; asked++) {
        cr_assert_eq(choose(asked ? "verbs" : "auto", false), 0);
        cr_expect(choice.fabrics[1] == &fabric_tcp && !choice.alone.text[0]);
    }
    cr_assert_eq(choose("auto", true), 0);
    cr_expect_null(choice.fabrics[1]);
    cr_expect_str_eq(choice.alone.text, "require_rdma is true");
    no_fallback = true;
    cr_assert_eq(choose("auto", false), 0);
    cr_expect_null(choice.fabrics[1]);
    cr_expect_str_eq(choice.alone.text, "peer.fallback_tcp is false");
    cr_assert_eq(choose("tcp", false), 0); /* which is no fallback */
    cr_expect(choice.fabrics[0] == &fabric_tcp && !choice.fabrics[1]);
    cr_expect_str_eq(choice.alone.text, "the setting fabric is \"tcp\"");
    world = NO_DEVICE;
    cr_assert_eq(choose("auto", false), 0);
    cr_expect_str_eq(choice.alone.text, "this machine has no RDMA device; load its driver");
}
