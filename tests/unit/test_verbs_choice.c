/* SPDX-License-Identifier: MIT */
/*
 * Which device, port and GID is chosen, and that the sentences say why: on made-up machines.
 */
#include "daemon/base/address.h"
#include "daemon/fabric/verbs/device/limits.h"
#include "daemon/fabric/verbs/device/survey.h"
#include "daemon/fabric/verbs/host/events.h"
#include "daemon/fabric/verbs/host/host.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct verbs_settings settings;
static struct wish wish;
static unsigned looked_up;

/* Found before the C library's. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    looked_up++;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(host, service, hints, found);
}

static void fresh(void) {
    memset(&settings, 0, sizeof(settings));
    memset(&wish, 0, sizeof(wish));
    settings.lanes = 1;
    settings.queue_depth = 256;
    wish.settings = &settings;
}

static void listen_on(const char *address) {
    uint8_t *raw = wish.listen.raw[wish.listen.count++];
    if (inet_pton(AF_INET, address, raw + 12) == 1)
        raw[10] = raw[11] = 0xff;
    else
        cr_assert_eq(inet_pton(AF_INET6, address, raw), 1);
}

/* ---- machines ------------------------------------------------------------------------------ */

static struct device_list *machine(void) {
    struct device_list *list = calloc(1, sizeof(*list));
    list->devices = calloc(4, sizeof(*list->devices));
    return list;
}

static struct device_view *add_device(struct device_list *list, const char *name) {
    struct device_view *d = &list->devices[list->count++];
    snprintf(d->name, sizeof(d->name), "%s", name);
    snprintf(d->transport, sizeof(d->transport), "InfiniBand");
    d->ports = calloc(4, sizeof(*d->ports));
    return d;
}

static struct device_port *add_port(struct device_view *d, const char *layer, const char *state,
                                    const char *netdev) {
    struct device_port *p = &d->ports[d->port_count++];
    p->number = (unsigned)d->port_count;
    snprintf(p->link_layer, sizeof(p->link_layer), "%s", layer);
    snprintf(p->state, sizeof(p->state), "%s", state);
    snprintf(p->netdev, sizeof(p->netdev), "%s", netdev);
    p->gids = calloc(8, sizeof(*p->gids));
    return p;
}

static void add_gid(struct device_port *p, const char *type, const char *address) {
    struct device_gid *g = &p->gids[p->gid_count];
    g->index = (unsigned)p->gid_count++;
    snprintf(g->type, sizeof(g->type), "%s", type);
    snprintf(g->address, sizeof(g->address), "%s", address);
    if (inet_pton(AF_INET, address, g->raw + 12) == 1)
        g->raw[10] = g->raw[11] = 0xff;
    else
        cr_assert_eq(inet_pton(AF_INET6, address, g->raw), 1);
}

/* A device with one active Ethernet port. */
static struct device_port *add_roce(struct device_list *list, const char *name,
                                    const char *netdev) {
    return add_port(add_device(list, name), "Ethernet", "ACTIVE", netdev);
}

/* A machine with nothing but that, and two addresses of it. */
static struct device_list *roce_with(const char *name, const char *netdev, const char *first,
                                     const char *second) {
    struct device_list *list = machine();
    struct device_port *p = add_roce(list, name, netdev);
    add_gid(p, "RoCE v2", first);
    add_gid(p, "RoCE v2", second);
    return list;
}

/* As a usual NIC has them: each address as v1, then as v2. */
static void add_usual(struct device_port *p, const char *ipv6, const char *ipv4) {
    add_gid(p, "RoCE v1", ipv6);
    add_gid(p, "RoCE v2", ipv6);
    add_gid(p, "RoCE v1", ipv4);
    add_gid(p, "RoCE v2", ipv4);
}

