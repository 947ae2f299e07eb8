/* SPDX-License-Identifier: MIT */
/* librdmad: what a close of a channel says of sends that the daemon has not taken. */
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <string.h>

static unsigned closes;

static bool count_closes(struct fake_daemon *f, const struct rdmad_msg_header *h,
                         const void *body) {
    (void)f;
    (void)body;
    closes += h->type == RDMAD_MSG_CHANNEL_CLOSE;
    return false;
}

static void set_up(void) {
    fake.hook = count_closes;
    rig_set_up();
}

TestSuite(channel_close, .init = set_up, .fini = rig_tear_down, .timeout = 20);

Test(channel_close, says_that_sends_were_not_taken_in_time_and_closes_nevertheless) {
    rdmad_channel *channel, *other;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);

    cr_assert_eq(rdmad_connect(s, "rdmad://h:1/x", 0, 0, &channel), 0);
    cr_assert_eq(rdmad_connect(s, "rdmad://h:1/x", 0, 0, &other), 0);
    cr_assert_eq(rdmad_prep_send(ring, sqe, channel, memory, 8, 1), 0);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    cr_assert_eq(rdmad_channel_close(other), 0, "a send on another channel is not its own");
    cr_assert_eq(rdmad_channel_close(channel), RDMAD_E_TIMEOUT, "nobody has taken the send");
    cr_assert_not_null(strstr(rdmad_last_error(s), "channel 41 is closed, and rdmad had not taken "
                                                   "all sends on it in 1000 ms"),
                       "%s", rdmad_last_error(s));
    cr_assert_eq(closes, 2);
}
