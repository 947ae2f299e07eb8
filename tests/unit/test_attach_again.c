/* SPDX-License-Identifier: MIT */
/*
 * An attach at a daemon that gives way to its next life, on a scripted clock: when it is asked
 * again, how much later each time, and when that is over.
 */
#include "daemon/peer/peer.h"
#include "daemon/serve/attach_again.h"
#include "daemon/serve/pace.h"
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>
#include <string.h>

#define RETURN_MS 5000u
#define FIRST_MS 20u
#define MOST_MS 250u

static struct session *s;
static struct attach_again again;
static unsigned due, given_up;
static bool awaited;      /* leases of that daemon are away */
static uint64_t ahead_ns; /* of the user's rate */

bool peers_await(struct peers *ps, const struct rdmad_uri *uri) {
    (void)ps, (void)uri;
    return awaited;
}
uint64_t pace_count(struct session *session) {
    cr_expect_eq(session, s);
    return ahead_ns;
}

static void is_due(struct attach_again *a, const struct error *why) {
    cr_expect_eq(a, &again);
    due += !why;
    given_up += why != NULL;
}

static void up(void) {
    rig_up();
    rig.config.peer_return_ms = RETURN_MS;
    s = rig_session(1000);
    s->origin.life = 1;
    again = (struct attach_again){.session = s, .until_ns = rig.now_ns + 60000 * MS, .due = is_due};
    due = given_up = 0;
    awaited = false;
    ahead_ns = 0;
}

static void down(void) {
    if (!s->closing)
        rig_close(s);
    fake_answer_all();
    cr_expect(list_empty(&s->calls), "a call waits for ever");
    cr_expect_eq(rig.st.quota.total.used[QUOTA_QUESTIONS], 0);
    rig_down();
}

TestSuite(attach_again, .init = up, .fini = down);

static bool fails(int code) {
    const struct error why = {.code = code, .text = "as the test has it"};
    return attach_waits(&again, &why);
}

/* Milliseconds until it is asked again. */
static unsigned pause_ms(void) {
    unsigned before = due, ms = 0;
    for (; due == before && ms < 10 * MOST_MS; ms++)
        rig_advance(MS);
    cr_assert_eq(due, before + 1, "it is never asked again");
    return ms;
}

Test(attach_again, each_pause_is_twice_as_long_up_to_a_bound_and_at_most_half_longer) {
    for (unsigned least = FIRST_MS, i = 0; i < 8; i++) {
        cr_assert(fails(RDMAD_E_PEER_LOST));
        unsigned ms = pause_ms();
        cr_expect(ms >= least && ms <= least + least / 2 + 1, "pause %u is %u ms, not %u", i, ms,
                  least);
        least = 2 * least < MOST_MS ? 2 * least : MOST_MS;
    }
}

Test(attach_again, those_who_lost_one_daemon_do_not_come_at_one_moment) {
    unsigned seen[MOST_MS] = {0}, different = 0;
    for (unsigned i = 0; i < 20; i++) {
        again.pause_ns = 0;
        again.until_ns = rig.now_ns + 60000 * MS;
        rig_advance(777777 * (i + 1)); /* each at its own time */
        cr_assert(fails(RDMAD_E_PEER_LOST));
        unsigned ms = pause_ms();
        different += !seen[ms]++;
    }
    cr_expect_geq(different, 4, "of 20 pauses %u are different", different);
}

Test(attach_again, it_is_over_when_leases_would_wait_no_longer) {
    unsigned asked = 0, ms = 0;
    while (fails(RDMAD_E_PEER_LOST)) {
        ms += pause_ms();
        asked++;
    }
    cr_expect(ms <= RETURN_MS && ms >= RETURN_MS - 2 * MOST_MS, "after %u ms", ms);
    cr_expect(asked >= RETURN_MS / (MOST_MS + MOST_MS / 2) && asked < 40, "asked %u times", asked);
}

Test(attach_again, it_is_over_when_the_attach_may_take_no_longer) {
    again.until_ns = rig.now_ns + 100 * MS;
    unsigned ms = 0;
    while (fails(RDMAD_E_PEER_LOST))
        ms += pause_ms();
    cr_expect(ms > 0 && ms < 100, "after %u ms", ms);
}