static const char *chosen(const struct device_list *list) {
    static char text[128];
    const struct device_port *p = devices_chosen_port(list);
    const struct device_gid *g = port_chosen_gid(p);
    if (!g)
        return "none";
    snprintf(text, sizeof(text), "%s/%u/%u", list->devices[list->chosen].name, p->number, g->index);
    return text;
}

#define expect_choice(list, port_and_gid)               \
    do {                                                \
        devices_choose((list), &wish);                  \
        cr_assert_str_eq(chosen(list), (port_and_gid)); \
    } while (0)

#define assert_says(text, part) \
    cr_assert_not_null(strstr((text), (part)), "\"%s\" does not say \"%s\"", (text), (part))

/* ---- choosing ------------------------------------------------------------------------------ */

Test(verbs_choice, roce_v2_and_routable_are_preferred_and_every_gid_says_why) {
    fresh();
    struct device_list *list = machine();
    struct device_port *p = add_roce(list, "mlx5_0", "eth0");
    add_usual(p, "fe80::1", "192.0.2.1");
    expect_choice(list, "mlx5_0/1/3");
    p = &list->devices[0].ports[0];
    assert_says(p->gids[0].why, "v2 is better: index 3");
    assert_says(p->gids[1].why, "link-local, and index 3 is routable");
    assert_says(p->gids[2].why, "RoCE v1");
    assert_says(p->gids[3].why, "chosen: RoCE v2, routable");
    cr_assert_eq(list->why.code, 0);
    device_list_free(list);
}

Test(verbs_choice, the_listen_address_wins_over_every_other_rule) {
    fresh();
    listen_on("192.0.2.77");
    struct device_list *list = machine();
    add_usual(add_roce(list, "mlx5_0", "eth0"), "fe80::1", "192.0.2.1");
    struct device_port *p = add_roce(list, "mlx5_1", "eth1");
    add_gid(p, "RoCE v2", "198.51.100.1");
    add_gid(p, "RoCE v1", "192.0.2.77");
    expect_choice(list, "mlx5_1/1/1");
    assert_says(list->devices[0].ports[0].gids[3].why,
                "not the listen address, as index 1 of mlx5_1 port 1 is");
    assert_says(list->devices[0].why, "mlx5_1 is as good or better");
    assert_says(list->devices[1].ports[0].gids[1].why, "the listen address");
    device_list_free(list);
}

Test(verbs_choice, a_listen_address_without_a_gid_excludes_nothing) {
    fresh();
    listen_on("203.0.113.9");
    struct device_list *list = machine();
    add_usual(add_roce(list, "mlx5_0", "eth0"), "fe80::1", "192.0.2.1");
    expect_choice(list, "mlx5_0/1/3");
    device_list_free(list);
}

static void gids_of(const char *host, struct listen_gids *out) {
    struct fabric_settings s = {0};
    s.listen_count = address_look_up(host, s.listen_at, FABRIC_LISTEN_MAX);
    cr_assert_eq(s.listen_count, host[0] != '\0');
    survey_listen(&s, out);
}

Test(verbs_choice, wildcards_and_loopback_name_no_gid) {
    struct listen_gids out;
    const char *const hosts[] = {"", "0.0.0.0", "::", "127.0.0.1", "127.1.2.3", "::1"};
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        gids_of(hosts[i], &out);
        cr_assert_eq(out.count, 0, "%s", hosts[i]);
    }
    gids_of("10.77.0.1", &out);
    cr_assert_eq(out.count, 1);
    cr_assert_arr_eq(out.raw[0], "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x4d\0\x01", 16);
    gids_of("2001:db8::7", &out);
    cr_assert_eq(out.count, 1);
    cr_assert_eq(out.raw[0][15], 7);
}

Test(verbs_choice, equals_are_chosen_in_the_order_of_names_numbers_and_indices) {
    fresh();
    struct device_list *list = machine();
    add_gid(add_roce(list, "mlx5_10", "eth2"), "RoCE v2", "192.0.2.10");
    struct device_port *p = add_roce(list, "mlx5_2", "eth1");
    add_gid(p, "RoCE v2", "192.0.2.2");
    add_gid(p, "RoCE v2", "192.0.2.3");
    expect_choice(list, "mlx5_2/1/0");
    assert_says(list->devices[0].ports[0].gids[1].why, "as good as index 0, which comes first");
    device_list_free(list);
}

