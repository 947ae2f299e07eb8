/* SPDX-License-Identifier: MIT */
/* Whom rdmactl fetch blames for time that passes, and what it asks again, on a clock and a ring of
 * the test's own. */
#include "rdmactl/cli.h"
#include <criterion/criterion.h>
#include <rdmad/rdmad.h>
#include <time.h>

static time_t now;
static uint64_t
    next; /* the piece that arrives next, from the last to the first; UINT64_MAX: none */
static struct rdmad_cqe arrived;
static int32_t status; /* of what arrives */
static unsigned prepared;
static bool listens = true; /* a daemon */

static int test_wait(rdmad_ring *ring, int timeout_ms, const struct rdmad_cqe **cqe) {
    (void)ring, (void)timeout_ms;
    if (next == UINT64_MAX)
        return RDMAD_E_TIMEOUT;
    arrived = (struct rdmad_cqe){.user_data = next--, .status = status};
    *cqe = &arrived;
    return 0;
}

static struct rdmad_sqe entry;

#define cli_now_s() ((double)now)
#define daemon_listens() (listens)
#define rdmad_ring_wait test_wait
#define rdmad_ring_reserve(ring) (&entry)
#define rdmad_prep_read(ring, sqe, lease, offset, local, bytes, number) \
    ((void)(sqe), (void)(offset), (void)(local), (void)(bytes), (void)(number), prepared++, 0)
#define rdmad_ring_explain(ring, cqe, text, size) ((void)(cqe), snprintf(text, size, "why"))
#define rdmad_ring_submit(ring) (1)
#define rdmad_ring_seen(ring, cqe) ((void)(cqe))
#define rdmad_pool_base(pool) ((void)(pool), NULL)
#include "rdmactl/reading.c" /* NOLINT(bugprone-suspicious-include): its statics */

struct cli cli = {.dir = "/nowhere"};

static int take(void *arg, uint64_t piece, const void *data, uint64_t size) {
    (void)arg, (void)piece, (void)data, (void)size;
    now += 10;
    return EXIT_GOOD;
}

Test(fetch, time_in_which_nobody_took_the_output_is_not_the_daemons) {
    struct reading r = {.take = take};
    reading_start(&r, 0, UINT64_C(1) << 30, BUNDLE_PIECE);
    next = r.slots - 1;
    cr_assert_eq(reading_ask(&r), EXIT_GOOD);
    for (unsigned i = 0; i < r.slots; i++)
        cr_assert_eq(reading_arrive(&r), EXIT_GOOD);
    cr_assert_eq(reading_drain(&r), EXIT_GOOD);
    cr_assert_geq(now, 100, "the output was slow");
    cr_assert_eq(reading_ask(&r), EXIT_GOOD);
    cr_assert_eq(reading_arrive(&r), ARGS_RUN, "the daemon is blamed for what it was not asked");
    now += PATIENCE_ACT_MS / 1000 - 1;
    cr_assert_eq(reading_arrive(&r), ARGS_RUN);
    r.paused = true;
    now += 3600;
    cr_assert_eq(reading_arrive(&r), ARGS_RUN, "a pause is not the daemon's silence");
    r.paused = false;
    now += PATIENCE_ACT_MS / 1000 - 1;
    cr_assert_eq(reading_arrive(&r), ARGS_RUN);
    now += 1;
    cr_assert_eq(reading_arrive(&r), EXIT_FAILED, "and for ever it need not be waited for");
}

/* The library ends the READs then. */
Test(fetch, who_waits_for_the_next_daemon_waits_as_long_as_the_library) {
    struct reading r = {.take = take};
    reading_start(&r, 0, BUNDLE_PIECE, BUNDLE_PIECE);
    next = UINT64_MAX;
    cr_assert_eq(reading_ask(&r), EXIT_GOOD);
    listens = false;
    now += 2 * PATIENCE_ACT_MS / 1000;
    cr_assert_eq(reading_arrive(&r), ARGS_RUN);
    listens = true;
    cr_assert_eq(reading_arrive(&r), EXIT_FAILED, "one that is there does not answer");
    listens = false;
    now += PATIENCE_ACT_MS / 1000;
    cr_assert_eq(reading_arrive(&r), EXIT_FAILED, "and for ever it need not be waited for");
}

Test(fetch, what_a_lost_daemon_has_cost_is_asked_again_when_all_of_it_has_ended) {
    struct reading r = {.take = take, .again = true};
    reading_start(&r, 0, UINT64_C(1) << 30, BUNDLE_PIECE);
    cr_assert_eq(reading_ask(&r), EXIT_GOOD);
    prepared = 0;
    for (unsigned i = 0; i < r.slots; i++) {
        next = i;
        status = i ? 0 : RDMAD_E_DAEMON_LOST;
        cr_assert_eq(reading_turn(&r), i + 1 < r.slots ? EXIT_GOOD : READING_LOST,
                     "READ %u is not the last that writes to a slot, or is", i);
    }
    cr_assert_eq(r.taken, 0, "a READ that failed was taken");
    cr_assert_eq(prepared, 0, "it was asked for more");
    cr_assert_str_eq(r.lost.code, "RDMAD_E_DAEMON_LOST");
    reading_repeat(&r, 30);
    next = UINT64_MAX;
    cr_assert_eq(reading_turn(&r), EXIT_GOOD);
    cr_assert_eq(prepared, r.slots, "not all are asked again");
    now += PATIENCE_ACT_MS / 1000 + 29;
    cr_assert_eq(reading_arrive(&r), ARGS_RUN, "a next daemon may take its time to come");
    now += 1;
    cr_assert_eq(reading_arrive(&r), EXIT_FAILED);
}

Test(fetch, only_what_a_next_daemon_can_mend_is_asked_again) {
    struct reading r = {.take = take, .again = true};
    reading_start(&r, 0, BUNDLE_PIECE, BUNDLE_PIECE);
    next = 0;
    status = RDMAD_E_LEASE_REVOKED;
    cr_assert_eq(reading_turn(&r), EXIT_FAILED);
    r = (struct reading){.take = take};
    reading_start(&r, 0, BUNDLE_PIECE, BUNDLE_PIECE);
    next = 0;
    status = RDMAD_E_DAEMON_LOST;
    cr_assert_eq(reading_turn(&r), EXIT_FAILED, "nobody asked for it");
}
