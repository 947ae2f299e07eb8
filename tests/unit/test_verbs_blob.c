/* SPDX-License-Identifier: MIT */
/* What two verbs fabrics tell each other survives the way, and what no honest one says does not. */
#include "daemon/fabric/verbs/wire/blob.h"
#include <criterion/criterion.h>
#include <string.h>

static struct endpoint some_end(unsigned lanes) {
    struct endpoint e = {.lid = 0x1234,
                         .link_layer = 2,
                         .mtu = 3,
                         .rd_atomic = 16,
                         .dest_rd_atomic = 128,
                         .lanes = (uint8_t)lanes,
                         .max_message = UINT64_C(0x123456789a)};
    for (unsigned i = 0; i < sizeof e.gid; i++)
        e.gid[i] = (uint8_t)(0xa0 + i);
    for (unsigned i = 0; i < lanes; i++) {
        e.qp_num[i] = 0xfffff0 + i;
        e.psn[i] = 0xffffff - i;
    }
    return e;
}

static const struct inbox_place some_inbox = {.address = UINT64_C(0x1122334455667788),
                                              .rkey = 0xdeadbeef,
                                              .size = 4352,
                                              .count = 64,
                                              .features = TARGET_ATOMICS};

/* Every blob that is shorter, longer, or of another version or kind must be refused. */
#define REFUSES_OTHER_SHAPES(read, blob, out)                                   \
    do {                                                                        \
        struct fabric_blob b_ = (blob);                                         \
        for (unsigned n_ = 0; n_ < (blob).size; n_++) {                         \
            b_.size = (uint8_t)n_;                                              \
            cr_assert_not(read(&b_, &(out)), "taken with %u bytes", n_);        \
        }                                                                       \
        b_.size = (uint8_t)((blob).size + 1);                                   \
        cr_assert_not(read(&b_, &(out)), "taken with a byte too many");         \
        b_.size = 255;                                                          \
        cr_assert_not(read(&b_, &(out)), "taken with a size that cannot be");   \
        for (unsigned i_ = 0; i_ < 2; i_++) {                                   \
            b_ = (blob);                                                        \
            b_.bytes[i_]++;                                                     \
            cr_assert_not(read(&b_, &(out)), "taken with a wrong byte %u", i_); \
        }                                                                       \
    } while (0)

Test(blob, a_hello_survives_the_way) {
    for (unsigned lanes = 1; lanes <= VERBS_LANES_MAX; lanes++) {
        struct verbs_hello in = {.end = some_end(lanes)}, out;
        struct fabric_blob blob = {0};
        blob_write_hello(&in, &blob);
        cr_assert(blob_read_hello(&blob, &out));
        cr_assert_eq(memcmp(&in, &out, sizeof in), 0);
        REFUSES_OTHER_SHAPES(blob_read_hello, blob, out);
    }
}

Test(blob, an_offer_survives_the_way) {
    for (unsigned lanes = 1; lanes <= VERBS_LANES_MAX; lanes++) {
        struct verbs_offer in = {
            .number = UINT64_C(0xfedcba9876543210), .end = some_end(lanes), .inbox = some_inbox};
        struct verbs_offer out;
        struct fabric_blob blob = {0};
        blob_write_offer(&in, &blob);
        cr_assert(blob_read_offer(&blob, &out));
        cr_assert_eq(memcmp(&in, &out, sizeof in), 0);
        REFUSES_OTHER_SHAPES(blob_read_offer, blob, out);
    }
}

Test(blob, by_rdma_cm_there_are_no_queue_pairs_to_tell) {
    struct verbs_hello hello = {.cm = true}, hello_out;
    struct verbs_offer offer = {.cm = true, .number = 3, .port = 4791}, offer_out;
    struct fabric_blob blob = {0};
    memset(offer.token, 0x5a, sizeof offer.token);
    memset(offer.address, 0xfe, sizeof offer.address);
    blob_write_hello(&hello, &blob);
    cr_assert(blob_read_hello(&blob, &hello_out));
    cr_assert_eq(memcmp(&hello, &hello_out, sizeof hello), 0);
    REFUSES_OTHER_SHAPES(blob_read_hello, blob, hello_out);
    blob_write_offer(&offer, &blob);
    cr_assert(blob_read_offer(&blob, &offer_out));
    cr_assert_eq(memcmp(&offer, &offer_out, sizeof offer), 0);
    REFUSES_OTHER_SHAPES(blob_read_offer, blob, offer_out);
    offer.port = 0;
    blob_write_offer(&offer, &blob);
    cr_assert_not(blob_read_offer(&blob, &offer_out), "an offer at port 0 was taken");
}

