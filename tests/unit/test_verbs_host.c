/* SPDX-License-Identifier: MIT */
/*
 * The host on real devices, in the guest: which it takes, what the self-test sees, how it follows a
 * port that changes, and how it lets go of a device that is deleted and takes it up again.
 *
 * The device under test is rxe0 over va, as tests/vm makes it. Each case leaves things as it found
 * them.
 */
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/keeper.h"
#include "tests/support/runner.h"
#include <linux/capability.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEVICE "rxe0"
#define NETDEV "va"
#define ADDRESS "10.77.0.1"
#define MIB ((uint64_t)1 << 20)

/* ---- a member, on this thread -------------------------------------------------------------- */

struct member {
    struct host_member m;
    struct device *device;
    struct port_now port;
    struct ibv_cq *cq; /* so that it has something of the device */
    struct ibv_qp *qp;
    bool lazy; /* lets go only when told to */
    unsigned came, changed, going, qp_events;
    uint32_t event_qp;
    enum ibv_event_type event;
    struct error why;
};

static struct fabric_settings settings;
static struct fabric_host *host;
static struct member member;

static uint64_t now_ms(void) {
    return clock_now_ns() / NSEC_PER_MSEC;
}

static void take_up(struct member *t, struct device *d, const struct port_now *port) {
    t->device = d;
    t->port = *port;
    t->cq = ibv_create_cq(d->context, 16, NULL, NULL, 0);
    CHECK(t->cq, "no CQ");
    struct ibv_qp_init_attr init = {
        .send_cq = t->cq,
        .recv_cq = t->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    t->qp = ibv_create_qp(d->pd, &init);
    CHECK(t->qp, "no QP");
}

static void put_down(struct member *t) {
    CHECK(ibv_destroy_qp(t->qp) == 0 && ibv_destroy_cq(t->cq) == 0, "what we have does not go");
    t->device = NULL;
    t->cq = NULL;
    t->qp = NULL;
    host_let_go(&t->m);
}

#define member_of(m) container_of(m, struct member, m)

static void device_came(struct host_member *m, struct device *d, const struct port_now *port) {
    struct member *t = member_of(m);
    CHECK(!t->device, "a device comes while we have one");
    CHECK(port->usable, "it comes with a port that cannot be used");
    t->came++;
    take_up(t, d, port);
}

static void port_changed(struct host_member *m, const struct port_now *port) {
    member_of(m)->changed++;
    member_of(m)->port = *port;
}

static void qp_event(struct host_member *m, uint32_t qp_num, enum ibv_event_type event) {
    struct member *t = member_of(m);
    t->qp_events++;
    t->event_qp = qp_num;
    t->event = event;
}

static void device_going(struct host_member *m, const struct error *why) {
    struct member *t = member_of(m);
    CHECK(t->device, "a device goes that we do not have");
    t->going++;
    t->why = *why;
    if (!t->lazy)
        put_down(t);
}

static void join(struct member *t) {
    struct error err;
    struct device *d;
    struct port_now port;
    memset(t, 0, sizeof(*t));
    CHECK(mailbox_init(&t->m.mailbox) == 0, "no mailbox");
    t->m.device_came = device_came;
    t->m.port_changed = port_changed;
    t->m.qp_event = qp_event;
    t->m.device_going = device_going;
    CHECK(host_join(host, &t->m, &d, &port, &err) == 0, "%s", err.text);
    if (d)
        take_up(t, d, &port);
}

static void leave(struct member *t) {
    if (t->device)
        put_down(t);
    host_leave(&t->m);
    mailbox_fini(&t->m.mailbox);
}

/* Runs the member until a condition holds. */
#define UNTIL(t, condition)                                                           \
    do {                                                                              \
        uint64_t until_ms_ = now_ms() + 5000u * test_patience();                      \
        while (!(condition)) {                                                        \
            CHECK(now_ms() < until_ms_, "does not come: " #condition);                \
            poll(&(struct pollfd){.fd = (t)->m.mailbox.fd, .events = POLLIN}, 1, 50); \
            mailbox_drain(&(t)->m.mailbox);                                           \
        }                                                                             \
    } while (0)

/* ---- the machine --------------------------------------------------------------------------- */

static void __attribute__((format(printf, 1, 2))) sh(const char *format, ...) {
    char command[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(command, sizeof(command), format, ap);
    va_end(ap);
    int status = system(command);
    CHECK(status == 0, "\"%s\" fails: %d", command, status);
}

/* A count that `rdma resource show` has of the device. */
static unsigned long resource(const char *what) {
    char line[512] = "", word[16];
    FILE *f = popen("rdma resource show " DEVICE, "re");
    CHECK(f && fgets(line, sizeof(line), f), "no rdma resource show");
    pclose(f);
    snprintf(word, sizeof(word), " %s ", what);
    const char *at = strstr(line, word);
    CHECK(at, "no \"%s\" in \"%s\"", what, line);
    return strtoul(at + strlen(word), NULL, 10);
}

static struct verbs_settings usual(void) {
    return (struct verbs_settings){.device = DEVICE,
                                   .lanes = 1,
                                   .queue_depth = 256,
                                   .inline_bytes = 64,
                                   .max_message = MIB,
                                   .signal_every = 16,
                                   .hop_limit = 64,
                                   .timeout = 14,
                                   .retry_count = 6,
                                   .rnr_retry = 6,
                                   .min_rnr_timer = 12,
                                   .rd_atomic = 16,
                                   .dest_rd_atomic = 16};
}

static void start(void) {
    struct error err;
    CHECK(host_open(&settings, &host, &err) == 0, "%s", err.text);
    join(&member);
    CHECK(member.device, "no device");
}

static void open_usual(void) {
    log_init(LOG_NOTICE, 1);
    snprintf(settings.listen_host, sizeof(settings.listen_host), "127.0.0.1");
    settings.verbs = usual();
    start();
}

static void finish(void) {
    leave(&member);
    host_close(host);
}

static struct fabric_memory *add(void *base, uint64_t bytes) {
    struct fabric_memory *m;
    struct error err;
    CHECK(memory_add(host, base, bytes, &m, &err) == 0, "%s", err.text);
    return m;
}

static void *map(uint64_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED, "no memory");
    return p;
}

static bool is_ipv4(const union ibv_gid *gid) {
    return gid->raw[10] == 0xff && gid->raw[12] == 10;
}

/* ---- what is taken, and what the self-test sees -------------------------------------------- */

static void soft_roce_gets_registrations_because_its_windows_do_not_hold(void) {
    struct device_list *list;
    struct error err;
    open_usual();
    CHECK(strcmp(host_protection(host), "registrations") == 0, "%s", host_protection(host));
    CHECK(!member.device->windows, "windows");
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
    struct verdict v;
    open_usual();
    unsigned long before = resource("qp") + resource("mr") + resource("pd") + resource("cq");
    for (unsigned i = 0; i < 20; i++) {
        uint64_t start_ms = now_ms();
        selftest(member.device, &member.port, &v);
        CHECK(now_ms() - start_ms < 1000u * test_patience(), "%lu ms",
              (unsigned long)(now_ms() - start_ms));
        CHECK(v.late || (v.ran && v.registrations), "round %u: %s", i, v.says);
        CHECK(!v.windows, "round %u: %s", i, v.says);
    }
    unsigned long after = resource("qp") + resource("mr") + resource("pd") + resource("cq");
    CHECK(before == after, "%lu objects before, %lu after", before, after);
    sh("ip link set " NETDEV " down");
    uint64_t start_ms = now_ms();
    selftest(member.device, &member.port, &v);
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
    CHECK(member.device->windows, "no windows");
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
    settings.verbs.max_message = 64 * MIB;
    settings.verbs.inline_bytes = 60000;
    settings.verbs.rd_atomic = 255;
    settings.verbs.queue_depth = 1000000;
    start();
    const struct device *d = member.device;
    CHECK(d->settings.max_message == 8 * MIB && d->max_message == 8 * MIB, "max_message");
    CHECK(d->settings.inline_bytes >= 64 && d->settings.inline_bytes < 60000, "inline %u",
          d->settings.inline_bytes);
    CHECK(d->settings.rd_atomic == d->attr.orig_attr.max_qp_init_rd_atom, "rd_atomic");
    CHECK(d->settings.queue_depth <= (uint32_t)d->attr.orig_attr.max_cqe, "queue_depth");
    CHECK(host_settings(host)->queue_depth == 1000000, "what is configured was changed");
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

/* ---- the device goes and comes ------------------------------------------------------------- */

static void delete_device(void) {
    sh("timeout 20 rdma link delete " DEVICE);
}

static void add_device(void) {
    sh("rdma link add " DEVICE " type rxe netdev " NETDEV);
}

/* Deletes the device beside us, who let go; returns how long that took. */
static uint64_t delete_beside(void) {
    uint64_t start_ms = now_ms();
    FILE *f = popen("timeout 20 rdma link delete " DEVICE, "re");
    CHECK(f, "popen");
    unsigned going = member.going;
    UNTIL(&member, member.going > going && !member.device);
    int status = pclose(f);
    CHECK(status == 0, "rdma link delete: %d", status);
    return now_ms() - start_ms;
}

static void a_device_that_is_deleted_is_let_go_of_and_adopted_again(void) {
    open_usual();
    struct fabric_memory *small = add(map(MIB), MIB), *large = add(map(64 * MIB), 64 * MIB);
    uint64_t longest = 0;
    for (unsigned i = 0; i < test_count(20); i++) {
        uint64_t took = delete_beside();
        struct error why;
        longest = took > longest ? took : longest;
        CHECK(took < 2000u * test_patience(), "deleting took %lu ms", (unsigned long)took);
        CHECK(strstr(member.why.text, DEVICE " was taken away"), "%s", member.why.text);
        CHECK(strcmp(host_protection(host), "") == 0, "%s", host_protection(host));
        host_why(host, &why);
        CHECK(why.code != 0 && *why.text, "it does not say why there is none");
        struct fabric_memory *late = add(map(MIB), MIB); /* while there is no device */
        CHECK(!memory_mr(late, NULL), "registered on what?");
        unsigned came = member.came;
        add_device();
        UNTIL(&member, member.came > came);
        struct fabric_memory *const all[] = {small, large, late};
        for (unsigned k = 0; k < 3; k++) {
            const struct ibv_mr *mr = memory_mr(all[k], member.device);
            CHECK(mr && mr->pd == member.device->pd, "pool %u is not registered again", k);
        }
        CHECK(resource("mr") == 3, "%lu MRs", resource("mr"));
        memory_remove(late);
    }
    printf("rdma link delete took at most %lu ms\n", (unsigned long)longest);
    memory_remove(small);
    memory_remove(large);
    finish();
    CHECK(resource("mr") == 0 && resource("cq") == 1 && resource("pd") == 1,
          "something is left behind");
}

static void a_device_is_not_closed_before_the_last_member_let_go(void) {
    static struct member late;
    open_usual();
    join(&late);
    late.lazy = true;
    FILE *f = popen("timeout 20 rdma link delete " DEVICE, "re");
    CHECK(f, "popen");
    UNTIL(&member, member.going == 1);
    UNTIL(&late, late.going == 1);
    usleep(300000);
    struct ibv_device_attr attr;
    CHECK(ibv_query_device(late.device->context, &attr) == 0, "the device is gone under us");
    static struct member later; /* who comes now gets none */
    join(&later);
    CHECK(!later.device, "a device that goes is given out");
    put_down(&late);
    CHECK(pclose(f) == 0, "rdma link delete");
    add_device();
    UNTIL(&member, member.came == 1);
    UNTIL(&late, late.came == 1);
    UNTIL(&later, later.came == 1);
    leave(&late);
    leave(&later);
    finish();
}

static void a_member_may_leave_while_the_device_goes(void) {
    static struct member late;
    open_usual();
    join(&late);
    FILE *f = popen("timeout 20 rdma link delete " DEVICE, "re");
    CHECK(f, "popen");
    UNTIL(&member, member.going == 1);
    leave(&late); /* it has not heard of it */
    CHECK(pclose(f) == 0, "rdma link delete");
    add_device();
    UNTIL(&member, member.came == 1);
    finish();
}

static void a_host_can_be_closed_while_there_is_no_device(void) {
    open_usual();
    struct fabric_memory *m = add(map(MIB), MIB);
    delete_beside();
    memory_remove(m);
    finish();
    add_device();
}

static void a_device_that_a_member_finds_broken_is_opened_again(void) {
    open_usual();
    struct fabric_memory *m = add(map(MIB), MIB);
    for (unsigned i = 0; i < 3; i++) {
        struct error why;
        unsigned came = member.came, going = member.going;
        error_set(&why, RDMAD_E_PEER_LOST, "a test says that " DEVICE " is broken");
        const struct device *d = member.device;
        host_device_failed(host, d, &why);
        host_device_failed(host, d, &why); /* as several members will */
        UNTIL(&member, member.going > going);
        CHECK(strcmp(member.why.text, why.text) == 0, "%s", member.why.text);
        host_device_failed(host, d, &why); /* and too late */
        UNTIL(&member, member.came > came);
        CHECK(member.going == going + 1, "it went twice");
        CHECK(memory_mr(m, member.device), "not registered again");
    }
    memory_remove(m);
    finish();
}

static volatile bool churning;

static void *churn(void *arg) {
    void *p = map(8 * MIB);
    unsigned long *count = arg;
    while (churning) {
        struct fabric_memory *m = add(p, 8 * MIB);
        memory_remove(m);
        (*count)++;
        usleep(1000);
    }
    return NULL;
}

static void pools_that_come_and_go_do_not_mind_devices_that_do(void) {
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    unsigned long counts[THREADS] = {0}, sum = 0;
    open_usual();
    churning = true;
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, churn, &counts[i]) == 0, "no thread");
    for (unsigned i = 0; i < test_count(20) + 2; i++) {
        CHECK(delete_beside() < 3000u * test_patience(), "deleting takes too long");
        unsigned came = member.came;
        add_device();
        UNTIL(&member, member.came > came);
        usleep(50000);
    }
    churning = false;
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += counts[i];
    }
    printf("%lu pools came and went\n", sum);
    CHECK(resource("mr") == 0, "%lu MRs are left", resource("mr"));
    finish();
}

