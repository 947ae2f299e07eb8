/* SPDX-License-Identifier: MIT */
/* librdmad's copies for plain memory: in pieces, by way of the library's own pool. */
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(copies, .init = rig_set_up, .fini = rig_tear_down, .timeout = 20);

#define COPY 200000u

static char there[5 + COPY]; /* the lease's memory */
static unsigned pieces;

static bool move(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    char *here = fake.pool[sqe->pool - FAKE_POOL] + sqe->pool_offset;

    (void)r;
    pieces++;
    if (sqe->opcode == RDMAD_OP_WRITE)
        memcpy(there + sqe->lease_offset, here, sqe->length);
    else
        memcpy(here, there + sqe->lease_offset, sqe->length);
    return false;
}

Test(copies, copies_move_every_byte_to_where_it_belongs_in_pieces) {
    static char data[COPY], back[COPY];

    for (unsigned i = 0; i < COPY; i++)
        data[i] = (char)(i * 7 + i / 251);
    rig_play(move);
    cr_assert_eq(rdmad_write_copy(lease, 5, data, COPY), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(memcmp(there + 5, data, COPY), 0);
    cr_assert_eq(pieces, 4);
    cr_assert_eq(rdmad_read_copy(lease, 5, back, COPY), 0);
    cr_assert_eq(memcmp(back, data, COPY), 0);
    cr_assert_eq(rdmad_last_outcome(), RDMAD_DONE);
}

static bool second_piece_fails(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    struct rdmad_cqe cqe = {.user_data = sqe->user_data,
                            .status = RDMAD_E_LEASE_REVOKED,
                            .outcome = RDMAD_FAILED_UNTOUCHED,
                            .opcode = sqe->opcode};

    if (pieces == 0)
        return move(r, sqe);
    fake_ring_complete(r, &cqe);
    return true;
}

Test(copies, a_copy_that_fails_half_way_is_partly_done) {
    static char data[COPY];

    rig_play(second_piece_fails);
    cr_assert_eq(rdmad_write_copy(lease, 0, data, COPY), RDMAD_E_LEASE_REVOKED);
    cr_assert_eq(rdmad_last_outcome(), RDMAD_FAILED_PARTIAL);
}

/* ---- leases as messages --------------------------------------------------------------------- */

#define A_URI "rdmad://h:1/lease/7?key=00112233445566778899aabbccddeeff"

static bool lease_comes(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    struct rdmad_cqe cqe = {.user_data = sqe->user_data,
                            .bytes = sizeof(A_URI) - 1,
                            .opcode = sqe->opcode,
                            .flags = RDMAD_CQE_LEASE};

    memcpy(fake.pool[sqe->pool - FAKE_POOL] + sqe->pool_offset, A_URI, sizeof(A_URI));
    fake_ring_complete(r, &cqe);
    return true;
}

static bool owner_is_slow(struct fake_daemon *f, const struct rdmad_msg_header *h,
                          const void *body) {
    (void)body;
    if (h->type == RDMAD_MSG_LEASE_ATTACH)
        fake_refuse(f, h, RDMAD_E_TIMEOUT, "attaching took longer than 30000 ms");
    return h->type == RDMAD_MSG_LEASE_ATTACH;
}

Test(copies, a_lease_that_came_and_was_not_attached_to_in_time_is_not_nothing) {
    rdmad_channel *channel;
    rdmad_lease *got;

    cr_assert_eq(rdmad_connect(s, "rdmad://h:1/x", 0, 0, &channel), 0);
    fake.hook = owner_is_slow;
    rig_play(lease_comes);
    cr_assert_eq(rdmad_recv_lease(channel, 100, &got), RDMAD_E_UNREACHABLE,
                 "nothing seems to come");
    cr_assert_null(got);
    cr_assert_str_eq(rdmad_last_error(s), "a lease came, and is lost unless it is sent again: "
                                          "attaching took longer than 30000 ms");
}
