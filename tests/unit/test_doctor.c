/* SPDX-License-Identifier: MIT */
/*
 * The checks of rdmactl doctor, on machines made of little files: each finds what is wrong, says
 * how bad it is for this daemon, and what to do.
 */
#include "daemon/config/schema.h"
#include "daemon/state/limits.h"
#include "rdmactl/doctor.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct cli cli = {.dir = "/nonexistent"};

static char root[] = "/tmp/rdmad-doctor-XXXXXX";
static struct exam e;

static void set_up(void) {
    cr_assert_not_null(mkdtemp(root));
    e = (struct exam){.root = root, .check = "test", .rows = json_array()};
}

/* Takes the place of what was there. */
static void set(const json_t **to, const char *text) {
    json_decref((json_t *)*to);
    *to = json_loads(text, 0, NULL);
    cr_assert_not_null(*to, "%s", text);
}

static void tear_down(void) {
    json_decref((json_t *)e.status);
    json_decref((json_t *)e.config);
    json_decref((json_t *)e.devices);
    json_decref((json_t *)e.limits);
    json_decref(e.rows);
    char command[64];
    snprintf(command, sizeof(command), "rm -r %s", root);
    cr_assert_eq(system(command), 0);
}

TestSuite(doctor, .init = set_up, .fini = tear_down);

/* A file with its directories. */
static void put(const char *path, const char *text) {
    char whole[256], command[300];
    snprintf(whole, sizeof(whole), "%s%s", root, path);
    snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", whole);
    cr_assert_eq(system(command), 0);
    FILE *f = fopen(whole, "w");
    cr_assert(f && fputs(text, f) >= 0 && !fclose(f), "%s", whole);
}

static void make_node(const char *path, mode_t mode, uid_t uid, gid_t gid) {
    char whole[256];
    put(path, "");
    snprintf(whole, sizeof(whole), "%s%s", root, path);
    if (uid || gid)
        cr_assert_eq(chown(whole, uid, gid), 0);
    cr_assert_eq(chmod(whole, mode), 0);
}

static void daemon_says(const char *status) {
    set(&e.status, status);
}

#define VERBS                                                                               \
    "{\"fabric\":{\"name\":\"verbs\",\"rdma\":true,\"why\":\"w\"},\"process\":{\"pid\":77," \
    "\"uid\":990},\"limits\":{\"pool_bytes\":{\"used\":0,\"max\":1073741824}},"             \
    "\"congestion_control\":\"cubic\"}"
#define TCP                                                                                        \
    "{\"fabric\":{\"name\":\"tcp\",\"rdma\":false,\"why\":\"no device\"},\"process\":{\"pid\":77," \
    "\"uid\":990},\"limits\":{\"pool_bytes\":{\"used\":0,\"max\":1073741824}},"                    \
    "\"congestion_control\":\"%s\"}"