Test(blob, a_key_survives_the_way) {
    for (unsigned count = 1; count <= VERBS_LANES_MAX; count++) {
        struct verbs_key in = {.address = UINT64_C(0x7fffdeadbeef), .count = (uint8_t)count}, out;
        struct fabric_blob blob = {0};
        for (unsigned i = 0; i < count; i++)
            in.rkey[i] = 0xffffffff - i;
        blob_write_key(&in, &blob);
        cr_assert(blob_read_key(&blob, &out));
        cr_assert_eq(memcmp(&in, &out, sizeof in), 0);
        REFUSES_OTHER_SHAPES(blob_read_key, blob, out);
    }
}

Test(blob, a_key_to_nothing_is_refused) {
    struct verbs_key none = {.count = 0}, out;
    struct fabric_blob blob = {0}, empty = {0};
    blob_write_key(&none, &blob);
    cr_assert_not(blob_read_key(&blob, &out));
    cr_assert_not(blob_read_key(&empty, &out), "an attach before the link is up has no key");
}

Test(blob, an_end_that_cannot_be_is_refused) {
    struct endpoint good = some_end(2), bad[12];
    size_t n = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        bad[i] = good;
    bad[n++].lanes = 0;
    bad[n++].mtu = 0;
    bad[n++].mtu = 6;
    bad[n++].link_layer = 0;
    bad[n++].link_layer = 3;
    bad[n++].max_message = 0;
    bad[n++].qp_num[0] = 0;
    bad[n++].qp_num[1] = 1;
    bad[n++].qp_num[1] = 1u << 24;
    bad[n++].psn[0] = 1u << 24;
    for (size_t i = 0; i < n; i++) {
        struct verbs_hello hello = {.end = bad[i]}, hello_out;
        struct verbs_offer offer = {.number = 1, .end = bad[i], .inbox = some_inbox}, offer_out;
        struct fabric_blob blob = {0};
        blob_write_hello(&hello, &blob);
        cr_assert_not(blob_read_hello(&blob, &hello_out), "hello %zu was taken", i);
        blob_write_offer(&offer, &blob);
        cr_assert_not(blob_read_offer(&blob, &offer_out), "offer %zu was taken", i);
    }
    struct verbs_offer unnumbered = {.end = good, .inbox = some_inbox}, out;
    struct verbs_offer no_reads = {.number = 1, .end = good, .inbox = some_inbox};
    struct fabric_blob blob = {0};
    no_reads.end.dest_rd_atomic = 0;
    blob_write_offer(&no_reads, &blob);
    cr_assert_not(blob_read_offer(&blob, &out), "one that answers no READs was taken");
    blob_write_offer(&unnumbered, &blob);
    cr_assert_not(blob_read_offer(&blob, &out), "a connection without a number was taken");
}

Test(blob, an_inbox_that_cannot_be_is_refused) {
    struct inbox_place bad[] = {some_inbox, some_inbox, some_inbox};
    bad[0].count = 0;
    bad[1].size = FABRIC_SEND_MIN - 1;
    bad[2].size = UINT32_MAX;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct verbs_offer offer = {.number = 1, .end = some_end(1), .inbox = bad[i]}, out;
        struct fabric_blob blob = {0};
        blob_write_offer(&offer, &blob);
        cr_assert_not(blob_read_offer(&blob, &out), "inbox %zu was taken", i);
    }
}

Test(blob, more_lanes_than_there_can_be_are_refused) {
    struct verbs_hello hello = {.end = some_end(VERBS_LANES_MAX)}, out;
    struct fabric_blob blob = {0};
    blob_write_hello(&hello, &blob);
    /* After version, kind, flag, gid, lid, link layer, mtu, and READs each way. */
    const size_t lanes_at = 3 + 16 + 2 + 1 + 1 + 1 + 1;
    cr_assert_eq(blob.bytes[lanes_at], VERBS_LANES_MAX);
    blob.bytes[lanes_at]++;
    cr_assert_not(blob_read_hello(&blob, &out));
}
