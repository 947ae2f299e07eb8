/* SPDX-License-Identifier: MIT */
/*
 * A service's budget: whose each byte is at any time, what a requester may see and have, and who
 * gets the memory in the end. With sessions, pools and data plane of the tests' own.
 */
#include "daemon/base/guard.h"
#include "daemon/base/offload.h"
#include "daemon/state/budget.h"
#include "daemon/state/extents.h"
#include "daemon/state/late_event.h"
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

/* ---- extents ---- */

#define UNITS 64u

Test(extents, nothing_is_given_twice_and_everything_comes_back) {
    struct extents x;
    struct extent *taken[UNITS] = {NULL};
    uint8_t owner[UNITS] = {0};
    unsigned seed = 3;
    bool no_room;
    cr_assert_eq(extents_init(&x, UNITS * PAGE), 0);
    for (unsigned round = 0; round < 50000; round++) {
        unsigned i = (seed = seed * 1103515245u + 12345u) >> 8 & (UNITS - 1);
        unsigned units = 1 + (seed >> 20) % 7;
        if (taken[i]) {
            for (uint64_t at = taken[i]->offset / PAGE, n = taken[i]->length / PAGE; n--; at++) {
                cr_assert_eq(owner[at], i + 1);
                owner[at] = 0;
            }
            cr_assert_eq(extents_find(&x, taken[i]->offset), taken[i]);
            extents_give(&x, taken[i]);
            taken[i] = NULL;
            continue;
        }
        taken[i] = extents_take(&x, units * PAGE - 5, owner, &no_room);
        unsigned run = 0, longest = 0, unused = 0;
        for (unsigned at = 0; at < UNITS; at++) {
            run = owner[at] ? 0 : run + 1;
            unused += !owner[at];
            longest = run > longest ? run : longest;
        }
        cr_assert_eq(taken[i] != NULL, longest >= units, "%u of %u at a piece", units, longest);
        cr_assert_eq(no_room, !taken[i]);
        if (!taken[i]) {
            cr_assert_eq(x.free, unused * PAGE);
            cr_assert_eq(extents_longest(&x), longest * PAGE);
            continue;
        }
        for (uint64_t at = taken[i]->offset / PAGE, n = units; n--; at++) {
            cr_assert_eq(owner[at], 0);
            owner[at] = (uint8_t)(i + 1);
        }
    }
    for (unsigned i = 0; i < UNITS; i++)
        if (taken[i])
            extents_give(&x, taken[i]);
    cr_expect_eq(extents_longest(&x), UNITS * PAGE, "all in one piece again");
    extents_fini(&x);
}

/* As a map of units says, whatever is asked for. */
Test(extents, what_begins_at_a_place_is_taken_if_all_of_it_is_free) {
    struct extents x;
    struct extent *taken[UNITS] = {NULL};
    bool used[UNITS] = {false}, no_room;
    unsigned seed = 7;
    cr_assert_eq(extents_init(&x, UNITS * PAGE), 0);
    for (unsigned round = 0; round < 50000; round++) {
        unsigned at = (seed = seed * 1103515245u + 12345u) >> 8 & (UNITS - 1);
        unsigned units = 1 + (seed >> 20) % 9, sum = 0;
        if (taken[at]) {
            memset(&used[at], 0, taken[at]->length / PAGE);
            extents_give(&x, taken[at]);
            taken[at] = NULL;
            continue;
        }
        bool fits = at + units <= UNITS;
        for (unsigned i = at; fits && i < at + units; i++)
            fits = !used[i];
        struct extent *e = extents_take_at(&x, at * PAGE, units * PAGE - 7, &x, &no_room);
        cr_assert_eq(e != NULL, fits, "%u units at %u", units, at);
        cr_assert_eq(no_room, !fits);
        if (!e)
            continue;
        cr_assert(e->offset == at * PAGE && e->length == units * PAGE);
        memset(&used[at], 1, units);
        taken[at] = e;
        for (unsigned i = 0; i < UNITS; i++)
            sum += !used[i];
        cr_assert_eq(x.free, sum * PAGE);
    }
    cr_expect_null(extents_take_at(&x, 100, PAGE, &x, &no_room));
    cr_expect_null(extents_take_at(&x, UINT64_MAX & ~(uint64_t)(PAGE - 1), PAGE, &x, &no_room));
    cr_expect_null(extents_take_at(&x, 0, UINT64_MAX, &x, &no_room));
    cr_expect_null(extents_take_at(&x, 0, 0, &x, &no_room));
    extents_fini(&x);
}

