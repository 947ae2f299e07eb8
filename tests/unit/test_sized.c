/* SPDX-License-Identifier: MIT */
/* Structs between a program and a library of different versions, and what bindings can ask. */
#include "libclient/base/sized.h"
#include "libclient/channel/channel.h" /* first: its parameters are named as our globals */
#include "libclient/channel/service.h"
#include "tests/unit/child.h"
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Three versions of one struct; the library is of the second. */
struct v1 {
    size_t size;
    uint64_t a;
};
struct v2 {
    size_t size;
    uint64_t a, b;
};
struct v3 {
    size_t size;
    uint64_t a, b, c;
};
static const struct rdmad_sized what = {
    .name = "thing", .init = "THING_INIT", .first = sizeof(struct v1), .known = sizeof(struct v2)};

static void says(const char *words) {
    cr_assert_not_null(strstr(rdmad_last_error(NULL), words), "\"%s\" lacks \"%s\"",
                       rdmad_last_error(NULL), words);
}

Test(sized, an_older_programs_struct_is_filled_as_far_as_it_goes) {
    struct {
        struct v1 out;
        uint64_t beyond;
    } at = {{sizeof(struct v1), 0}, 77};
    const struct v2 full = {0, 1, 2};

    cr_assert_eq(rdmad_sized_check(NULL, &what, &at.out), 0);
    rdmad_sized_fill(&what, &at.out, &full);
    cr_assert_eq(at.out.a, 1);
    cr_assert_eq(at.out.size, sizeof(struct v1));
    cr_assert_eq(at.beyond, 77, "what lies behind it was written");
}

Test(sized, of_a_newer_programs_struct_what_the_library_does_not_know_is_zero) {
    struct v3 out = {sizeof(out), 7, 7, 7};
    const struct v2 full = {0, 1, 2};

    cr_assert_eq(rdmad_sized_check(NULL, &what, &out), 0);
    rdmad_sized_fill(&what, &out, &full);
    cr_assert(out.a == 1 && out.b == 2 && out.c == 0 && out.size == sizeof(out));
}

Test(sized, what_an_older_program_does_not_say_is_as_its_init_has_it) {
    const struct v1 in = {sizeof(in), 1};
    struct v2 out = {sizeof(out), 5, 6};

    cr_assert_eq(rdmad_sized_read(NULL, &what, &in, &out), 0);
    cr_assert(out.a == 1 && out.b == 6 && out.size == sizeof(out));
    cr_assert_eq(rdmad_sized_read(NULL, &what, NULL, &out), 0);
    cr_assert(out.a == 1 && out.b == 6);
}

Test(sized, what_a_newer_program_asks_for_is_refused_and_not_ignored) {
    struct v3 in = {sizeof(in), 1, 2, 0};
    struct v2 out = {sizeof(out), 5, 6};

    cr_assert_eq(rdmad_sized_read(NULL, &what, &in, &out), 0, "it asks for nothing new");
    cr_assert(out.a == 1 && out.b == 2);
    in.c = UINT64_C(1) << 63;
    cr_assert_eq(rdmad_sized_read(NULL, &what, &in, &out), RDMAD_E_INVAL);
    says("thing asks for something that this librdmad");
}

Test(sized, a_size_that_no_version_has_is_refused) {
    const size_t sizes[] = {0, 1, sizeof(struct v1) - 1, sizeof(struct v2) + 4097, SIZE_MAX};

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct v3 any = {sizes[i], 0, 0, 0};
        struct v2 out;
        cr_assert_eq(rdmad_sized_check(NULL, &what, &any), RDMAD_E_INVAL, "%zu", sizes[i]);
        says("start from THING_INIT");
        cr_assert_eq(rdmad_sized_read(NULL, &what, &any, &out), RDMAD_E_INVAL, "%zu", sizes[i]);
    }
    cr_assert_eq(rdmad_sized_check(NULL, &what, NULL), RDMAD_E_INVAL);
}

/* ---- the calls ------------------------------------------------------------------------------ */

TestSuite(sized_calls, .init = rig_set_up, .fini = rig_tear_down, .timeout = 20);

Test(sized_calls, nothing_is_taken_for_a_struct_that_is_not_initialized) {
    struct rdmad_message m = {.length = 5};
    struct rdmad_event e = {.size = 0};
    rdmad_channel *channel;
    rdmad_lease *own;

    cr_assert_eq(rdmad_lease_grant(s, memory, 64, NULL, &own), 0);
    cr_assert_eq(rdmad_lease_revoke(own), 0);
    cr_assert_eq(rdmad_next_event(s, 0, &e), RDMAD_E_INVAL);
    says("rdmad_event.size is 0 where this librdmad");
    e = (struct rdmad_event)RDMAD_EVENT_INIT;
    cr_assert_eq(rdmad_next_event(s, 0, &e), 0, "its news is lost");
    cr_assert_eq(e.lease, own);
    cr_assert_eq(rdmad_connect(s, "rdmad:///x", 0, 0, &channel), 0);
    cr_assert_eq(rdmad_recv(channel, memory, 8, -1, &m), RDMAD_E_INVAL);
    says("start from RDMAD_MESSAGE_INIT");
}