static void without_a_configured_name_another_device_takes_over(void) {
    settings.verbs = usual();
    settings.verbs.device[0] = '\0';
    start();
    CHECK(strcmp(member.device->name, DEVICE) == 0, "%s", member.device->name);
    delete_beside();
    UNTIL(&member, member.came == 1);
    CHECK(strcmp(member.device->name, "rxe1") == 0, "%s", member.device->name);
    add_device();
    finish();
}

static void deleted_while_the_port_is_down_it_goes_too(void) {
    open_usual();
    sh("ip link set " NETDEV " down");
    UNTIL(&member, !member.port.usable);
    delete_beside();
    add_device(); /* its port is down still */
    usleep(300000);
    mailbox_drain(&member.m.mailbox);
    CHECK(member.came == 0, "a device with a dead port was adopted");
    sh("ip link set " NETDEV " up");
    UNTIL(&member, member.came == 1);
    finish();
    delete_device();
    add_device();
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
          CASE(an_event_of_a_qp_is_told_to_the_members),
          CASE(a_device_that_is_deleted_is_let_go_of_and_adopted_again),
          CASE(a_device_is_not_closed_before_the_last_member_let_go),
          CASE(a_member_may_leave_while_the_device_goes),
          CASE(a_host_can_be_closed_while_there_is_no_device),
          CASE(a_device_that_a_member_finds_broken_is_opened_again),
          CASE(pools_that_come_and_go_do_not_mind_devices_that_do),
          CASE(without_a_configured_name_another_device_takes_over),
          CASE(deleted_while_the_port_is_down_it_goes_too))
