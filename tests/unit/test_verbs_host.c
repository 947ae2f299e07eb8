/* SPDX-License-Identifier: MIT */
/*
 * The host on real devices, in the guest: which it takes, what the self-test sees, pools, and how
 * it follows a port that changes. Each case leaves things as it found them.
 */
#include "daemon/base/address.h"
#include "tests/unit/verbs_member.h"
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_ipv4(const union ibv_gid *gid) {
    return gid->raw[10] == 0xff && gid->raw[12] == 10;
}

/* ---- what is taken, and what the self-test sees -------------------------------------------- */

static void soft_roce_gets_registrations_because_its_windows_do_not_hold(void) {
    struct device_list *list;
    struct error err;
    open_usual();
    CHECK(strcmp(host_protection(host), "registrations") == 0, "%s", host_protection(host));
    CHECK(!member.device->memory_windows, "windows");
    CHECK(devices_survey(&settings, host, &list, &err) == 0, "%s", err.text);
    CHECK(list->chosen >= 0, "%s", list->why.text);
    const struct device_view *d = &list->devices[list->chosen];
    CHECK(d->in_use && strcmp(d->name, DEVICE) == 0, "%s is not in use", d->name);
    CHECK(strcmp(d->windows, "registrations") == 0, "%s", d->windows);
    CHECK(strstr(d->self_test, "a window let a write past its end land"), "%s", d->self_test);
    CHECK(strstr(d->self_test, "registrations refused all that they should"), "%s", d->self_test);
    CHECK(d->fact_count > 80, "%zu facts", d->fact_count);
    for (size_t i = 0; i < list->count; i++)
        CHECK(list->devices[i].in_use == (&list->devices[i] == d), "another is in use");
    device_list_free(list);
    finish();
}

static void the_self_test_ends_within_a_second_and_leaves_nothing(void) {
    struct selftest_result v;
    open_usual();
    unsigned long before = resource("qp") + resource("mr") + resource("pd") + resource("cq");
    for (unsigned i = 0; i < 20; i++) {
        uint64_t start_ms = now_ms();
        selftest_run(member.device, &member.port, &v);
        CHECK(now_ms() - start_ms < 1000u * test_patience(), "%lu ms",
              (unsigned long)(now_ms() - start_ms));
        CHECK(v.late || (v.ran && v.registrations), "round %u: %s", i, v.says);
        CHECK(!v.windows, "round %u: %s", i, v.says);
    }
    unsigned long after = resource("qp") + resource("mr") + resource("pd") + resource("cq");
    CHECK(before == after, "%lu objects before, %lu after", before, after);
    sh("ip link set " NETDEV " down");
    uint64_t start_ms = now_ms();
    selftest_run(member.device, &member.port, &v);
    CHECK(now_ms() - start_ms < 1000u * test_patience(), "%lu ms on a dead port",
          (unsigned long)(now_ms() - start_ms));
    CHECK(!v.windows, "windows that nobody tried");
    printf("on a dead port: %s\n", v.says);
    sh("ip link set " NETDEV " up");
    finish();
}

static void windows_are_taken_when_forced(void) {
    settings.verbs = usual();
    settings.verbs.windows = WINDOWS_FORCED;
    start();
    CHECK(member.device->memory_windows, "no windows");
    CHECK(strcmp(host_protection(host), "windows") == 0, "%s", host_protection(host));
    void *p = map(MIB);
    struct fabric_memory *m = add(p, MIB); /* with the right to bind */
    struct ibv_mw *mw = ibv_alloc_mw(member.device->pd, IBV_MW_TYPE_2);
    CHECK(mw && ibv_dealloc_mw(mw) == 0, "no window");
    memory_remove(m);
    finish();
}

static void the_listen_address_chooses_the_device(void) {
    settings.verbs = usual();
    settings.verbs.device[0] = '\0';
    snprintf(settings.listen_host, sizeof(settings.listen_host), "10.77.0.2");
    settings.listen_count =
        address_look_up(settings.listen_host, settings.listen_at, FABRIC_LISTEN_MAX);
    start();
    CHECK(strcmp(member.device->name, "rxe1") == 0, "%s", member.device->name);
    finish();
}