/* ---- the budget ---- */

/* The registration thread, without one. */
static unsigned offloaded;

void offload_post(struct offload *o, struct offload_job *job) {
    (void)o;
    offloaded++;
    job->run(job);
    job->done(job);
}

static struct session *owner, *asker;
static struct budget *b;

static struct {
    struct lease *lease;
    struct error result;
    unsigned calls;
} got;

static void granted(void *arg, struct lease *l, const struct error *result) {
    (void)arg;
    got.lease = l;
    got.result = *result;
    got.calls++;
}

static struct budget_terms terms(void) {
    return (struct budget_terms){.pool = 77,
                                 .offset = 2 * PAGE,
                                 .length = 32 * PAGE,
                                 .service = 5,
                                 .scope.peer = "",
                                 .name = "memory"};
}

static void up(void) {
    rig_up();
    guard_install();
    owner = rig_session(1);
    asker = rig_session(2);
}

static void begin(const struct budget_terms *t) {
    struct error err;
    cr_assert_eq(budget_new(owner, t, &b, &err), 0, "%s", err.text);
}

static void down(void) {
    rig_close(asker);
    fake_answer_all();
    if (b)
        budget_close(b, NULL, NULL);
    rig_close(owner);
    fake_answer_all();
    rig_down();
}

TestSuite(budget, .init = up, .fini = down);

static uint32_t rights = RDMAD_RIGHTS_DEFAULT;

static int ask_as(const struct lessee *who, uint64_t bytes) {
    struct budget_ask ask = {
        .bytes = bytes, .rights = rights, .who = *who, .uid = 2, .node = "rig"};
    unsigned calls = got.calls;
    budget_request(b, &ask, granted, NULL);
    cr_assert_eq(got.calls, calls + 1);
    return got.result.code;
}

static int ask(uint64_t bytes) {
    return ask_as(&(struct lessee){.session = asker}, bytes);
}

/* Asks, attaches, and is usable. */
static struct handle *lent(uint64_t bytes) {
    struct rig_done done = {0};
    struct error err;
    struct handle *h;
    cr_assert_eq(ask(bytes), 0, "%s", got.result.text);
    cr_assert_eq(handle_new(asker, &h, &err), 0);
    cr_assert_eq(handle_attach_local(h, got.lease, rig_done, &done, &err), 0, "%s", err.text);
    fake_answer(fake_call(FAKE_LEASE_ADD, -1), 0);
    cr_assert_eq(done.calls, 1);
    cr_assert(h->requested);
    return h;
}

static struct budget_view view(void) {
    struct budget_view v;
    budget_view(b, &v);
    return v;
}

Test(budget, what_was_there_before_is_zeroed_and_nothing_else) {
    struct budget_terms t = terms();
    char *base = rig_pool(owner)->base;
    begin(&t);
    memset(base, 's', 40 * PAGE);
    lent(PAGE + 1);
    for (unsigned i = 0; i < 4 * PAGE; i++)
        cr_assert_eq(base[i], i < 2 * PAGE ? 's' : 0, "byte %u", i);
    cr_assert_eq(base[4 * PAGE], 's');
    cr_expect_eq(got.lease->terms.length, PAGE + 1);
    cr_expect_eq(got.lease->terms.offset, 2 * PAGE);
}

/* A touch may wait for a disk, for the owner's cgroup, or until its owner has punched a hole. */
Test(budget, the_control_thread_zeroes_little_and_only_what_its_owner_cannot_make_it_wait_for) {
    static const struct {
        bool locked, loose;
        uint64_t bytes;
        bool at_once;
    } cases[] = {{true, false, PAGE, true},           {true, false, 16 * PAGE, true},
                 {true, false, 16 * PAGE + 1, false}, {false, false, PAGE, false},
                 {true, true, PAGE, false},           {false, true, PAGE, false}};
    struct budget_terms t = terms();
    struct pool *p = rig_pool(owner);
    begin(&t);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        p->shared.locked = cases[i].locked;
        p->shared.loose = cases[i].loose;
        offloaded = 0;
        struct handle *h = lent(cases[i].bytes);
        cr_expect_eq(offloaded, !cases[i].at_once, "case %zu", i);
        handle_release(h, NULL, NULL);
        fake_answer_all();
    }
}