static void uninitialized_info(void) {
    struct rdmad_lease_info info = {.size = 3};

    rig_set_up();
    rdmad_lease_get_info(lease, &info);
}

Test(sized, a_call_that_returns_nothing_ends_the_program) {
    child_aborts(uninitialized_info, "rdmad_lease_get_info: rdmad_lease_info.size is 3");
}

Test(sized_calls, an_older_programs_event_and_its_name_at_the_end_are_filled_as_far_as_they_go) {
    struct {
        struct rdmad_event e;
        char beyond[64];
    } at = {.e = RDMAD_EVENT_INIT};
    struct rdmad_ev_name ev = {.watch = 3};
    uint64_t watch;
    struct rdmad_event *e = &at.e;

    memset(at.beyond, 'x', sizeof(at.beyond));
    cr_assert_eq(rdmad_names_watch(s, NULL, NULL, 0, &watch), 0);
    cr_assert_eq(watch, ev.watch);
    e->size += 8; /* a newer one: the name has grown */
    snprintf(ev.entry.name, sizeof(ev.entry.name), "a-name");
    fake_event(&fake, RDMAD_EV_NAME, &ev, sizeof(ev));
    cr_assert_eq(rdmad_next_event(s, 2000, e), 0);
    cr_assert_str_eq(e->name.name, "a-name");
    cr_assert_eq(e->name.size, sizeof(e->name) + 8);
    cr_assert(at.beyond[7] == '\0' && at.beyond[8] == 'x');
}