static void expect_no_start(const char *first, const char *second) {
    struct error err;
    struct fabric_host *h;
    CHECK(host_open(&settings, &h, &err) == RDMAD_E_FABRIC, "it starts");
    CHECK(strstr(err.text, first) && strstr(err.text, second), "%s", err.text);
}

static void a_start_without_a_usable_device_says_what_is_missing(void) {
    settings.verbs = usual();
    snprintf(settings.verbs.device, sizeof(settings.verbs.device), "mlx5_0");
    expect_no_start("verbs.device is mlx5_0", "rxe0, rxe1");
    settings.verbs = usual();
    snprintf(settings.verbs.gid, sizeof(settings.verbs.gid), "10.1.2.3");
    expect_no_start("no GID \"10.1.2.3\"", ADDRESS);
    settings.verbs = usual();
    settings.verbs.pkey_index = 9;
    expect_no_start("verbs.pkey_index is 9", "1 P_Keys");
    settings.verbs = usual();
    sh("ip link set " NETDEV " down");
    expect_no_start("port 1 is DOWN", "ip link set " NETDEV " up");
    sh("ip link set " NETDEV " up");
}

static void no_permission_is_told_with_path_mode_and_who_we_are(void) {
    settings.verbs = usual();
    settings.verbs.device[0] = '\0';
    sh("chmod 600 /dev/infiniband/uverbs*");
    CHECK(seteuid(1234) == 0, "seteuid");
    expect_no_start("no permission on /dev/infiniband/uverbs0 (mode 0600", "uid 1234");
    CHECK(seteuid(0) == 0, "seteuid");
    sh("chmod 666 /dev/infiniband/uverbs*");
}

static void settings_are_lowered_to_what_the_device_can(void) {
    log_init(LOG_NOTICE, 1);
    settings.verbs = usual();
    settings.verbs.max_message = UINT64_C(1) << 40;
    settings.verbs.inline_bytes = 60000;
    settings.verbs.rd_atomic = 255;
    settings.verbs.queue_depth = 1000000;
    start();
    const struct device *d = member.device;
    struct ibv_port_attr port;
    CHECK(ibv_query_port(d->context, 1, &port) == 0, "the port's limits");
    CHECK(d->settings.max_message == port.max_msg_sz && d->max_message == port.max_msg_sz,
          "max_message");
    CHECK(d->settings.inline_bytes >= 64 && d->settings.inline_bytes < 60000, "inline %u",
          d->settings.inline_bytes);
    CHECK(d->settings.rd_atomic == d->attr.orig_attr.max_qp_init_rd_atom, "rd_atomic");
    CHECK(d->settings.queue_depth <= (uint32_t)d->attr.orig_attr.max_cqe, "queue_depth");
    CHECK(settings.verbs.queue_depth == 1000000, "what is configured was changed");
    finish();
}

/* ---- memory -------------------------------------------------------------------------------- */

static void a_pool_is_registered_once_without_remote_rights(void) {
    open_usual();
    unsigned long before = resource("mr");
    void *p = map(4 * MIB);
    struct fabric_memory *m = add(p, 4 * MIB);
    struct ibv_mr *mr = memory_mr(m, member.device);
    CHECK(mr && mr->addr == p && mr->length == 4 * MIB && mr->pd == member.device->pd, "no MR");
    CHECK(!memory_mr(m, NULL), "an MR without a device");
    CHECK(resource("mr") == before + 1, "%lu MRs", resource("mr") - before);
    memory_remove(m);
    CHECK(resource("mr") == before, "%lu MRs are left", resource("mr") - before);
    finish();
}

