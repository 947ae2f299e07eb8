/* SPDX-License-Identifier: MIT */
/*
 * What the host tells its members, and what it does not: on a host without a device or its thread.
 */
#include "daemon/fabric/verbs/host/member.h"
#include "daemon/fabric/verbs/host/state.h"
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct listener {
    struct host_member m;
    char heard[512]; /* in order: "came ", "port 3 ", "qp 7:1 ", "going " */
    unsigned qp_events;
    bool let_go; /* at once, when told */
};

static struct fabric_host host;
static struct open_device open_device;

#define listener_of(m) container_of(m, struct listener, m)

static void __attribute__((format(printf, 2, 3)))
hear(struct listener *l, const char *format, ...) {
    size_t used = strlen(l->heard);
    va_list ap;
    va_start(ap, format);
    vsnprintf(l->heard + used, sizeof(l->heard) - used, format, ap);
    va_end(ap);
}

static void came(struct host_member *m, struct device *d, const struct port_now *port) {
    cr_assert_eq(d, &open_device.d);
    hear(listener_of(m), "came %u ", port->gid_index);
}

static void port_changed(struct host_member *m, const struct port_now *port) {
    hear(listener_of(m), "port %u ", port->gid_index);
}

static void qp_event(struct host_member *m, uint32_t qp_num, enum ibv_event_type event) {
    struct listener *l = listener_of(m);
    if (l->qp_events++ < 8)
        hear(l, "qp %u:%d ", qp_num, (int)event);
}

static void going(struct host_member *m, const struct error *why) {
    hear(listener_of(m), "going: %s ", why->text);
    if (listener_of(m)->let_go)
        host_let_go(m);
}

