/* SPDX-License-Identifier: MIT */
/*
 * The host when its device goes, in the guest: `rdma link delete` and add, members that are late,
 * pools that come and go meanwhile. Each case leaves things as it found them.
 */
#include "tests/unit/verbs_member.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* It waits for us, who have to let go; not for longer than this. */
static const char *delete_command(void) {
    static char command[128];
    snprintf(command, sizeof(command), "timeout %u rdma link delete " DEVICE, 20 * test_patience());
    return command;
}

static void delete_device(void) {
    sh("%s", delete_command());
}

static void add_device(void) {
    sh("rdma link add " DEVICE " type rxe netdev " NETDEV);
}

/* Deletes the device beside us, who let go; returns how long that took. */
static uint64_t delete_beside(void) {
    uint64_t start_ms = now_ms();
    FILE *f = popen(delete_command(), "re");
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
    FILE *f = popen(delete_command(), "re");
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
    FILE *f = popen(delete_command(), "re");
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

static bool churning; /* atomic */

static void *churn(void *arg) {
    void *p = map(8 * MIB);
    unsigned long *count = arg;
    while (__atomic_load_n(&churning, __ATOMIC_RELAXED)) {
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
    __atomic_store_n(&churning, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, churn, &counts[i]) == 0, "no thread");
    for (unsigned i = 0; i < test_count(20) + 2; i++) {
        CHECK(delete_beside() < 3000u * test_patience(), "deleting takes too long");
        unsigned came = member.came;
        add_device();
        UNTIL(&member, member.came > came);
        usleep(50000);
    }
    __atomic_store_n(&churning, false, __ATOMIC_RELAXED);
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

TEST_MAIN(CASE(a_device_that_is_deleted_is_let_go_of_and_adopted_again),
          CASE(a_device_is_not_closed_before_the_last_member_let_go),
          CASE(a_member_may_leave_while_the_device_goes),
          CASE(a_host_can_be_closed_while_there_is_no_device),
          CASE(a_device_that_a_member_finds_broken_is_opened_again),
          CASE(pools_that_come_and_go_do_not_mind_devices_that_do),
          CASE(without_a_configured_name_another_device_takes_over),
          CASE(deleted_while_the_port_is_down_it_goes_too))