Test(budget, a_release_gives_the_bytes_back_and_tells_nobody) {
    struct budget_terms t = terms();
    begin(&t);
    struct handle *h = lent(3 * PAGE);
    cr_expect_eq(view().leased, 3 * PAGE);
    cr_expect_eq(view().leases, 1);
    handle_release(h, NULL, NULL);
    fake_answer_all();
    cr_expect_eq(view().free, 32 * PAGE);
    cr_expect_eq(view().longest, 32 * PAGE);
    cr_expect_eq(rig.nevents, 0, "the owner never heard of that lease");
}

Test(budget, a_hand_over_is_the_owners_when_nothing_reaches_it) {
    struct budget_terms t = terms();
    struct rig_done done = {0};
    struct error err;
    begin(&t);
    struct handle *h = lent(2 * PAGE);
    handle_hand_over(h, rig_done, &done);
    cr_expect_eq(rig_events(owner, RDMAD_EV_HANDED_OVER), 0, "an op may still be under way");
    fake_answer_all();
    cr_expect_eq(rig_events(owner, RDMAD_EV_HANDED_OVER), 1);
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, 0, "%s", done.text);
    cr_expect_eq(view().handed_over, 2 * PAGE);
    cr_expect_eq(view().free, 30 * PAGE);
    cr_expect_eq(budget_free(b, 3 * PAGE, &err), RDMAD_E_HANDLE, "it begins at 2 pages");
    cr_expect_eq(budget_free(b, 2 * PAGE, &err), 0, "%s", err.text);
    cr_expect_eq(budget_free(b, 2 * PAGE, &err), RDMAD_E_HANDLE);
    cr_expect_eq(view().free, 32 * PAGE);
}

/* Who requests and hands over without pause must not fill the queue of an owner who is busy. */
Test(budget, an_owner_who_does_not_read_is_told_of_hand_overs_when_it_does) {
    struct budget_terms t = terms();
    struct error err;
    begin(&t);
    rig.lags = true;
    for (unsigned i = 0; i < 3; i++) {
        handle_hand_over(lent(2 * PAGE), NULL, NULL);
        fake_answer_all();
    }
    cr_expect_eq(rig_events(owner, RDMAD_EV_HANDED_OVER), 0);
    cr_expect_eq(view().handed_over, 6 * PAGE);
    cr_expect_eq(view().leases, 0);
    cr_expect_eq(budget_free(b, 2 * PAGE, &err), RDMAD_E_HANDLE, "nobody told it");
    rig.lags = false;
    session_tell_late(owner);
    cr_expect_eq(rig_events(owner, RDMAD_EV_HANDED_OVER), 3);
    session_tell_late(owner);
    cr_expect_eq(rig_events(owner, RDMAD_EV_HANDED_OVER), 3, "once");
    for (unsigned i = 1; i <= 3; i++)
        cr_expect_eq(budget_free(b, 2 * i * PAGE, &err), 0, "%s", err.text);
    cr_expect_eq(view().free, 32 * PAGE);
    rig.lags = true;
    handle_hand_over(lent(PAGE), NULL, NULL); /* and nobody reads it any more */
    fake_answer_all();
    rig.lags = false;
}

Test(budget, a_lease_that_ended_first_is_not_handed_over) {
    struct budget_terms t = terms();
    struct rig_done done = {0};
    begin(&t);
    struct handle *h = lent(2 * PAGE);
    handle_hand_over(h, rig_done, &done);
    rig_advance(61 * NSEC_PER_SEC); /* while it drains */
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, RDMAD_E_LEASE_EXPIRED, "%s", done.text);
    cr_expect_eq(rig_events(owner, RDMAD_EV_HANDED_OVER), 0);
    cr_expect_eq(view().free, 32 * PAGE);
}