static void setup(void) {
    memset(&host, 0, sizeof(host));
    pthread_mutex_init(&host.lock, NULL);
    list_init(&host.members);
    list_init(&host.memories);
    host.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void teardown(void) {
    close(host.wake_fd);
    pthread_mutex_destroy(&host.lock);
}

static struct device *join(struct listener *l) {
    struct device *d;
    struct port_now port;
    memset(l, 0, sizeof(*l));
    cr_assert_eq(mailbox_init(&l->m.mailbox), 0);
    l->m.device_came = came;
    l->m.port_changed = port_changed;
    l->m.qp_event = qp_event;
    l->m.device_going = going;
    cr_assert_eq(host_join(&host, &l->m, &d, &port, NULL), 0);
    return d;
}

static void leave(struct listener *l) {
    host_leave(&l->m);
    mailbox_fini(&l->m.mailbox);
}

/* The side of the device thread. */
static void device_comes(unsigned gid_index) {
    pthread_mutex_lock(&host.lock);
    host.now = &open_device;
    host.port.gid_index = (uint8_t)gid_index;
    members_device_came(&host);
    pthread_mutex_unlock(&host.lock);
}

static void port_is(unsigned gid_index) {
    pthread_mutex_lock(&host.lock);
    host.port.gid_index = (uint8_t)gid_index;
    members_port_changed(&host);
    pthread_mutex_unlock(&host.lock);
}

static void device_goes(const char *text) {
    struct error why;
    error_set(&why, RDMAD_E_PEER_LOST, "%s", text);
    pthread_mutex_lock(&host.lock);
    host.now = NULL;
    members_device_going(&host, &why);
    pthread_mutex_unlock(&host.lock);
}

static void qp(uint32_t number, enum ibv_event_type event) {
    pthread_mutex_lock(&host.lock);
    members_qp_event(&host, number, event);
    pthread_mutex_unlock(&host.lock);
}

#define assert_heard(l, text)               \
    do {                                    \
        mailbox_drain(&(l)->m.mailbox);     \
        cr_assert_str_eq((l)->heard, text); \
        (l)->heard[0] = '\0';               \
    } while (0)

TestSuite(verbs_members, .init = setup, .fini = teardown);

Test(verbs_members, a_device_comes_changes_and_goes) {
    struct listener l;
    cr_assert_null(join(&l));
    l.let_go = true;
    device_comes(1);
    assert_heard(&l, "came 1 ");
    cr_assert(members_hold_device(&host));
    port_is(2);
    assert_heard(&l, "port 2 ");
    device_goes("unplugged");
    cr_assert(members_hold_device(&host));
    assert_heard(&l, "going: unplugged ");
    cr_assert_not(members_hold_device(&host));
    leave(&l);
}

Test(verbs_members, who_joins_late_has_the_device_at_once_and_hears_of_its_end) {
    struct listener l;
    device_comes(1);
    cr_assert_eq(join(&l), &open_device.d);
    assert_heard(&l, "");
    device_goes("unplugged");
    assert_heard(&l, "going: unplugged ");
    leave(&l);
    cr_assert_not(members_hold_device(&host));
}

Test(verbs_members, a_member_that_is_late_hears_of_the_port_as_it_is) {
    struct listener l;
    join(&l);
    device_comes(1);
    port_is(2);
    port_is(3);
    assert_heard(&l, "came 3 ");
    port_is(4);
    port_is(5);
    assert_heard(&l, "port 5 ");
    leave(&l);
}

Test(verbs_members, a_device_that_went_before_it_was_heard_of_was_never_there) {
    struct listener l;
    join(&l);
    device_comes(1);
    device_goes("unplugged");
    cr_assert_not(members_hold_device(&host), "who has not heard of it holds it up");
    assert_heard(&l, "");
    device_comes(2);
    device_goes("again");
    device_comes(3);
    assert_heard(&l, "came 3 ");
    leave(&l);
}

Test(verbs_members, who_lets_go_later_holds_the_device_until_then) {
    struct listener quick, slow;
    join(&quick);
    join(&slow);
    quick.let_go = true;
    device_comes(1);
    assert_heard(&quick, "came 1 ");
    assert_heard(&slow, "came 1 ");
    device_goes("unplugged");
    assert_heard(&quick, "going: unplugged ");
    assert_heard(&slow, "going: unplugged ");
    cr_assert(members_hold_device(&host));
    host_let_go(&slow.m);
    cr_assert_not(members_hold_device(&host));
    leave(&quick);
    leave(&slow);
}

Test(verbs_members, events_of_qps_come_in_order_and_before_the_end) {
    struct listener l;
    join(&l);
    device_comes(1);
    assert_heard(&l, "came 1 ");
    qp(7, IBV_EVENT_QP_FATAL);
    qp(8, IBV_EVENT_QP_ACCESS_ERR);
    device_goes("unplugged");
    assert_heard(&l, "qp 7:1 qp 8:3 going: unplugged ");
    leave(&l);
}

Test(verbs_members, a_flood_of_qp_events_is_bounded) {
    struct listener l;
    join(&l);
    device_comes(1);
    mailbox_drain(&l.m.mailbox);
    for (uint32_t i = 0; i < 10000; i++)
        qp(i, IBV_EVENT_COMM_EST);
    mailbox_drain(&l.m.mailbox);
    cr_assert(l.qp_events >= 8 && l.qp_events < 1000, "%u", l.qp_events);
    qp(1, IBV_EVENT_COMM_EST);
    unsigned before = l.qp_events;
    mailbox_drain(&l.m.mailbox);
    cr_assert_eq(l.qp_events, before + 1, "after a flood nothing is told any more");
    leave(&l);
}

Test(verbs_members, nothing_is_told_to_who_left) {
    struct listener stays, leaves;
    join(&stays);
    join(&leaves);
    device_comes(1);
    leave(&leaves); /* with mail under way */
    cr_assert_str_eq(leaves.heard, "");
    device_goes("unplugged");
    device_comes(2);
    assert_heard(&stays, "came 2 ");
    cr_assert(members_hold_device(&host));
    leave(&stays);
    cr_assert_not(members_hold_device(&host));
}