Test(verbs_choice, ipv4_goes_before_ipv6_so_that_all_machines_choose_alike) {
    fresh();
    struct device_list *list = roce_with("rxe0", "eth0", "2001:db8::1", "192.0.2.1");
    expect_choice(list, "rxe0/1/1");
    device_list_free(list);
}

Test(verbs_choice, link_local_alone_is_better_than_nothing) {
    fresh();
    struct device_list *list = machine();
    add_gid(add_roce(list, "rxe0", "eth0"), "RoCE v2", "fe80::1");
    expect_choice(list, "rxe0/1/0");
    assert_says(list->devices[0].ports[0].gids[0].why, "link-local");
    device_list_free(list);
}

Test(verbs_choice, a_link_local_gid_of_a_first_device_loses_to_a_routable_one_of_a_later) {
    fresh();
    struct device_list *list = machine();
    add_gid(add_roce(list, "rxe0", "eth0"), "RoCE v2", "169.254.3.4");
    add_gid(add_roce(list, "rxe1", "eth1"), "RoCE v2", "192.0.2.1");
    expect_choice(list, "rxe1/1/0");
    device_list_free(list);
}

Test(verbs_choice, a_gid_whose_address_no_interface_has_is_not_chosen) {
    fresh();
    struct device_list *list = machine();
    struct device_port *p = add_roce(list, "rxe0", "va");
    add_gid(p, "RoCE v2", "fe80::1");
    p->gids[0].unassigned = true;
    expect_choice(list, "none");
    assert_says(list->devices[0].ports[0].gids[0].why, "no interface has this address");
    assert_says(list->why.text, "no usable GID");
    assert_says(list->why.text, "ip addr add ADDRESS/LENGTH dev va");
    device_list_free(list);
}

Test(verbs_choice, infiniband_takes_its_first_gid) {
    fresh();
    struct device_list *list = machine();
    struct device_port *p = add_port(add_device(list, "mlx5_0"), "InfiniBand", "ACTIVE", "");
    add_gid(p, "IB", "fe80::1");
    add_gid(p, "IB", "2001:db8::1");
    expect_choice(list, "mlx5_0/1/0");
    device_list_free(list);
}

Test(verbs_choice, a_gid_that_verbs_cannot_name_is_not_chosen) {
    fresh();
    struct device_list *list = roce_with("mlx5_0", "eth0", "fe80::1", "192.0.2.1");
    list->devices[0].ports[0].gids[1].index = 300;
    expect_choice(list, "mlx5_0/1/0");
    assert_says(list->devices[0].ports[0].gids[1].why, "only the first 256");
    device_list_free(list);
}

/* ---- what is configured -------------------------------------------------------------------- */

static struct device_list *two_devices(void) {
    struct device_list *list = machine();
    add_usual(add_roce(list, "mlx5_0", "eth0"), "fe80::1", "192.0.2.1");
    struct device_port *p = add_roce(list, "mlx5_1", "eth1");
    add_usual(p, "fe80::2", "192.0.2.2");
    p = add_port(&list->devices[1], "Ethernet", "ACTIVE", "eth2");
    add_usual(p, "fe80::3", "192.0.2.3");
    return list;
}