Test(budget, whoever_leaves_without_a_word_leaves_the_memory) {
    struct budget_terms t = terms();
    begin(&t);
    lent(2 * PAGE);
    lent(5 * PAGE);
    rig_close(asker);
    fake_answer_all();
    cr_expect_eq(view().free, 32 * PAGE);
    asker = rig_session(2);
}

Test(budget, time_is_the_services_to_limit) {
    struct budget_terms t = terms();
    struct budget_ask a = {.bytes = 1, .rights = 1, .who = {.session = asker}, .node = ""};
    t.max_ttl_ns = 500 * MS;
    begin(&t);
    a.ttl_ns = 501 * MS;
    budget_request(b, &a, granted, NULL);
    cr_expect_eq(got.result.code, RDMAD_E_LIMIT, "%s", got.result.text);
    lent(PAGE);
    rig_advance(500 * MS);
    fake_answer_all();
    cr_expect_eq(view().free, 32 * PAGE);
}

Test(budget, one_requester_leaves_something_to_others_when_requests_are_limited) {
    struct budget_terms t = terms();
    struct lessee peer = {.peer = 9, .address = "10.0.0.1"};
    unsigned n = 0;
    t.max_request = 4 * PAGE;
    begin(&t);
    cr_expect_eq(ask(4 * PAGE + 1), RDMAD_E_BUDGET);
    for (; n < 32; n++) {
        struct budget_ask a = {.bytes = PAGE, .rights = 1, .who = {.session = asker}, .node = ""};
        budget_request(b, &a, granted, NULL);
        if (got.result.code)
            break;
        rig_peer(got.lease, "127.0.0.2")->answer_at_once = true;
    }
    cr_expect_eq(got.result.code, RDMAD_E_BUDGET);
    cr_expect_eq(n, 16, "half of what there is");
    cr_expect_eq(ask_as(&peer, 4 * PAGE), 0, "another: %s", got.result.text);
    lease_end(got.lease, RDMAD_E_LEASE_RELEASED, NULL, NULL);
}

/* A host has all of an IPv6 network of /64, so two addresses of it are one requester. */
Test(budget, addresses_of_one_ipv6_network_share_as_one) {
    struct budget_terms t = terms();
    struct lessee first = {.peer = 9, .address = "2001:db8:0:1::1"};
    struct lessee same = {.peer = 10, .address = "2001:db8:0:1:ffff::2"};
    struct lessee next = {.peer = 11, .address = "2001:db8:0:2::1"};
    struct lease *lease[9];
    unsigned n = 0;
    t.max_request = 4 * PAGE;
    begin(&t);
    while (n < 9 && ask_as(n % 2 ? &same : &first, 4 * PAGE) == 0)
        lease[n++] = got.lease;
    cr_expect_eq(n, 4, "half of the budget, by whichever of its addresses, not %u of 8", n);
    cr_expect_eq(got.result.code, RDMAD_E_BUDGET, "%s", got.result.text);
    cr_expect_eq(ask_as(&next, 4 * PAGE), 0, "another network: %s", got.result.text);
    lease_end(got.lease, RDMAD_E_LEASE_RELEASED, NULL, NULL);
    while (n)
        lease_end(lease[--n], RDMAD_E_LEASE_RELEASED, NULL, NULL);
}

/* Leases count as their owner's, whatever they are of. */
Test(budget, one_requester_has_so_many_leases_at_most_and_another_has_its_own) {
    struct budget_terms t = terms();
    struct lessee one = {.peer = 9, .address = "10.0.0.1"},
                  other = {.peer = 10, .address = "10.0.0.2"};
    struct lease *lease[BUDGET_LEASES_MAX + 2];
    unsigned n = 0;
    struct pool *p = rig_pool(owner);
    t.length = (BUDGET_LEASES_MAX + 8) * PAGE;
    p->bytes = t.offset + t.length;
    free(p->base);
    cr_assert(p->base = calloc(1, p->bytes));
    begin(&t);
    while (n <= BUDGET_LEASES_MAX && ask_as(&one, PAGE) == 0)
        lease[n++] = got.lease;
    cr_expect_eq(n, BUDGET_LEASES_MAX, "not %u", n);
    cr_expect_eq(got.result.code, RDMAD_E_LIMIT, "%s", got.result.text);
    cr_expect(strstr(got.result.text, "256 leases of service"), "%s", got.result.text);
    cr_expect_eq(ask_as(&other, PAGE), 0, "another: %s", got.result.text);
    lease[n++] = got.lease;
    lease_end(lease[0], RDMAD_E_LEASE_RELEASED, NULL, NULL);
    cr_expect_eq(ask_as(&one, PAGE), 0, "after it gave one back: %s", got.result.text);
    lease[0] = got.lease;
    while (n)
        lease_end(lease[--n], RDMAD_E_LEASE_RELEASED, NULL, NULL);
}

