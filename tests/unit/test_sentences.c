/* SPDX-License-Identifier: MIT */
/* What a program did wrong is said in its own words, not in the daemon's numbers. */
#include "libclient/channel/channel.h" /* first: its parameters are named as our globals */
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(sentences, .init = rig_set_up, .fini = rig_tear_down, .timeout = 20);

static void says(const char *text, const char *words) {
    cr_assert_not_null(strstr(text, words), "\"%s\" lacks \"%s\"", text, words);
}

/* Submits what is prepared, has the last of count entries end so, and says what is said of it. */
static const char *told(unsigned entries, int status) {
    static char text[512];
    const struct rdmad_cqe *cqe;
    struct rdmad_sqe sqe;

    cr_assert_eq(rdmad_ring_submit(ring), (int)entries);
    while (entries-- > 0)
        sqe = rig_take();
    rig_complete(&sqe, status);
    cr_assert_eq(rdmad_ring_wait(ring, 2000, &cqe), 0, "%s", rdmad_last_error(s));
    rdmad_ring_explain(ring, cqe, text, sizeof(text));
    rdmad_ring_seen(ring, cqe);
    return text;
}

Test(sentences, an_entry_that_was_never_prepared_is_said_to_be_one) {
    rdmad_ring_reserve(ring);
    says(told(1, RDMAD_E_OPCODE), "an entry was submitted that was reserved and not prepared");
    rdmad_sqe_set_flags(rig_prep_write(1), RDMAD_SQE_MORE);
    rdmad_sqe_set_flags(rdmad_ring_reserve(ring), RDMAD_SQE_MORE);
    rig_prep_write(2);
    says(told(3, RDMAD_E_OPCODE), "(one of its entries was reserved and not prepared)");
}

Test(sentences, a_batch_that_is_left_open_is_said_to_be_open) {
    const struct rdmad_cqe *cqe;

    rdmad_sqe_set_flags(rig_prep_write(1), RDMAD_SQE_MORE);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    cr_assert_eq(rdmad_ring_wait(ring, -1, &cqe), RDMAD_E_INVAL);
    says(rdmad_last_error(s), "its batch of 1 entries begins when one without RDMAD_SQE_MORE");
    cr_assert_eq(rdmad_ring_dispatch(ring, -1, 0), RDMAD_E_INVAL);
    says(rdmad_last_error(s), "its batch of 1 entries begins");
}

Test(sentences, what_is_missing_is_named) {
    rdmad_channel *channel;
    rdmad_lease *gone;

    cr_assert_eq(rdmad_prep_cancel(ring, rdmad_ring_reserve(ring), 5, 6), 0);
    says(told(1, RDMAD_E_HANDLE), "no op with that user_data is in flight");
    rig_prep_write(1);
    says(told(1, RDMAD_E_HANDLE), "the buffer's pool was destroyed before rdmad took the op");
    cr_assert_eq(rdmad_connect(s, "rdmad:///x", 0, 0, &channel), 0);
    cr_assert_eq(rdmad_prep_send(ring, rdmad_ring_reserve(ring), channel, memory, 8, 1), 0);
    rdmad_channel_abort(channel);
    says(told(1, RDMAD_E_HANDLE), "the channel was closed here before rdmad took the op");
    cr_assert_eq(rdmad_lease_attach(s, "name", 0, &gone), 0);
    rig_prep_write(1);
    rdmad_lease_free(lease);
    rdmad_lease_free(gone);
    says(told(1, RDMAD_E_NO_LEASE), "it was freed here before rdmad took the op");
}

Test(sentences, a_receive_that_the_other_end_has_ended_says_how) {
    struct rdmad_ev_channel_closed ev = {.reason = RDMAD_E_CANCELED};
    rdmad_channel *channel;

    cr_assert_eq(rdmad_connect(s, "rdmad:///x", 0, 0, &channel), 0);
    cr_assert_eq(rdmad_prep_recv(ring, rdmad_ring_reserve(ring), channel, memory, 8, 1), 0);
    ev.channel = channel->handle;
    snprintf(ev.text, sizeof(ev.text), "the other end's program is gone");
    fake_event(&fake, RDMAD_EV_CHANNEL_CLOSED, &ev, sizeof(ev));
    says(told(1, RDMAD_E_CANCELED), "canceled: the other end's program is gone");
}

Test(sentences, options_that_cannot_be_are_refused_at_open) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    char name[100];
    rdmad_session *other;

    o.runtime_dir = fake.dir;
    o.ring_entries = 1u << 30;
    cr_assert_eq(rdmad_open(&o, &other), RDMAD_E_INVAL);
    says(rdmad_last_error(NULL), "ring_entries is 1073741824: a ring has 2 to 4096 entries");
    o.ring_entries = 1;
    cr_assert_eq(rdmad_open(&o, &other), RDMAD_E_INVAL);
    o.ring_entries = 0;
    memset(name, 'n', sizeof(name));
    name[64] = '\0';
    o.name = name;
    cr_assert_eq(rdmad_open(&o, &other), RDMAD_E_NAME);
    says(rdmad_last_error(NULL), "the session's name has 64 characters, at most 63 are allowed");
    o.name = NULL;
    o.spin_us = -2;
    cr_assert_eq(rdmad_open(&o, &other), RDMAD_E_INVAL);
    says(rdmad_last_error(NULL), "spin_us is -2");
    o.spin_us = -1;
    o.call_timeout_ms = -2;
    cr_assert_eq(rdmad_open(&o, &other), RDMAD_E_INVAL);
    says(rdmad_last_error(NULL), "call_timeout_ms is -2");
}

Test(sentences, a_request_for_no_bytes_is_refused_and_a_lease_of_none_is_one) {
    rdmad_lease *own;

    cr_assert_eq(rdmad_lease_grant(s, memory, 0, NULL, &own), 0, "an empty file can be shared");
    cr_assert_eq(rdmad_lease_request(s, "rdmad:///x", 0, NULL, 0, &own), RDMAD_E_INVAL);
    says(rdmad_last_error(s), "a request for no bytes");
}