/* A Soft-RoCE device that is all right. */
static void put_rxe(void) {
    put("/sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n");
    put("/sys/class/infiniband/rxe0/ports/1/link_layer", "Ethernet\n");
    put("/sys/class/infiniband/rxe0/ports/1/gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3456\n");
    put("/sys/class/infiniband/rxe0/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a4d:0001\n");
    put("/sys/class/infiniband/rxe0/ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    put("/sys/class/infiniband/rxe0/ports/1/gid_attrs/types/0", "RoCE v2\n");
    put("/sys/class/infiniband/rxe0/ports/1/gid_attrs/types/1", "RoCE v2\n");
    put("/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0", "veth0\n");
    put("/sys/class/infiniband_verbs/abi_version", "6\n");
    put("/sys/class/infiniband_verbs/uverbs0/ibdev", "rxe0\n");
    put("/proc/77/status", "Name:\trdmad\nUid:\t990\t990\t990\t990\nGid:\t991\t991\t991\t991\n"
                           "Groups:\t991 44 \nCapEff:\t0000000000000000\n");
}

static const char *text_of(size_t row, const char *key) {
    const char *s = json_string_value(json_object_get(json_array_get(e.rows, row), key));
    return s ? s : "";
}

/* Runs the check: its last word is of this level and has these words; what is not good has a next
 * step. */
static void expect(doctor_check *run, const char *level, const char *words) {
    json_array_clear(e.rows);
    e.bad = false;
    run(&e);
    size_t n = json_array_size(e.rows);
    cr_assert_gt(n, 0);
    cr_expect_str_eq(text_of(n - 1, "result"), level, "%s", text_of(n - 1, "text"));
    cr_expect(strstr(text_of(n - 1, "text"), words), "\"%s\" does not say \"%s\"",
              text_of(n - 1, "text"), words);
    for (size_t i = 0; i < n; i++) {
        const char *result = text_of(i, "result");
        if (!strcmp(result, "bad") || !strcmp(result, "warning"))
            cr_expect(*text_of(i, "next"), "%s: nothing to do next", text_of(i, "text"));
    }
    cr_expect_eq(e.bad, !strcmp(level, "bad"));
}

Test(doctor, a_machine_without_rdma_is_fine_unless_it_is_used) {
    expect(doctor_check_devices, "note", "no RDMA device");
    cr_expect(strstr(text_of(0, "next"), "rdma link add"), "%s", text_of(0, "next"));
    expect(doctor_check_modules, "note", "no device");
    expect(doctor_check_nodes, "good", "no device nodes");
    expect(doctor_check_ports, "skipped", "no RDMA device");
    expect(doctor_check_gids, "skipped", "no RDMA device");
    daemon_says(VERBS);
    expect(doctor_check_devices, "bad", "no RDMA device");
}

Test(doctor, a_device_that_is_all_right_is_good) {
    put_rxe();
    make_node("/dev/infiniband/uverbs0", 0660, 0, 44);
    daemon_says(VERBS);
    if (geteuid())
        cr_skip_test("needs root, to give a node to a group");
    expect(doctor_check_devices, "good", "rxe0 (Ethernet)");
    expect(doctor_check_modules, "good", "loaded");
    expect(doctor_check_nodes, "good", "/dev/infiniband/uverbs0 of rxe0, mode 0660");
    expect(doctor_check_ports, "good", "rxe0 port 1 is ACTIVE");
    expect(doctor_check_gids, "good", "2 GIDs, 1 of them routable");
}

Test(doctor, a_module_that_is_missing_is_named) {
    put_rxe();
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s/sys/class/infiniband_verbs", root);
    cr_assert_eq(system(command), 0);
    expect(doctor_check_modules, "warning", "ib_uverbs is not loaded");
    cr_expect_str_eq(text_of(0, "next"), "modprobe ib_uverbs");
    daemon_says(VERBS);
    expect(doctor_check_modules, "bad", "ib_uverbs is not loaded");
}

Test(doctor, a_node_open_to_everybody_is_a_way_past_the_daemon) {
    put_rxe();
    make_node("/dev/infiniband/uverbs0", 0666, 0, 0);
    daemon_says(VERBS);
    expect(doctor_check_nodes, "warning", "mode 0666");
    cr_expect(strstr(text_of(0, "next"), "KERNEL==\"uverbs*\""), "%s", text_of(0, "next"));
}

Test(doctor, a_node_that_the_daemon_may_not_open_is_bad) {
    if (geteuid())
        cr_skip_test("needs root, to give a node to root");
    put_rxe();
    daemon_says(VERBS);
    expect(doctor_check_nodes, "bad", "is missing");
    make_node("/dev/infiniband/uverbs0", 0600, 0, 0);
    expect(doctor_check_nodes, "bad", "the daemon may not open it");
    make_node("/dev/infiniband/uverbs0", 0606, 0, 991); /* its own group is shut out */
    expect(doctor_check_nodes, "bad", "the daemon may not open it");
    make_node("/dev/infiniband/uverbs0", 0600, 990, 0);
    expect(doctor_check_nodes, "good", "mode 0600");
    make_node("/dev/infiniband/uverbs0", 0600, 0, 0);
    put("/proc/77/status", "Uid:\t990\t990\t990\t990\nGid:\t991\t991\t991\t991\n"
                           "Groups:\t\nCapEff:\t0000000000000002\n");
    expect(doctor_check_nodes, "good", "mode 0600");
}

Test(doctor, a_port_that_is_down_is_told_with_its_interface) {
    put_rxe();
    put("/sys/class/infiniband/rxe0/ports/1/state", "1: DOWN\n");
    expect(doctor_check_ports, "warning", "no port of any RDMA device is up");
    cr_expect_str_eq(text_of(0, "text"), "rxe0 port 1 is DOWN");
    cr_expect(strstr(text_of(0, "next"), "ip link set veth0 up"), "%s", text_of(0, "next"));
    daemon_says(VERBS);
    expect(doctor_check_ports, "bad", "no port of any RDMA device is up");
    put("/sys/class/infiniband/rxe1/ports/1/state", "4: ACTIVE\n");
    expect(doctor_check_ports, "good", "rxe1 port 1 is ACTIVE");
}

Test(doctor, a_port_needs_a_gid_with_an_address) {
    put_rxe();
    daemon_says(VERBS);
    put("/sys/class/infiniband/rxe0/ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    expect(doctor_check_gids, "warning", "none is RoCE v2 with a routable address");
    cr_expect(strstr(text_of(0, "next"), "dev veth0"), "%s", text_of(0, "next"));
    put("/sys/class/infiniband/rxe0/ports/1/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    expect(doctor_check_gids, "bad", "no port that is up has a usable GID");
    put("/sys/class/infiniband/rxe0/ports/1/gids/2", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
    put("/sys/class/infiniband/rxe0/ports/1/link_layer", "InfiniBand\n");
    expect(doctor_check_gids, "good", "1 of them routable");
}

Test(doctor, the_daemon_must_be_able_to_pin_its_pools) {
    put_rxe();
    daemon_says(VERBS);
    expect(doctor_check_memlock, "skipped", "cannot be read");
    put("/proc/77/limits", "Limit  Soft Limit  Hard Limit  Units\n"
                           "Max locked memory         8388608              8388608      bytes\n");
    expect(doctor_check_memlock, "bad", "may pin 8 MiB (RLIMIT_MEMLOCK), pools may take 1 GiB");
    put("/proc/77/limits", "Max locked memory         536870912            8388608      bytes\n");
    expect(doctor_check_memlock, "warning", "may pin 512 MiB");
    put("/proc/77/limits", "Max locked memory         unlimited            unlimited    bytes\n");
    expect(doctor_check_memlock, "good", "any amount");
    put("/proc/77/limits", "Max locked memory         8388608              8388608      bytes\n");
    put("/proc/77/status", "CapEff:\t0000000000004000\n");
    expect(doctor_check_memlock, "good", "CAP_IPC_LOCK");
}

/* Not refused over tcp, but a worker may wait for what is swapped out. */
Test(doctor, pools_that_may_be_swapped_out_are_warned_of) {
    daemon_says(TCP);
    expect(doctor_check_memlock, "skipped", "cannot be read");
    put("/proc/77/limits", "Limit  Soft Limit  Hard Limit  Units\n"
                           "Max locked memory         8388608              8388608      bytes\n");
    put("/proc/swaps", "Filename\t\tType\t\tSize\t\tUsed\t\tPriority\n");
    expect(doctor_check_memlock, "good", "there is no swap");
    put("/proc/swaps", "Filename\t\tType\t\tSize\t\tUsed\t\tPriority\n"
                       "/dev/sda2\t\tpartition\t8388604\t0\t-2\n");
    expect(doctor_check_memlock, "warning",
           "may lock 8 MiB (RLIMIT_MEMLOCK), pools may take 1 GiB");
    cr_expect(strstr(text_of(0, "next"), "LimitMEMLOCK"), "%s", text_of(0, "next"));
    put("/proc/77/status", "CapEff:\t0000000000004000\n");
    expect(doctor_check_memlock, "good", "CAP_IPC_LOCK");
}

Test(doctor, who_listens_on_loopback_is_known_however_it_is_written) {
    static const char *const loopback[] = {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1",
                                           "localhost"};
    static const char *const others[] = {"0.0.0.0", "::", "192.0.2.7", "::ffff:192.0.2.7",
                                         "127.example"};
    char status[128];
    for (unsigned i = 0; i < 10; i++) {
        snprintf(status, sizeof(status), "{\"listen\":{\"host\":\"%s\",\"port\":7471}}",
                 i < 5 ? loopback[i] : others[i - 5]);
        daemon_says(status);
        expect(doctor_check_listen, i < 5 ? "note" : "warning",
               i < 5 ? "only daemons of this machine" : "is reachable from outside");
    }
}

Test(doctor, without_an_identity_it_is_told_who_is_talked_to) {
    daemon_says("{\"identity\":{\"name\":null,\"insecure\":false,\"warning\":\"\"}}");
    expect(doctor_check_identity, "note", "are not talked to");
    daemon_says("{\"identity\":{\"name\":null,\"insecure\":true,\"warning\":\"\"}}");
    expect(doctor_check_identity, "note", "are talked to in clear");
}

Test(doctor, retries_without_end_are_warned_of) {
    expect(doctor_check_retries, "good", "do not matter");
    daemon_says(VERBS);
    expect(doctor_check_retries, "skipped", "settings");
    set(&e.config, "{\"verbs.retry_count\":7,\"verbs.rnr_retry\":6}");
    expect(doctor_check_retries, "warning", "verbs.retry_count is 7");
    set(&e.config, "{\"verbs.retry_count\":6,\"verbs.rnr_retry\":7}");
    expect(doctor_check_retries, "warning", "verbs.rnr_retry is 7");
    set(&e.config, "{\"verbs.timeout\":24}");
    expect(doctor_check_retries, "warning", "8 m");
    set(&e.config, "{\"verbs.timeout\":14}");
    expect(doctor_check_retries, "good", "470 ms");
}

Test(doctor, tcp_beside_rdma_devices_is_warned_of_with_the_reason) {
    daemon_says(TCP);
    expect(doctor_check_fabric, "note", "no device");
    put_rxe();
    expect(doctor_check_fabric, "warning", "although this machine has RDMA devices: no device");
    set(&e.config, "{\"fabric\":\"tcp\"}"); /* as it was asked to */
    expect(doctor_check_fabric, "note", "no device");
}

Test(doctor, verbs_without_a_device_in_use_is_bad) {
    daemon_says(VERBS);
    expect(doctor_check_fabric, "warning", "cannot be looked at");
    set(&e.devices, "{\"devices\":[{\"name\":\"rxe0\",\"in_use\":false}],"
                    "\"why\":\"no port is up\"}");
    expect(doctor_check_fabric, "bad", "no port is up");
    set(&e.devices, "{\"devices\":[{\"name\":\"rxe0\",\"in_use\":true,"
                    "\"protection\":\"registrations\"}]}");
    expect(doctor_check_fabric, "good", "verbs, on rxe0; leases hold by registrations");
}

Test(doctor, a_port_that_went_down_under_the_daemon_is_bad) {
    daemon_says("{\"fabric\":{\"name\":\"verbs\",\"rdma\":true,\"why\":\"w\","
                "\"trouble\":\"port 1 is DOWN\"}}");
    set(&e.devices, "{\"devices\":[{\"name\":\"rxe0\",\"in_use\":true,"
                    "\"protection\":\"registrations\"}]}");
    expect(doctor_check_fabric, "bad", "on rxe0, over which nothing goes now: port 1 is DOWN;");
}

Test(doctor, peers_over_less_than_the_daemon_has_are_warned_of) {
    static const char fabric[] = "{\"fabric\":{\"name\":\"verbs\",\"rdma\":true,\"fallback\":%s,"
                                 "\"peers_fallen_back\":%d}}";
    static const struct {
        const char *fallback;
        int fallen;
        const char *level, *words;
    } says[] = {
        {"\"tcp\"", 0, "good", "all go over verbs; one that has none would go over tcp"},
        {"null", 0, "good", "all go over verbs"},
        {"\"tcp\"", 1, "warning",
         "1 connection goes over tcp: the daemon at the other end offers no verbs"},
        {"\"tcp\"", 3, "warning", "3 connections go over tcp"},
    };
    char text[256];
    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        snprintf(text, sizeof(text), fabric, says[i].fallback, says[i].fallen);
        daemon_says(text);
        expect(doctor_check_peers, says[i].level, says[i].words);
        cr_expect(!strstr(text_of(0, "text"), "over ,"), "%s", text_of(0, "text"));
    }
}

Test(doctor, a_limit_that_is_nearly_used_up_is_named_with_the_setting_and_the_command) {
    static const char limits[] = "{\"limits\":{\"pool_bytes\":{\"used\":%d,\"max\":1000}}}";
    char text[256];
    snprintf(text, sizeof(text), limits, 800);
    daemon_says(text);
    expect(doctor_check_limits, "good", "no limit");
    /* The most that can be had: an eighth is kept for users who have nothing yet. */
    snprintf(text, sizeof(text), limits, 875);
    daemon_says(text);
    expect(doctor_check_limits, "warning", "pool_bytes: 875 of 1000 are in use");
    cr_expect(strstr(text_of(0, "next"), "raise limits.pool_bytes"), "%s", text_of(0, "next"));
    cr_expect(strstr(text_of(0, "next"), "rdmactl reload"), "%s", text_of(0, "next"));
}

static const char *next_of_limit(const char *key) {
    char text[256];
    snprintf(text, sizeof(text), "{\"limits\":{\"%s\":{\"used\":90,\"max\":100}}}", key);
    daemon_says(text);
    expect(doctor_check_limits, "warning", "90 of 100 are in use");
    return text_of(0, "next");
}

Test(doctor, what_raises_a_limit_and_who_has_it_is_said_of_each_as_it_is) {
    const char *next = next_of_limit("peers");
    cr_expect(strstr(next, "rdmactl peer show") && strstr(next, "raise peer.max in"), "%s", next);
    next = next_of_limit("mappings");
    cr_expect(strstr(next, "rdmactl limit show") && strstr(next, "sysctl vm.max_map_count=N") &&
                  strstr(next, "rdmactl reload") && !strstr(next, "limits.mappings"),
              "%s", next);
    set(&e.config, "{\"limits.mappings\":100}");
    next = next_of_limit("mappings");
    cr_expect(strstr(next, "raise limits.mappings in") && strstr(next, "vm.max_map_count at most"),
              "%s", next);
    cr_expect(strstr(next_of_limit("sessions"), "rdmactl session show"));
}

/* It has settings of these. */
static void keys_exist(const char *text, const char *where) {
    char key[80];
    for (const char *at = text; (at = strchr(at, '.')); at++) {
        const char *from = at;
        size_t after = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_0123456789");
        while (from > text && strchr("abcdefghijklmnopqrstuvwxyz_", from[-1]))
            from--;
        snprintf(key, sizeof(key), "%.*s", (int)(at - from), from);
        if (!after || !*key || !setting_is_section(key))
            continue;
        snprintf(key, sizeof(key), "%.*s", (int)(at + 1 + after - from), from);
        cr_expect(setting_find(key), "%s: there is no setting %s", where, key);
    }
}

Test(doctor, each_setting_that_is_named_exists) {
    static const char *const files[] = {"doctor_daemon.c", "doctor_machine.c", "doctor_rdma.c"};
    static char text[65536];
    struct config defaults;
    struct quota_limits limits;
    config_defaults(&defaults);
    limits_of(&defaults, &limits);
    for (unsigned r = 0; r < QUOTA_COUNT; r++)
        if (limits.total[r] != UINT64_MAX)
            keys_exist(next_of_limit(quota_name((enum quota_resource)r)), "a limit of status");
    keys_exist(next_of_limit("peers"), "a limit of status");
    const char *source = getenv("RDMAD_SOURCE");
    if (!source)
        cr_skip("RDMAD_SOURCE is not set: run through ctest");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/rdmactl/%s", source, files[i]);
        FILE *f = fopen(path, "r");
        cr_assert(f, "%s", path);
        text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
        fclose(f);
        keys_exist(text, files[i]);
    }
}

#define ROW "{\"who\":\"uid:%u\",\"key\":\"%s\",\"value\":%s,\"used\":%s,\"from\":\"%s\"}"

Test(doctor, a_user_who_has_nearly_used_up_a_limit_of_his_own_is_named) {
    char rows[4096], *end = rows;
    daemon_says("{}");
    expect(doctor_check_own_limits, "skipped", "does not tell");
    snprintf(rows, sizeof(rows), "[" ROW "," ROW "," ROW "," ROW "]", 7, "pool_bytes_per_uid",
             "1000", "800", "settings", 7, "weight", "1", "null", "default", 7, "x", "null", "5",
             "settings", 7, "bytes_per_second", "0", "9", "default");
    set(&e.limits, rows);
    expect(doctor_check_own_limits, "good", "no user");
    snprintf(rows, sizeof(rows), "[" ROW "," ROW "]", 7, "pool_bytes_per_uid", "1000", "801",
             "settings", 8, "sessions_per_uid", "3", "3", "/etc/rdmad.json:4");
    set(&e.limits, rows);
    expect(doctor_check_own_limits, "warning", "uid:8: sessions_per_uid: 3 of 3 are in use");
    cr_expect(strstr(text_of(0, "text"), "uid:7: pool_bytes_per_uid: 801 of 1000"), "%s",
              text_of(0, "text"));
    cr_expect(strstr(text_of(0, "next"), "raise limits.pool_bytes_per_uid in rdmad.json"), "%s",
              text_of(0, "next"));
    cr_expect(strstr(text_of(0, "next"), "rdmactl limit set uid:7 pool_bytes_per_uid=VALUE"), "%s",
              text_of(0, "next"));
    cr_expect(strstr(text_of(1, "next"), "where it was given, /etc/rdmad.json:4"), "%s",
              text_of(1, "next"));
    /* However many there are, it does not fill the screen. */
    end += sprintf(end, "[");
    for (unsigned uid = 1; uid <= 20; uid++)
        end += sprintf(end, "%s" ROW, uid > 1 ? "," : "", uid, "k", "10", "10", "settings");
    sprintf(end, "]");
    set(&e.limits, rows);
    expect(doctor_check_own_limits, "warning", "12 more are nearly used up");
    cr_expect_eq(json_array_size(e.rows), 9);
}

Test(doctor, the_congestion_control_must_exist_and_not_be_slow) {
    char text[512];
    put("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr2\n");
    put("/proc/sys/net/ipv4/tcp_congestion_control", "bbr\n");
    snprintf(text, sizeof(text), TCP, "cubic");
    daemon_says(text);
    expect(doctor_check_congestion, "good", "cubic");
    snprintf(text, sizeof(text), TCP, "bbr"); /* bbr2 is not bbr */
    daemon_says(text);
    expect(doctor_check_congestion, "bad", "this kernel has reno cubic bbr2");
    snprintf(text, sizeof(text), TCP, "");
    daemon_says(text);
    expect(doctor_check_congestion, "warning", "bbr");
}

Test(doctor, pools_that_are_larger_than_the_memory_left_are_warned_of) {
    daemon_says(VERBS);
    expect(doctor_check_memory, "skipped", "meminfo");
    put("/proc/meminfo", "MemTotal: 9999999 kB\nMemAvailable:    1048575 kB\n");
    expect(doctor_check_memory, "warning", "1 GiB, pinned");
    put("/proc/meminfo", "MemTotal: 9999999 kB\nMemAvailable:    1048576 kB\n");
    expect(doctor_check_memory, "good", "1 GiB");
}

/* Accepts whoever comes, and says at once that they are none of the group, if it is so. */
static pid_t take_clients(const char *dir, bool turns_away) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof(at.sun_path), "%.80s/rdmad.sock", dir);
    unlink(at.sun_path);
    cr_assert(!bind(fd, (struct sockaddr *)&at, sizeof(at)) && !listen(fd, 4), "%s", at.sun_path);
    fflush(NULL);
    pid_t pid = fork();
    if (pid) {
        close(fd);
        return pid;
    }
    for (;;) {
        int client = accept(fd, NULL, NULL);
        if (turns_away)
            (void)!send(client, "no", 2, MSG_NOSIGNAL);
    }
}