Test(attach_again, what_no_time_mends_is_not_asked_again) {
    cr_expect_not(fails(RDMAD_E_NO_LEASE), "nothing says that the owner comes back");
    cr_expect_not(fails(RDMAD_E_UNREACHABLE));
    cr_expect_not(fails(RDMAD_E_PERM));
    awaited = true; /* leases of that daemon are away: its owner may not be back yet */
    cr_expect_not(fails(RDMAD_E_PERM));
    cr_assert(fails(RDMAD_E_NO_LEASE));
    pause_ms();
    cr_assert(fails(RDMAD_E_UNREACHABLE));
    pause_ms();
}

Test(attach_again, who_does_not_outlive_its_daemon_and_who_is_told_not_to_wait_does_not) {
    s->origin.life = 0;
    cr_expect_not(fails(RDMAD_E_PEER_LOST), "its session ends with its daemon");
    s->origin.life = 1;
    rig.config.peer_return_ms = 0;
    cr_expect_not(fails(RDMAD_E_PEER_LOST), "nobody is waited for");
    rig.config.peer_return_ms = RETURN_MS;
    rig.st.stopping = true;
    cr_expect_not(fails(RDMAD_E_PEER_LOST), "this daemon stops");
    rig.st.stopping = false;
    cr_assert(fails(RDMAD_E_PEER_LOST));
    pause_ms();
}

Test(attach_again, it_counts_by_the_users_rate) {
    ahead_ns = 300 * MS;
    cr_assert(fails(RDMAD_E_PEER_LOST));
    cr_expect_geq(pause_ms(), 300 + FIRST_MS);
}

Test(attach_again, a_session_that_closes_ends_it_and_nothing_stays_charged) {
    cr_assert(fails(RDMAD_E_PEER_LOST));
    cr_expect_eq(rig.st.quota.total.used[QUOTA_QUESTIONS], 1);
    rig_close(s);
    cr_expect_eq(given_up, 1);
    rig_advance(RETURN_MS * MS);
    cr_expect_eq(due, 0);
}

/* ---- handles of an earlier life -------------------------------------------------------------- */

/* What its library is told. */
static int answered(bool resumed, int code, const char *words) {
    struct attach_again a = {.session = s, .resumed = resumed};
    struct error why = {.code = code, .text = "as the test has it"};
    attach_is_early(&a, &why);
    cr_expect(strstr(why.text, "as the test has it"), "%s", why.text);
    cr_expect(!words || strstr(why.text, words), "%s", why.text);
    return why.code;
}

Test(attach_again, a_handle_of_an_earlier_life_is_busy_while_its_owner_may_come_back) {
    static const int away[] = {RDMAD_E_NO_LEASE, RDMAD_E_UNREACHABLE, RDMAD_E_PEER_LOST,
                               RDMAD_E_TIMEOUT, RDMAD_E_SHUTDOWN};
    rig.st.started_ns = rig.now_ns;
    for (unsigned i = 0; i < sizeof(away) / sizeof(*away); i++) {
        cr_expect_eq(answered(true, away[i], "peer.return_ms"), RDMAD_E_BUSY, "%d", away[i]);
        cr_expect_eq(answered(false, away[i], NULL), away[i], "it is none of an earlier life");
    }
    cr_expect_eq(answered(true, RDMAD_E_PERM, NULL), RDMAD_E_PERM, "no time mends it");
    cr_expect_eq(answered(true, RDMAD_E_LIMIT, NULL), RDMAD_E_LIMIT);
}

Test(attach_again, it_is_busy_for_as_long_as_leases_would_wait_since_the_start) {
    rig.st.started_ns = rig.now_ns;
    rig_advance((RETURN_MS - 1) * MS);
    cr_expect_eq(answered(true, RDMAD_E_UNREACHABLE, "4999 ms ago"), RDMAD_E_BUSY);
    rig_advance(MS);
    cr_expect_eq(answered(true, RDMAD_E_UNREACHABLE, NULL), RDMAD_E_UNREACHABLE);
    rig.config.peer_return_ms = 2 * RETURN_MS; /* read again meanwhile */
    cr_expect_eq(answered(true, RDMAD_E_NO_LEASE, NULL), RDMAD_E_BUSY);
    rig.config.peer_return_ms = 0;
    cr_expect_eq(answered(true, RDMAD_E_NO_LEASE, NULL), RDMAD_E_NO_LEASE, "nobody is waited for");
}