Test(verbs_choice, what_is_configured_is_taken) {
    const struct {
        const char *device, *gid, *chosen;
        unsigned port;
    } cases[] = {
        {"mlx5_1", "", "mlx5_1/1/3", 0},
        {"mlx5_1", "", "mlx5_1/2/3", 2},
        {"", "0", "mlx5_0/1/0", 0},
        {"mlx5_1", "1", "mlx5_1/2/1", 2},
        {"", "192.0.2.3", "mlx5_1/2/3", 0},
        {"", "::ffff:192.0.2.2", "mlx5_1/1/3", 0},
        {"", "fe80::2", "mlx5_1/1/1", 0},
        {"", "fe80:0000:0000:0000:0000:0000:0000:0003", "mlx5_1/2/1", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fresh();
        snprintf(settings.device, sizeof(settings.device), "%s", cases[i].device);
        snprintf(settings.gid, sizeof(settings.gid), "%s", cases[i].gid);
        settings.port = cases[i].port;
        struct device_list *list = two_devices();
        devices_choose(list, &wish);
        cr_assert_str_eq(chosen(list), cases[i].chosen, "case %zu: %s, %s", i, chosen(list),
                         list->why.text);
        device_list_free(list);
    }
}

Test(verbs_choice, what_is_configured_and_not_there_is_told_with_what_is) {
    const struct {
        const char *device, *gid;
        unsigned port;
        const char *says[2];
    } cases[] = {
        {"mlx4_0", "", 0, {"verbs.device is mlx4_0", "mlx5_0, mlx5_1"}},
        {"mlx5_0", "", 2, {"mlx5_0", "it has 1 port and verbs.port is 2"}},
        {"mlx5_0", "10.0.0.9", 0, {"no GID \"10.0.0.9\" (verbs.gid)", "192.0.2.1"}},
        {"mlx5_0", "17", 0, {"no GID \"17\"", "fe80::1"}},
        {"mlx5_0", "eth0", 0, {"verbs.gid is \"eth0\"", "neither an index nor an address"}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fresh();
        snprintf(settings.device, sizeof(settings.device), "%s", cases[i].device);
        snprintf(settings.gid, sizeof(settings.gid), "%s", cases[i].gid);
        settings.port = cases[i].port;
        struct device_list *list = two_devices();
        devices_choose(list, &wish);
        cr_assert_eq(list->chosen, -1, "case %zu", i);
        cr_assert_eq(list->why.code, RDMAD_E_FABRIC);
        assert_says(list->why.text, cases[i].says[0]);
        assert_says(list->why.text, cases[i].says[1]);
        device_list_free(list);
    }
}

/* ---- nothing that could be used ------------------------------------------------------------ */

Test(verbs_choice, a_port_that_is_down_is_told_with_the_next_step) {
    fresh();
    struct device_list *list = machine();
    add_usual(add_port(add_device(list, "rxe0"), "Ethernet", "DOWN", "eth7"), "fe80::1",
              "192.0.2.1");
    expect_choice(list, "none");
    cr_assert_eq(list->why.code, RDMAD_E_FABRIC);
    assert_says(list->why.text, "port 1 is DOWN");
    assert_says(list->why.text, "ip link set eth7 up");
    assert_says(list->devices[0].ports[0].gids[3].why, "its port cannot be used");
    device_list_free(list);
}

Test(verbs_choice, an_infiniband_port_without_a_subnet_manager_is_told) {
    fresh();
    struct device_list *list = machine();
    add_gid(add_port(add_device(list, "mlx5_0"), "InfiniBand", "INIT", ""), "IB", "fe80::1");
    devices_choose(list, &wish);
    assert_says(list->why.text, "opensm");
    device_list_free(list);
}

Test(verbs_choice, a_port_without_a_gid_is_told_with_the_next_step) {
    fresh();
    struct device_list *list = machine();
    add_roce(list, "rxe0", "eth0");
    devices_choose(list, &wish);
    assert_says(list->why.text, "ip addr add ADDRESS/LENGTH dev eth0");
    device_list_free(list);
}

Test(verbs_choice, a_device_that_is_out_stays_out_with_its_reason) {
    fresh();
    struct device_list *list = machine();
    add_usual(add_roce(list, "mlx5_0", "eth0"), "fe80::1", "192.0.2.1");
    snprintf(list->devices[0].why, DEVICE_WHY, "no permission on /dev/infiniband/uverbs0");
    add_gid(add_roce(list, "mlx5_1", "eth1"), "RoCE v2", "fe80::2");
    expect_choice(list, "mlx5_1/1/0");
    assert_says(list->devices[0].why, "no permission");
    assert_says(list->devices[0].ports[0].gids[3].why, "its device cannot be used");
    device_list_free(list);
}

Test(verbs_choice, of_several_useless_devices_each_is_told) {
    fresh();
    struct device_list *list = machine();
    add_roce(list, "mlx5_0", "eth0");
    add_port(add_device(list, "mlx5_1"), "Ethernet", "DOWN", "eth1");
    devices_choose(list, &wish);
    assert_says(list->why.text, "none of 2 RDMA devices");
    assert_says(list->why.text, "mlx5_0: port 1 has no usable GID");
    assert_says(list->why.text, "mlx5_1: port 1 is DOWN");
    device_list_free(list);
}

Test(verbs_choice, iwarp_needs_rdma_cm) {
    for (int cm = 0; cm <= 1; cm++) {
        fresh();
        settings.cm = cm;
        struct device_list *list = machine();
        struct device_view *d = add_device(list, "siw0");
        snprintf(d->transport, sizeof(d->transport), "iWARP");
        add_gid(add_port(d, "Ethernet", "ACTIVE", "eth0"), "IB", "fe80::1");
        devices_choose(list, &wish);
        cr_assert_str_eq(chosen(list), cm ? "siw0/1/0" : "none");
        if (!cm)
            assert_says(list->why.text, "verbs.connect to \"cm\"");
        device_list_free(list);
    }
}

Test(verbs_choice, a_machine_without_devices_is_told_what_to_load) {
    struct fabric_settings all = {.listen_host = "127.0.0.1"};
    struct device_list *list;
    struct error err = {0};
    cr_assert_eq(devices_survey(&all, NULL, &list, &err), 0, "%s", err.text);
    if (list->count == 0) { /* else this machine has one, and the other tests are its */
        cr_assert_eq(list->chosen, -1);
        cr_assert_eq(list->why.code, RDMAD_E_FABRIC);
        assert_says(list->why.text, "modprobe rdma_rxe");
        struct fabric_host *h;
        cr_assert_eq(host_open(&all, &h, &err), RDMAD_E_FABRIC);
        cr_assert_str_eq(err.text, list->why.text);
    }
    device_list_free(list);
}

/* It is asked for by `rdmactl device show` on a registration thread, where others wait. */
Test(verbs_choice, a_survey_while_running_asks_no_resolver) {
    struct fabric_settings all = {.listen_host = "a.name.example"};
    struct device_list *list;
    struct error err = {0};
    looked_up = 0;
    cr_assert_eq(devices_survey(&all, NULL, &list, &err), 0, "%s", err.text);
    cr_assert_eq(looked_up, 0, "a nameserver that does not answer holds it up");
    device_list_free(list);
}

/* ---- limits -------------------------------------------------------------------------------- */

static const struct ibv_device_attr ample = {
    .max_qp = 1000,
    .max_qp_wr = 1000,
    .max_sge = 30,
    .max_cq = 1000,
    .max_cqe = 1000,
    .max_mr = 1000,
    .max_pd = 1000,
    .max_qp_rd_atom = 16,
    .max_qp_init_rd_atom = 16,
};

Test(verbs_choice, a_limit_under_what_anything_takes_is_named_with_both_numbers) {
    fresh();
    char why[DEVICE_WHY] = "";
    struct ibv_device_attr a = ample;
    cr_assert(limits_suffice(&a, &settings, why), "%s", why);
    a.max_qp_wr = 8;
    cr_assert_not(limits_suffice(&a, &settings, why));
    assert_says(why, "max_qp_wr is 8");
    assert_says(why, "takes 16");
    a = ample;
    a.max_qp = 12;
    settings.lanes = 8;
    cr_assert_not(limits_suffice(&a, &settings, why));
    assert_says(why, "max_qp is 12");
    assert_says(why, "lower verbs.lanes");
    a = ample;
    a.max_cqe = 10;
    settings.lanes = 1;
    cr_assert_not(limits_suffice(&a, &settings, why));
    assert_says(why, "max_cqe is 10");
    a = ample;
    a.max_sge = 0;
    cr_assert_not(limits_suffice(&a, &settings, why));
    assert_says(why, "max_sge is 0");
}

Test(verbs_choice, settings_are_lowered_to_what_the_device_can_and_never_raised) {
    fresh();
    struct ibv_port_attr port = {.active_mtu = IBV_MTU_1024, .max_msg_sz = 1 << 20};
    settings = (struct verbs_settings){.queue_depth = 2000,
                                       .signal_every = 1500,
                                       .rd_atomic = 200,
                                       .dest_rd_atomic = 16,
                                       .max_message = 1 << 30,
                                       .mtu = 4096};
    struct ibv_device_attr a = ample;
    a.max_cqe = 700;
    unsigned lowered = limits_lower(&a, &port, &settings);
    cr_assert_eq(lowered,
                 LOWERED_QUEUE_DEPTH | LOWERED_RD_ATOMIC | LOWERED_MAX_MESSAGE | LOWERED_MTU);
    cr_assert_eq(settings.queue_depth, 700);
    cr_assert_eq(settings.signal_every, 700);
    cr_assert_eq(settings.rd_atomic, 16);
    cr_assert_eq(settings.dest_rd_atomic, 16);
    cr_assert_eq(settings.max_message, 1 << 20);
    cr_assert_eq(limits_lower(&a, &port, &settings) & ~(unsigned)LOWERED_MTU, 0);
}

Test(verbs_choice, the_mtu_is_the_largest_that_port_and_settings_allow) {
    const struct {
        enum ibv_mtu active;
        uint32_t asked;
        enum ibv_mtu got;
    } cases[] = {{IBV_MTU_4096, 0, IBV_MTU_4096},
                 {IBV_MTU_4096, 1024, IBV_MTU_1024},
                 {IBV_MTU_1024, 4096, IBV_MTU_1024},
                 {IBV_MTU_4096, 1500, IBV_MTU_1024},
                 {IBV_MTU_4096, 100, IBV_MTU_256}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ibv_port_attr port = {.active_mtu = cases[i].active};
        settings.mtu = cases[i].asked;
        cr_assert_eq(limits_mtu(&port, &settings), cases[i].got, "case %zu", i);
    }
}

/* ---- events -------------------------------------------------------------------------------- */

Test(verbs_choice, every_event_of_the_interface_has_its_rule) {
    for (int type = IBV_EVENT_CQ_ERR; type <= IBV_EVENT_WQ_FATAL; type++)
        cr_assert_str_neq(event_rule((enum ibv_event_type)type)->name, "unknown", "event %d", type);
    cr_assert_str_eq(event_rule((enum ibv_event_type)1000)->name, "unknown");
    cr_assert_eq(event_rule(IBV_EVENT_DEVICE_FATAL)->kind, EVENT_DEVICE);
    cr_assert_eq(event_rule(IBV_EVENT_CQ_ERR)->kind, EVENT_DEVICE);
    cr_assert_eq(event_rule(IBV_EVENT_PORT_ERR)->kind, EVENT_PORT);
    cr_assert_eq(event_rule(IBV_EVENT_GID_CHANGE)->kind, EVENT_PORT);
    cr_assert_eq(event_rule(IBV_EVENT_CLIENT_REREGISTER)->kind, EVENT_PORT);
    cr_assert_eq(event_rule(IBV_EVENT_PATH_MIG)->kind, EVENT_QP);
    cr_assert_eq(event_rule(IBV_EVENT_QP_FATAL)->kind, EVENT_QP);
}