Test(budget, without_a_limit_all_of_it_may_be_asked_for_and_not_more) {
    struct budget_terms t = terms();
    begin(&t);
    lent(32 * PAGE);
    cr_expect_eq(view().free, 0);
    cr_expect_eq(ask(1), RDMAD_E_BUDGET);
    cr_expect_not_null(strstr(got.result.text, "0 left of 131072"), "%s", got.result.text);
    cr_expect_eq(ask(33 * PAGE), RDMAD_E_BUDGET);
    cr_expect_eq(ask(UINT64_MAX), RDMAD_E_BUDGET);
    cr_expect_eq(ask(0), RDMAD_E_INVAL);
}

Test(budget, closing_ends_the_leases_and_is_done_when_they_are) {
    struct budget_terms t = terms();
    struct rig_done done = {0};
    begin(&t);
    lent(2 * PAGE);
    cr_expect_eq(ask(PAGE), 0);
    lease_end(got.lease, RDMAD_E_LEASE_RELEASED, NULL, NULL);
    budget_close(b, rig_done, &done);
    b = NULL;
    cr_expect_eq(done.calls, 0);
    cr_expect_eq(rig_pool(owner)->budgets, 1, "its pool is in use");
    fake_answer_all();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(rig_pool(owner)->budgets, 0);
}

Test(budget, bad_terms_have_sentences) {
    struct error err;
    struct budget *none = NULL;
    struct budget_terms t = terms();
    t.offset = 1;
    cr_expect_eq(budget_new(owner, &t, &none, &err), RDMAD_E_INVAL, "%s", err.text);
    t = terms();
    t.length = UINT64_MAX & ~(uint64_t)(PAGE - 1);
    cr_expect_eq(budget_new(owner, &t, &none, &err), RDMAD_E_RANGE, "%s", err.text);
    t = terms();
    t.max_request = 33 * PAGE;
    cr_expect_eq(budget_new(owner, &t, &none, &err), RDMAD_E_INVAL, "%s", err.text);
    cr_expect_null(none);
    t = terms();
    t.scope = (struct scope){RDMAD_SCOPE_UID, 3, "", 0};
    begin(&t);
    cr_expect_eq(ask(1), RDMAD_E_SCOPE);
}

Test(budget, a_requester_has_no_more_rights_than_the_service_gives) {
    struct budget_terms t = terms();
    struct error err;
    t.max_rights = RDMAD_RIGHT_WRITE;
    begin(&t);
    cr_expect_eq(ask(PAGE), RDMAD_E_RIGHTS, "read and write");
    cr_expect_not_null(strstr(got.result.text, "\"memory\" gives 0x2 at most"), "%s",
                       got.result.text);
    rights = RDMAD_RIGHT_ATOMIC;
    cr_expect_eq(ask(PAGE), RDMAD_E_RIGHTS);
    rights = RDMAD_RIGHT_WRITE;
    cr_expect_eq(ask(PAGE), 0, "%s", got.result.text);
    cr_expect_eq(got.lease->terms.rights, RDMAD_RIGHT_WRITE);
    budget_close(b, NULL, NULL);
    fake_answer_all();
    t.max_rights = 0;
    begin(&t);
    rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC;
    cr_expect_eq(ask(PAGE), 0, "%s", got.result.text);
    rights = RDMAD_RIGHTS_DEFAULT;
    for (unsigned bit = 3; bit < 32; bit++) {
        struct budget *none;
        t.max_rights = UINT32_C(1) << bit;
        cr_assert_eq(budget_new(owner, &t, &none, &err), RDMAD_E_RIGHTS, "bit %u", bit);
    }
}