Test(doctor, who_may_connect_is_told_with_the_group_and_by_trying) {
    char none[64];
    snprintf(none, sizeof(none), "and uid %u is none", (unsigned)geteuid());
    cli.dir = root;
    expect(doctor_check_client_socket, "bad", "rdmad.sock");
    pid_t taker = take_clients(root, false);
    daemon_says("{\"clients\":{\"group\":null}}");
    expect(doctor_check_client_socket, "good", "rdmad.sock takes connections");
    cr_expect(!strstr(text_of(0, "text"), "group"), "%s", text_of(0, "text"));
    daemon_says("{\"clients\":{\"group\":\"staff\"}}");
    expect(doctor_check_client_socket, "good", "takes connections of members of group staff");
    json_decref((json_t *)e.status);
    e.status = NULL; /* control.sock is not for everybody */
    expect(doctor_check_client_socket, "good", "takes connections of uid");
    kill(taker, SIGKILL);
    waitpid(taker, NULL, 0);

    taker = take_clients(root, true);
    expect(doctor_check_client_socket, "bad", "is for members of group socket_group");
    cr_expect(strstr(text_of(0, "text"), none), "%s", text_of(0, "text"));
    daemon_says("{\"clients\":{\"group\":\"staff\"}}");
    expect(doctor_check_client_socket, "bad", "is for members of group staff");
    cr_expect(strstr(text_of(0, "text"), none), "%s", text_of(0, "text"));
    cr_expect(strstr(text_of(0, "next"), "socket_group"), "%s", text_of(0, "next"));
    kill(taker, SIGKILL);
    waitpid(taker, NULL, 0);
}
