/* SPDX-License-Identifier: MIT */
/*
 * test_resume_budget.c - a service's budget outlives its daemon: what was handed over stays the
 * program's until it gives it back, what was requested ends with a word, and nothing is given out
 * twice.
 */
#include "tests/support/two.h"

#include <string.h>
#include <unistd.h>

enum { PIECE = 4096, PIECES = 200 }; /* more than one request of the library has room for */

static void each_route(void (*promise)(struct two *t)) {
    need_hole_guard();
    two_each_route(promise);
}

/* A service that gives out the first PIECES pieces of its owner's memory. */
static void serve(struct two *t) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    terms.budget = t->theirs;
    terms.budget_bytes = (size_t)PIECES * PIECE;
    terms.max_ttl_ms = 600000;
    terms.max_rights = RDMAD_RIGHT_WRITE;
    CHECK(!rdmad_listen(t->owner, "budget", &terms, &t->service), "%s", rdmad_last_error(t->owner));
    snprintf(t->uri, sizeof(t->uri), "%s", rdmad_service_uri(t->service));
}

static void restart(struct two *t, bool in_order) {
    if (in_order)
        tdaemon_end(t->a);
    else
        tdaemon_kill(t->a);
    tdaemon_restart(t->a);
}

static int request(struct two *t, rdmad_lease **out) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    terms.rights = RDMAD_RIGHT_WRITE;
    return rdmad_lease_request(t->lessee, t->uri, PIECE, &terms, 0, out);
}

/* The service may not be back yet. */
static rdmad_lease *request_in_time(struct two *t) {
    rdmad_lease *l = NULL;
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    while (request(t, &l) && now_ms() < until)
        sleep_ms(5);
    CHECK(l, "%s", rdmad_last_error(t->lessee));
    return l;
}

static void fill(struct two *t, rdmad_lease *l, char what) {
    memset(t->mine, what, PIECE);
    CHECK(!rdmad_write(l, 0, t->mine, PIECE), "%s", rdmad_last_error(t->lessee));
}

static bool holds(const char *piece, char what) {
    for (unsigned i = 0; i < PIECE; i++)
        if (piece[i] != what)
            return false;
    return true;
}

/* One that is filled and handed over, and where the owner has it. */
static char *handed_over(struct two *t, char what) {
    rdmad_lease *l = request_in_time(t);
    fill(t, l, what);
    CHECK(!rdmad_lease_hand_over(l), "%s", rdmad_last_error(t->lessee));
    struct rdmad_event e = client_event(t->owner, RDMAD_EVENT_HANDED_OVER);
    CHECK(e.service == t->service && e.length == PIECE && holds(e.memory, what), "%s", e.text);
    return e.memory;
}

/* How many pieces there are to be had; each is filled with zeros, so nothing else may be. */
static unsigned take_all(struct two *t) {
    rdmad_lease *l[PIECES + 1];
    unsigned n = 0;
    l[n++] = request_in_time(t);
    while (n <= PIECES && request(t, &l[n]) == 0)
        n++;
    CHECK(strstr(rdmad_last_error(t->lessee), "left of"), "%s", rdmad_last_error(t->lessee));
    for (unsigned i = 0; i < n; i++)
        fill(t, l[i], 0);
    for (unsigned i = 0; i < n; i++)
        rdmad_lease_free(l[i]);
    return n;
}

static void kept(struct two *t) {
    enum { KEPT = 100 };
    char *mine[KEPT];
    serve(t);
    for (unsigned i = 0; i < KEPT; i++)
        mine[i] = handed_over(t, (char)(i + 1));
    for (unsigned i = 0; i < 4; i++) {
        restart(t, i % 2);
        (void)client_event(t->owner, RDMAD_EVENT_SESSION_RESUMED);
        unsigned n = take_all(t);
        CHECK(n == PIECES - KEPT + i, "%u pieces are given out, not %u", n, PIECES - KEPT + i);
        for (unsigned k = i; k < KEPT; k++)
            CHECK(holds(mine[k], (char)(k + 1)), "piece %u is the program's, and was given out", k);
        CHECK(!rdmad_service_free(t->service, mine[i]), "%s", rdmad_last_error(t->owner));
        client_refused(t->owner, rdmad_service_free(t->service, mine[i]), RDMAD_E_HANDLE,
                       "given back");
    }
    rdmad_service_close(t->service);
}