Test(budget, what_a_user_has_of_its_services_is_so_many_pieces_at_most) {
    struct budget_terms t = terms();
    struct error err;
    uint32_t *pieces = &owner->uid_account->budget_pieces;
    t.shut = true;
    begin(&t);
    *pieces = BUDGET_PIECES_MAX - 1; /* of other services */
    cr_assert_eq(budget_keep(b, 4 * PAGE, PAGE, &err), 0, "%s", err.text);
    cr_expect_eq(budget_keep(b, 6 * PAGE, PAGE, &err), RDMAD_E_LIMIT, "one too many");
    cr_expect(strstr(err.text, "65536 pieces") && strstr(err.text, "give some back"), "%s",
              err.text);
    budget_open(b);
    cr_expect_eq(ask(PAGE), RDMAD_E_LIMIT, "%s", got.result.text);
    cr_expect_eq(budget_free(b, 4 * PAGE, &err), 0, "%s", err.text);
    cr_expect_eq(ask(PAGE), 0, "%s", got.result.text);
    cr_expect_eq(*pieces, BUDGET_PIECES_MAX - 1);
    *pieces = 0;
    budget_close(b, NULL, NULL);
    fake_answer_all();
    t.shut = true;
    begin(&t);
    for (unsigned i = 0; i < 8; i++)
        cr_assert_eq(budget_keep(b, (2 + 2 * i) * PAGE, PAGE, &err), 0, "%s", err.text);
    cr_expect_eq(*pieces, 8);
    budget_close(b, NULL, NULL);
    fake_answer_all();
    cr_expect_eq(*pieces, 0, "%u are charged on", *pieces);
    t.shut = false;
    begin(&t);
}

Test(budget, one_that_is_brought_back_gives_nothing_before_all_is_said) {
    struct budget_terms t = terms();
    struct error err;
    t.shut = true;
    begin(&t);
    cr_expect_eq(ask(PAGE), RDMAD_E_BUSY, "%s", got.result.text);
    cr_assert_eq(budget_keep(b, 4 * PAGE, 2 * PAGE - 1, &err), 0, "%s", err.text);
    cr_expect_eq(budget_keep(b, 5 * PAGE, PAGE, &err), RDMAD_E_RANGE, "some of it twice");
    cr_expect_eq(budget_keep(b, 3 * PAGE, 2 * PAGE, &err), RDMAD_E_RANGE, "some of it twice");
    cr_expect_eq(budget_keep(b, PAGE, PAGE, &err), RDMAD_E_RANGE, "before it");
    cr_expect_eq(budget_keep(b, 33 * PAGE, 2 * PAGE, &err), RDMAD_E_RANGE, "beyond it");
    cr_expect_eq(budget_keep(b, 34 * PAGE, PAGE, &err), RDMAD_E_RANGE, "behind it");
    cr_expect_eq(budget_keep(b, 8 * PAGE + 64, PAGE, &err), RDMAD_E_RANGE, "no granule");
    cr_expect_eq(budget_keep(b, 8 * PAGE, 0, &err), RDMAD_E_RANGE, "nothing");
    cr_expect_eq(budget_keep(b, 8 * PAGE, UINT64_MAX, &err), RDMAD_E_RANGE, "more than there is");
    cr_expect_eq(ask(PAGE), RDMAD_E_BUSY, "%s", got.result.text);
    budget_open(b);
    cr_expect_eq(budget_keep(b, 8 * PAGE, PAGE, &err), RDMAD_E_RANGE, "too late");
    cr_expect_eq(view().handed_over, 2 * PAGE);
    cr_expect_eq(ask(29 * PAGE), RDMAD_E_BUDGET, "what is kept is given");
    cr_expect_eq(ask(28 * PAGE), 0, "%s", got.result.text);
    cr_expect_eq(ask(3 * PAGE), RDMAD_E_BUDGET, "what is kept is given");
    cr_expect_eq(budget_free(b, 4 * PAGE, &err), 0, "%s", err.text);
    cr_expect_eq(budget_free(b, 4 * PAGE, &err), RDMAD_E_HANDLE);
    cr_expect_eq(view().handed_over, 0);
    cr_expect_eq(ask(4 * PAGE), 0, "%s", got.result.text);
}
