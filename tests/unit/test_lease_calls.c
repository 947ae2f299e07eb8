/* SPDX-License-Identifier: MIT */
/*
 * An owner's calls about a lease that take as long as many count as many of its user's rate. The
 * way back to the client is the test's own.
 */
#include "daemon/serve/handlers.h"
#include "daemon/serve/later.h"
#include "daemon/serve/pace.h"
#include "daemon/state/delegate.h"
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>

enum { RATE = 1000, PARTS = 250 };

static unsigned replies;
static int code;

bool serve_reply(const struct request *rq, const void *body, size_t size, const int *fds,
                 unsigned nfds) {
    (void)rq, (void)body, (void)size, (void)fds, (void)nfds;
    replies++;
    code = 0;
    return true;
}

void serve_fail(const struct request *rq, const struct error *why) {
    (void)rq;
    replies++;
    code = why->code;
}

void serve_error(const struct request *rq, const struct error *why) {
    serve_fail(rq, why);
}

bool serve_text_ok(const char *field, size_t size) {
    return memchr(field, '\0', size);
}

struct request *later_new(const struct request *rq) {
    (void)rq;
    cr_assert_fail("nothing here is answered later");
    return NULL;
}

void later_free(struct request *later) {
    (void)later;
}

void later_answer(void *later, const struct error *result) {
    (void)later, (void)result;
}

void later_reply(struct request *later, const struct error *result, const void *body, size_t size) {
    (void)later, (void)result, (void)body, (void)size;
}

/* ---- the rate ---- */

static struct session *owner;
static struct lease *whole;

static void up(void) {
    rig_up();
    rig.config.max_calls_uid = RATE;
    owner = rig_session(1);
    whole = rig_grant(owner, 100000);
    rig_advance(10 * NSEC_PER_SEC);
}

static void down(void) {
    rig_close(owner);
    fake_answer_all();
    rig_down();
}

TestSuite(lease_calls, .init = up, .fini = down);

/* How many calls the user may make at once now, without waiting. */
static unsigned calls_left(void) {
    unsigned n = 0;
    while (pace_count(owner) == 0)
        cr_assert_lt(++n, 2 * RATE, "there is no rate");
    rig_advance(10 * NSEC_PER_SEC);
    return n;
}

static void make_parts(void) {
    const struct lease_part part = {.length = 8, .ttl_ns = 80000 * MS, .rights = RDMAD_RIGHT_READ};
    struct lease *child;
    struct error err;
    for (unsigned i = 0; i < PARTS; i++)
        cr_assert_eq(lease_delegate(whole, &part, &child, &err), 0, "%s", err.text);
}

static void renew(uint64_t ttl_ms) {
    const struct request rq = {.session = owner, .type = RDMAD_MSG_LEASE_RENEW};
    const struct rdmad_lease_renew_req req = {.lease = whole->id, .ttl_ns = ttl_ms * MS};
    serve_lease_renew(&rq, &req);
    cr_assert_eq(code, 0);
}

Test(lease_calls, a_lease_with_parts_that_is_cut_short_counts_as_many_calls) {
    make_parts();
    renew(200000);
    cr_expect_eq(calls_left(), RATE, "a longer one leaves its parts alone");
    renew(50000);
    unsigned left = calls_left();
    cr_expect_leq(left, RATE - PARTS / 8, "%u of %u calls are left after one renewal", left, RATE);
    cr_expect_geq(left, RATE - PARTS);
    cr_expect_eq(replies, 2);
}

Test(lease_calls, a_lease_without_parts_that_is_cut_short_is_one_call) {
    renew(50000);
    cr_expect_eq(calls_left(), RATE);
}