static void what_was_handed_over_stays_the_programs(void) {
    each_route(kept);
}

/* It comes by an event that was not taken before the end: it is the program's nevertheless. */
static void untaken(struct two *t) {
    serve(t);
    rdmad_lease *l = request_in_time(t);
    fill(t, l, 'u');
    CHECK(!rdmad_lease_hand_over(l), "%s", rdmad_last_error(t->lessee));
    restart(t, false);
    unsigned n = take_all(t);
    CHECK(n == PIECES - 1, "%u pieces are given out", n);
    struct rdmad_event e = client_event(t->owner, RDMAD_EVENT_HANDED_OVER);
    CHECK(holds(e.memory, 'u'), "it was given out");
    CHECK(!rdmad_service_free(t->service, e.memory), "%s", rdmad_last_error(t->owner));
    n = take_all(t);
    CHECK(n == PIECES, "%u pieces are given out", n);
    rdmad_service_close(t->service);
}

static void also_what_it_had_not_heard_of(void) {
    each_route(untaken);
}

/* Who had requested memory is told that it is over; what it does with it lands nowhere. */
static void ends(struct two *t) {
    serve(t);
    rdmad_lease *old = request_in_time(t);
    fill(t, old, 'o');
    restart(t, false);
    struct rdmad_event e = client_event(t->lessee, RDMAD_EVENT_LEASE_ENDED);
    CHECK(e.lease == old && (e.reason == RDMAD_E_DAEMON_LOST || e.reason == RDMAD_E_PEER_LOST) &&
              e.text[0],
          "%s: %s", rdmad_errname(e.reason), e.text);
    rdmad_lease *l = request_in_time(t);
    fill(t, l, 'n');
    memset(t->mine, 'o', PIECE);
    CHECK(rdmad_write(old, 0, t->mine, PIECE) < 0, "it still reaches the memory");
    CHECK(holds(t->theirs, 'n'), "the first piece was given out, and is somebody else's");
    rdmad_service_close(t->service);
}

static void what_was_requested_ends_with_a_word(void) {
    each_route(ends);
}

/* While there is no daemon: the next one hears the calls, of the service that they mean. */
static void meanwhile(struct two *t) {
    rdmad_service *other;
    rdmad_channel *c;
    serve(t);
    CHECK(!rdmad_listen(t->owner, "other", NULL, &other), "%s", rdmad_last_error(t->owner));
    char *mine = handed_over(t, 'm');
    tdaemon_kill(t->a);
    tdaemon_restart(t->a);
    CHECK(!rdmad_service_free(t->service, mine), "%s", rdmad_last_error(t->owner));
    tdaemon_kill(t->a);
    tdaemon_restart(t->a);
    rdmad_service_close(t->service);
    int rc;
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    do
        rc = rdmad_connect(t->lessee, rdmad_service_uri(other), RDMAD_CHANNEL_RELIABLE, 200, &c);
    while (rc != RDMAD_E_TIMEOUT && now_ms() < until);
    CHECK(rc == RDMAD_E_TIMEOUT, "the other was closed: %s", rdmad_last_error(t->lessee));
    rdmad_lease *l;
    CHECK(request(t, &l) == RDMAD_E_NO_SERVICE, "%s", rdmad_last_error(t->lessee));
    rdmad_service_close(other);
}

static void what_is_asked_meanwhile_is_of_the_service_that_was_meant(void) {
    each_route(meanwhile);
}

TEST_MAIN(CASE(what_was_handed_over_stays_the_programs), CASE(also_what_it_had_not_heard_of),
          CASE(what_was_requested_ends_with_a_word),
          CASE(what_is_asked_meanwhile_is_of_the_service_that_was_meant))