static void too_little_lockable_memory_is_told_with_the_limit(void) {
    /* Before a device is opened: credentials must not change after. */
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2];
    CHECK(syscall(SYS_capget, &head, caps) == 0, "capget");
    caps[0].effective &= ~(1u << CAP_IPC_LOCK);
    CHECK(syscall(SYS_capset, &head, caps) == 0, "capset");
    const struct rlimit little = {256 << 10, 256 << 10};
    CHECK(setrlimit(RLIMIT_MEMLOCK, &little) == 0, "setrlimit");
    open_usual();
    struct fabric_memory *m;
    struct error err;
    CHECK(memory_add(host, map(16 * MIB), 16 * MIB, &m, &err) == RDMAD_E_NOMEM, "it is added");
    CHECK(strstr(err.text, "16777216 bytes") && strstr(err.text, "256 KiB") &&
              strstr(err.text, "LimitMEMLOCK=infinity") && strstr(err.text, "ulimit -l"),
          "%s", err.text);
    memory_remove(add(map(4096), 4096)); /* and a small one is well */
    finish();
}

/* ---- the port changes ---------------------------------------------------------------------- */

static void a_link_that_goes_down_and_up_is_told(void) {
    open_usual();
    for (unsigned i = 0; i < test_count(20); i++) {
        struct error why;
        sh("ip link set " NETDEV " down");
        UNTIL(&member, !member.port.usable);
        CHECK(strstr(member.port.why.text, "ip link set " NETDEV " up"), "%s",
              member.port.why.text);
        host_why(host, &why);
        CHECK(strstr(why.text, "DOWN"), "%s", why.text);
        sh("ip link set " NETDEV " up");
        UNTIL(&member, member.port.usable && is_ipv4(&member.port.gid));
    }
    CHECK(member.came == 0 && member.going == 0, "the device itself went");
    finish();
}

static void an_address_that_is_removed_and_added_is_followed(void) {
    open_usual();
    CHECK(is_ipv4(&member.port.gid), "not the address");
    for (unsigned i = 0; i < test_count(20); i++) {
        sh("ip addr del " ADDRESS "/24 dev " NETDEV);
        UNTIL(&member, member.port.usable && !is_ipv4(&member.port.gid));
        sh("ip addr add " ADDRESS "/24 dev " NETDEV);
        UNTIL(&member, member.port.usable && is_ipv4(&member.port.gid));
        union ibv_gid gid;
        CHECK(ibv_query_gid(member.device->context, 1, member.port.gid_index, &gid) == 0 &&
                  memcmp(&gid, &member.port.gid, sizeof(gid)) == 0,
              "the index %u is not of this GID", member.port.gid_index);
    }
    CHECK(member.changed >= 2 * test_count(20), "%u changes", member.changed);
    finish();
}

static void an_event_of_a_qp_is_told_to_the_members(void) {
    open_usual();
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_qp *qp = member.qp;
    CHECK(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
          "INIT");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = member.port.mtu,
                                .dest_qp_num = qp->qp_num,
                                .max_dest_rd_atomic = 1,
                                .ah_attr = {.is_global = 1,
                                            .port_num = 1,
                                            .grh = {.dgid = member.port.gid,
                                                    .sgid_index = member.port.gid_index,
                                                    .hop_limit = 64}}};
    CHECK(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
          "RTR");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .max_rd_atomic = 1};
    CHECK(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
          "RTS");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    int failed = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
    CHECK(failed == 0, "SQD: %s", strerror(failed));
    UNTIL(&member, member.qp_events > 0);
    CHECK(member.event_qp == qp->qp_num, "of QP %u", member.event_qp);
    CHECK(member.event == IBV_EVENT_SQ_DRAINED, "event %d", (int)member.event);
    finish(); /* and the QP can be destroyed: the event was acknowledged */
}

TEST_MAIN(CASE(soft_roce_gets_registrations_because_its_windows_do_not_hold),
          CASE(the_self_test_ends_within_a_second_and_leaves_nothing),
          CASE(windows_are_taken_when_forced), CASE(the_listen_address_chooses_the_device),
          CASE(a_start_without_a_usable_device_says_what_is_missing),
          CASE(no_permission_is_told_with_path_mode_and_who_we_are),
          CASE(settings_are_lowered_to_what_the_device_can),
          CASE(a_pool_is_registered_once_without_remote_rights),
          CASE(too_little_lockable_memory_is_told_with_the_limit),
          CASE(a_link_that_goes_down_and_up_is_told),
          CASE(an_address_that_is_removed_and_added_is_followed),
          CASE(an_event_of_a_qp_is_told_to_the_members))
