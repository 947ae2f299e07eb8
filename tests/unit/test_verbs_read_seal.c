/* SPDX-License-Identifier: MIT */
/* A device that says that a READ is done before its last packet has come is not believed: it is
 * posted again, a few times. Of devices that do not, and of bytes that look alike, too. */
#include "daemon/fabric/verbs/link/recover.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define PACKET 1024u
#define BYTES (2 * PACKET)

static struct device device;
static struct verbs verbs;
static struct verbs_link l;
static struct fabric_op op;
static uint8_t buffer[BYTES], before[BYTES];
static unsigned ended;

static void count_end(void *user, struct fabric_op *which) {
    (void)user;
    cr_assert_eq(which, &op);
    ended++;
}

static const struct fabric_env env = {.complete = count_end};

static void take(size_t length) {
    op = (struct fabric_op){.opcode = RDMAD_OP_READ, .local = buffer, .length = length};
    link_take(&l.lane[0], &op);
}

static void setup(void) {
    device.attr.orig_attr.vendor_id = 0xffffff;
    verbs.env = &env;
    verbs.device = &device;
    list_init(&verbs.sending);
    list_init(&verbs.changed);
    l.verbs = &verbs;
    l.state = LINK_UP;
    l.lanes = 1;
    l.packet = PACKET;
    l.lane[0].link = &l;
    l.lane[0].queue.connected = true;
    for (unsigned i = 0; i < LANES_ALL; i++) {
        list_init(&l.lane[i].batch);
        list_init(&l.lane[i].posted);
        list_init(&l.lane[i].sending);
    }
    list_init(&l.outbox.asking);
    list_init(&l.doomed);
    list_init(&l.changed);
    for (unsigned i = 0; i < BYTES; i++)
        buffer[i] = before[i] = (uint8_t)(rand() % 256);
    ended = 0;
}

TestSuite(verbs_read_seal, .init = setup);

static void post(void) {
    if (op_mark(&op)->state == OP_BATCHED && !list_empty(&op.node))
        link_unbatch(&l.lane[0], &op);
    cr_assert_null(read_seal_put(&op));
    op_mark(&op)->state = OP_POSTED;
    list_append(&l.lane[0].posted, &op.node);
}

static void device_says(enum ibv_wc_status status) {
    struct wr_slot slot = {.user = &op};
    const struct ibv_wc wc = {.status = status};
    lane_ended(&l.lane[0].queue, &slot, &wc);
}

static void device_says_done(void) {
    device_says(IBV_WC_SUCCESS);
}

static bool is_batched(void) {
    return !ended && op_mark(&op)->state == OP_BATCHED && l.lane[0].batched == 1 &&
           list_first(&l.lane[0].batch) == &op.node && !list_empty(&l.lane[0].sending);
}

Test(verbs_read_seal, a_read_without_its_last_packet_is_posted_again) {
    take(BYTES);
    post();
    memset(buffer, 1, PACKET); /* the first comes */
    device_says_done();
    cr_assert(is_batched());
    post();
    memset(buffer, 2, BYTES);
    device_says_done();
    cr_assert_eq(ended, 1);
    cr_assert_eq(op.status, RDMAD_OK);
    cr_assert_eq(op.outcome, RDMAD_DONE);
    cr_assert_eq(buffer[BYTES - 1], 2);
}

/* One byte in the last packet is all that is sure to come with it. */
Test(verbs_read_seal, what_comes_before_the_last_packet_does_not_count) {
    take(PACKET + 1);
    post();
    cr_expect_eq(memcmp(buffer, before, PACKET), 0);
    memset(buffer, 1, PACKET);
    device_says_done();
    cr_expect(is_batched());
}

Test(verbs_read_seal, a_byte_that_looks_like_a_seal_does_not_look_like_the_next) {
    take(1);
    post();
    uint8_t byte = buffer[0]; /* as at the peer, by chance */
    device_says_done();
    cr_assert(is_batched());
    post();
    buffer[0] = byte;
    device_says_done();
    cr_assert_eq(ended, 1);
    cr_assert_eq(op.status, RDMAD_OK);
}

Test(verbs_read_seal, a_client_that_seals_his_reads_himself_holds_up_nobody_for_ever) {
    take(BYTES);
    for (unsigned i = 1; i < READ_SEALS_MAX; i++) {
        post();
        device_says_done();
        cr_assert(is_batched(), "the %u. time", i);
    }
    post();
    device_says_done();
    cr_assert_eq(ended, 1);
    cr_assert_eq(op.status, RDMAD_E_FABRIC);
    cr_assert_eq(op.outcome, RDMAD_FAILED_PARTIAL);
    cr_assert(link_lives(&l), "the link is others', too");
}

static void ends_in_part(int status) {
    device_says_done();
    cr_assert_eq(ended, 1);
    cr_assert_eq(op.status, status);
    cr_assert_eq(op.outcome, RDMAD_FAILED_PARTIAL);
}

Test(verbs_read_seal, a_read_that_is_not_wanted_any_more_is_not_posted_again) {
    take(BYTES);
    post();
    op_mark(&op)->cancel_status = RDMAD_E_TIMEOUT;
    l.cancelled = 1;
    ends_in_part(RDMAD_E_TIMEOUT);
}

Test(verbs_read_seal, nor_is_one_whose_link_has_failed) {
    take(BYTES);
    post();
    l.state = LINK_FAILING;
    ends_in_part(RDMAD_E_PEER_LOST);
}

Test(verbs_read_seal, a_buffer_that_is_said_to_be_untouched_is) {
    take(PACKET);
    post();
    cr_assert_eq(memcmp(buffer + PACKET - 2, &op_mark(&op)->seal, 2), 0);
    l.state = LINK_FAILING; /* by something else, before */
    device_says(IBV_WC_REM_ACCESS_ERR);
    cr_assert_eq(ended, 1);
    cr_assert_eq(op.outcome, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(memcmp(buffer, before, BYTES), 0);
}

/* The first packets of the first time may be there. */
Test(verbs_read_seal, a_buffer_that_was_read_to_before_is_not_said_to_be_untouched) {
    take(BYTES);
    post();
    device_says_done();
    cr_assert(is_batched());
    link_doom_batches(&l);
    link_complete_doomed(&l);
    cr_assert_eq(ended, 1);
    cr_assert_eq(op.status, RDMAD_E_PEER_LOST);
    cr_assert_eq(op.outcome, RDMAD_FAILED_PARTIAL);
}

Test(verbs_read_seal, other_devices_are_believed) {
    device.attr.orig_attr.vendor_id = 0x2c9;
    take(BYTES);
    post();
    cr_expect_eq(memcmp(buffer, before, BYTES), 0);
    device_says_done();
    cr_assert_eq(ended, 1);
    cr_assert_eq(op.status, RDMAD_OK);
}

Test(verbs_read_seal, of_a_read_of_no_bytes_nothing_is_missed) {
    take(0);
    post();
    cr_expect_eq(memcmp(buffer, before, BYTES), 0);
    device_says_done();
    cr_assert_eq(op.status, RDMAD_OK);
}