Test(sized_calls, an_older_programs_incoming_is_filled_up_to_its_end) {
    struct rdmad_ev_channel_incoming ev = {
        .incoming = 5, .flags = RDMAD_CHANNEL_PEER_PROVEN, .address = "1.2.3.4:5"};
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    rdmad_service *service;

    cr_assert_eq(rdmad_listen(s, "service", NULL, &service), 0);
    ev.service = service->number;
    fake_event(&fake, RDMAD_EV_CHANNEL_INCOMING, &ev, sizeof(ev));
    who.size = offsetof(struct rdmad_incoming, flags);
    who.flags = 77; /* what is behind it is the program's */
    cr_assert_eq(rdmad_next_incoming(service, 2000, &who), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(who.id, 5);
    cr_assert_str_eq(who.address, "1.2.3.4:5");
    cr_assert_eq(who.flags, 77);
}

Test(sized_calls, the_programs_own_pointer_comes_with_the_events_of_its_object) {
    struct rdmad_ev_channel_closed closed = {.reason = RDMAD_E_CLOSED};
    struct rdmad_event e = RDMAD_EVENT_INIT;
    struct rdmad_ev_channel_incoming incoming = {.incoming = 5};
    rdmad_channel *channel;
    rdmad_service *service;
    int a, b, c;

    cr_assert_eq(rdmad_lease_get_user(lease), NULL);
    rdmad_lease_set_user(lease, &a);
    fake_lease_ended(&fake, 7, 31, RDMAD_E_LEASE_EXPIRED);
    cr_assert_eq(rdmad_next_event(s, 2000, &e), 0);
    cr_assert_eq(e.user, &a);
    cr_assert_eq(rdmad_lease_get_user(e.lease), &a);

    cr_assert_eq(rdmad_connect(s, "rdmad:///x", 0, 0, &channel), 0);
    rdmad_channel_set_user(channel, &b);
    closed.channel = channel->handle;
    fake_event(&fake, RDMAD_EV_CHANNEL_CLOSED, &closed, sizeof(closed));
    cr_assert_eq(rdmad_next_event(s, 2000, &e), 0);
    cr_assert_eq(e.user, &b);
    cr_assert_eq(rdmad_channel_get_user(channel), &b);

    cr_assert_eq(rdmad_listen(s, "service", NULL, &service), 0);
    rdmad_service_set_user(service, &c);
    incoming.service = service->number;
    fake_event(&fake, RDMAD_EV_CHANNEL_INCOMING, &incoming, sizeof(incoming));
    cr_assert_eq(rdmad_next_event(s, 2000, &e), 0);
    cr_assert_eq(e.user, &c);
    cr_assert_eq(rdmad_service_get_user(service), &c);
}

/* ---- times ---------------------------------------------------------------------------------- */

static void refused(int rc, const char *words) {
    cr_assert_eq(rc, RDMAD_E_INVAL, "%s", rdmad_errname(rc));
    says(words);
}

Test(sized_calls, a_negative_time_other_than_minus_one_is_refused_and_not_for_ever) {
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    struct rdmad_event e = RDMAD_EVENT_INIT;
    struct rdmad_name name = RDMAD_NAME_INIT;
    char uri[RDMAD_URI_MAX + 1];
    const struct rdmad_cqe *cqe;
    rdmad_channel *channel, *other;
    rdmad_service *service;
    rdmad_lease *own;
    uint64_t watch;
    size_t count;

    cr_assert_eq(rdmad_connect(s, "rdmad:///x", 0, 0, &channel), 0);
    cr_assert_eq(rdmad_listen(s, "service", NULL, &service), 0);
    cr_assert_eq(rdmad_lease_grant(s, memory, 64, NULL, &own), 0);
    refused(rdmad_next_event(s, -2, &e), "timeout_ms is -2: it is -1 to wait for ever");
    refused(rdmad_next_incoming(service, -2, &who), "timeout_ms is -2");
    refused(rdmad_accept(service, NULL, -3, &other), "timeout_ms is -3");
    refused(rdmad_recv(channel, memory, 8, -4, NULL), "timeout_ms is -4");
    refused(rdmad_recv_lease(channel, -5, &own), "timeout_ms is -5");
    refused(rdmad_wait_notified(lease, -6, NULL, NULL), "timeout_ms is -6");
    refused(rdmad_buf_lock_write(pool, memory, 8, -7), "timeout_ms is -7");
    refused(rdmad_ring_wait(ring, -8, &cqe), "timeout_ms is -8");
    refused(rdmad_ring_dispatch(ring, -9, 0), "timeout_ms is -9");
    refused(rdmad_connect(s, "rdmad:///x", 0, -1, &other), "no request waits for ever");
    refused(rdmad_lease_attach(s, "name", -10, &own), "timeout_ms is -10");
    refused(rdmad_lease_request(s, "rdmad:///x", 1, NULL, -11, &own), "timeout_ms is -11");
    refused(rdmad_lease_delegate(lease, 0, 1, NULL, -12, uri), "timeout_ms is -12");
    refused(rdmad_names_list(s, NULL, NULL, NULL, -13, &name, 1, &count), "timeout_ms is -13");
    refused(rdmad_names_watch(s, NULL, NULL, -14, &watch), "timeout_ms is -14");
}

/* ---- names of numbers ----------------------------------------------------------------------- */

Test(sized, constants_and_sizes_can_be_asked_for_by_name) {
    cr_assert_eq(rdmad_constant("RDMAD_E_LIMIT"), RDMAD_E_LIMIT);
    cr_assert_eq(rdmad_constant("RDMAD_OK"), 0);
    cr_assert_eq(rdmad_constant("RDMAD_UNKNOWN"), RDMAD_UNKNOWN);
    cr_assert_eq(rdmad_constant("RDMAD_LIMIT_UID"), RDMAD_LIMIT_UID);
    cr_assert_eq(rdmad_constant("RDMAD_OP_CANCEL"), RDMAD_OP_CANCEL);
    cr_assert_eq(rdmad_constant("RDMAD_OP_COUNT"), RDMAD_OP_COUNT);
    cr_assert_eq(rdmad_constant("RDMAD_SQE_MORE"), RDMAD_SQE_MORE);
    cr_assert_eq(rdmad_constant("RDMAD_RIGHTS_ALL"), RDMAD_RIGHTS_ALL);
    cr_assert_eq(rdmad_constant("RDMAD_SCOPE_UID"), RDMAD_SCOPE_UID);
    cr_assert_eq(rdmad_constant("RDMAD_EVENT_NAME_GONE"), RDMAD_EVENT_NAME_GONE);
    cr_assert_eq(rdmad_constant("RDMAD_NAME_MAX"), RDMAD_NAME_MAX);
    cr_assert_eq(rdmad_constant("RDMAD_ABI_VERSION"), RDMAD_ABI_VERSION);
    cr_assert_eq(rdmad_constant("RDMAD_NO_SUCH"), INT64_MIN);
    cr_assert_eq(rdmad_constant(NULL), INT64_MIN);
    cr_assert_eq(rdmad_struct_size("rdmad_event"), sizeof(struct rdmad_event));
    cr_assert_eq(rdmad_struct_size("rdmad_sqe"), 64);
    cr_assert_eq(rdmad_struct_size("rdmad_segment"), sizeof(struct rdmad_segment));
    cr_assert_eq(rdmad_struct_size("rdmad_lease"), 0);
}
