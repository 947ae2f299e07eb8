/* SPDX-License-Identifier: MIT */
/*
 * test_lease_complete.c - leases beyond grant and attach, with real daemons: made of others, kept
 * alive, asked of a service and handed over.
 *
 * Every promise is kept the same on one daemon (route local) and between two (route link).
 */
#include "tests/support/two.h"

#include <rdmad/rdmad.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { KIB = 1 << 10, MIB = 1 << 20, BUDGET = 4 * MIB };

/* ---- leases of leases ----------------------------------------------------------------------- */

#define ALL_BUT_ATOMIC (RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_DELEGATE)

static void a_part(struct two *t) {
    rdmad_lease *l = two_grant(t, ALL_BUT_ATOMIC, 0, 0);
    rdmad_lease *whole = client_attach(t->lessee, rdmad_lease_uri(l)), *part, *none;
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    char uri[RDMAD_URI_MAX + 1], deeper[RDMAD_URI_MAX + 1];
    rdmad_session *third = client_open(t->b);
    rdmad_pool *pool;

    CHECK(!rdmad_pool_create(third, 64 * KIB, 0, &pool), "%s", rdmad_last_error(third));
    terms.rights = RDMAD_RIGHT_WRITE;
    CHECK(!rdmad_lease_delegate(whole, 4 * KIB, 8 * KIB, &terms, 0, uri), "%s",
          rdmad_last_error(t->lessee));
    part = client_attach(third, uri);
    CHECK(client_info(part).length == 8 * KIB && client_info(part).rights == RDMAD_RIGHT_WRITE,
          "%llu bytes, rights %u", (unsigned long long)client_info(part).length,
          client_info(part).rights);
    CHECK(client_info(part).ttl_ms > 0 && client_info(part).ttl_ms <= client_info(l).ttl_ms + 1000,
          "it outlives what it is of");
    memset(rdmad_pool_base(pool), 'p', 8 * KIB);
    CHECK(!rdmad_write(part, 0, rdmad_pool_base(pool), 8 * KIB), "%s", rdmad_last_error(third));
    CHECK(t->theirs[4 * KIB] == 'p' && t->theirs[12 * KIB - 1] == 'p', "it is not there");
    CHECK(!t->theirs[4 * KIB - 1] && !t->theirs[12 * KIB], "it is more than the part");
    client_refused(third, rdmad_write(part, 1, rdmad_pool_base(pool), 8 * KIB), RDMAD_E_RANGE,
                   "lease");
    client_refused(third, rdmad_read(part, 0, rdmad_pool_base(pool), 8), RDMAD_E_RIGHTS, "lease");
    client_refused(third, rdmad_lease_delegate(part, 0, 1, NULL, 0, deeper), RDMAD_E_DELEGATE,
                   "RDMAD_RIGHT_DELEGATE");

    rdmad_lease_free(whole); /* the part is of the lease, not of the attach */
    CHECK(!rdmad_write(part, 0, rdmad_pool_base(pool), 1), "%s", rdmad_last_error(third));
    CHECK(!rdmad_lease_revoke(l), "%s", rdmad_last_error(t->owner));
    CHECK(rdmad_write(part, 0, rdmad_pool_base(pool), 1) == RDMAD_E_LEASE_REVOKED, "%s",
          rdmad_last_error(third));
    CHECK(client_event(third, RDMAD_EVENT_LEASE_ENDED).reason == RDMAD_E_LEASE_REVOKED, "why");
    CHECK(rdmad_lease_attach(third, uri, 0, &none) == RDMAD_E_LEASE_REVOKED, "%s",
          rdmad_last_error(third));
    rdmad_lease_free(part);
    rdmad_lease_free(l);
    rdmad_close(third);
}

static void a_part_grants_no_more_and_ends_with_its_lease(void) {
    two_each_route(a_part);
}

/* The owner takes count notifications of l, imm from first on, whoever left them. */
static void taken(struct two *t, rdmad_lease *l, uint32_t first, unsigned count) {
    for (uint32_t imm = first; imm < first + count; imm++) {
        uint64_t bytes = 0;
        uint32_t got = 0;
        CHECK(!rdmad_wait_notified(l, (int)TEST_PATIENCE_MS, &got, &bytes), "%u: %s", imm,
              rdmad_last_error(t->owner));
        CHECK(got == imm && bytes == 8, "%u of %llu bytes, not %u", got, (unsigned long long)bytes,
              imm);
    }
}

/* As many as one attach may leave, three times. */
static void notify_and_take(struct two *t, rdmad_lease *from, rdmad_lease *to) {
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t first = round * RDMAD_NOTIFY_DEPTH;
        for (uint32_t n = 0; n < RDMAD_NOTIFY_DEPTH; n++) {
            uint64_t until = now_ms() + TEST_PATIENCE_MS;
            int rc;
            while ((rc = rdmad_write_notify(from, 0, t->mine, 8, first + n)) == RDMAD_E_NO_WAITER &&
                   round && now_ms() < until) /* word of some that were taken is on its way */
                sleep_ms(2);
            CHECK(!rc, "round %u, number %u: %s", round, n, rdmad_last_error(t->lessee));
        }
        taken(t, to, first, RDMAD_NOTIFY_DEPTH);
    }
}

static void parts_tell(struct two *t) {
    static const uint32_t rights[] = {ALL_BUT_ATOMIC, RDMAD_RIGHTS_ALL};
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    char uri[RDMAD_URI_MAX + 1], deeper[RDMAD_URI_MAX + 1];

    for (size_t i = 0; i < sizeof(rights) / sizeof(*rights); i++) {
        rdmad_lease *l = two_grant(t, rights[i], 0, 0);
        rdmad_lease *whole = client_attach(t->lessee, rdmad_lease_uri(l)), *part, *grandchild;
        terms.rights = rights[i];
        CHECK(!rdmad_lease_delegate(whole, 4 * KIB, 8 * KIB, &terms, 0, uri), "%s",
              rdmad_last_error(t->lessee));
        part = client_attach(t->lessee, uri);
        CHECK(!rdmad_lease_delegate(part, KIB, KIB, NULL, 0, deeper), "%s",
              rdmad_last_error(t->lessee));
        grandchild = client_attach(t->lessee, deeper);
        notify_and_take(t, part, l);
        notify_and_take(t, grandchild, l);
        notify_and_take(t, whole, l);

        /* What was left outlives who left it, and its part. */
        CHECK(!rdmad_write_notify(grandchild, 0, t->mine, 8, 7), "%s", rdmad_last_error(t->lessee));
        rdmad_lease_free(grandchild);
        rdmad_lease_free(part);
        taken(t, l, 7, 1);
        rdmad_lease_free(whole);
        CHECK(!rdmad_lease_revoke(l), "%s", rdmad_last_error(t->owner));
        rdmad_lease_free(l);
    }
}

static void what_lessees_of_a_part_leave_its_leases_owner_takes(void) {
    two_each_route(parts_tell);
}

static void no_more_than_it_has(struct two *t) {
    rdmad_lease *l = two_grant(t, RDMAD_RIGHT_READ | RDMAD_RIGHT_DELEGATE, 0, 0);
    rdmad_lease *plain = two_grant(t, 0, 0, 0);
    rdmad_lease *whole = client_attach(t->lessee, rdmad_lease_uri(l));
    rdmad_lease *dull = client_attach(t->lessee, rdmad_lease_uri(plain));
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    char uri[RDMAD_URI_MAX + 1];
    rdmad_session *s = t->lessee;

    client_refused(s, rdmad_lease_delegate(dull, 0, 8, NULL, 0, uri), RDMAD_E_DELEGATE,
                   "RDMAD_RIGHT_DELEGATE");
    client_refused(s, rdmad_lease_delegate(whole, 64 * KIB, 1, NULL, 0, uri), RDMAD_E_RANGE,
                   "65536");
    client_refused(s, rdmad_lease_delegate(whole, UINT64_MAX, 8, NULL, 0, uri), RDMAD_E_RANGE,
                   "part");
    client_refused(s, rdmad_lease_delegate(whole, 8, 0, NULL, 0, uri), RDMAD_E_RANGE, "part");
    terms.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE;
    client_refused(s, rdmad_lease_delegate(whole, 0, 8, &terms, 0, uri), RDMAD_E_RIGHTS, "0x3");
    terms.rights = 64;
    client_refused(s, rdmad_lease_delegate(whole, 0, 8, &terms, 0, uri), RDMAD_E_INVAL, "0x40");
    client_refused(t->owner, rdmad_lease_delegate(l, 0, 8, NULL, 0, uri), RDMAD_E_PERM, "granted");
    for (unsigned i = 0; i < 256; i++)
        CHECK(!rdmad_lease_delegate(whole, i, 8, NULL, 0, uri), "%u: %s", i, rdmad_last_error(s));
    client_refused(s, rdmad_lease_delegate(whole, 0, 8, NULL, 0, uri), RDMAD_E_LIMIT, "256");
    CHECK(!rdmad_lease_revoke(l), "%s", rdmad_last_error(t->owner));
    CHECK(rdmad_lease_delegate(whole, 0, 8, NULL, 0, uri) == RDMAD_E_LEASE_REVOKED, "%s",
          rdmad_last_error(s));
    rdmad_lease_free(whole);
    rdmad_lease_free(dull);
    rdmad_lease_free(plain);
    rdmad_lease_free(l);
}

static void what_a_lease_does_not_have_cannot_be_handed_on(void) {
    two_each_route(no_more_than_it_has);
}

/* ---- how long ------------------------------------------------------------------------------- */

/* Who keeps it must have had the processor before it is over, also on a busy machine. */
enum { KEPT_MS = 3000 };

static void alive(struct two *t) {
    rdmad_lease *kept = two_grant(t, 0, KEPT_MS, RDMAD_LEASE_KEEP_ALIVE);
    rdmad_lease *l = client_attach(t->lessee, rdmad_lease_uri(kept));

    sleep_ms(2 * KEPT_MS); /* the owner does nothing */
    CHECK(!rdmad_write(l, 0, t->mine, 64), "%s", rdmad_last_error(t->lessee));
    uint64_t left_ms = client_info(kept).ttl_ms;
    CHECK(left_ms >= KEPT_MS / 2 && left_ms <= KEPT_MS, "its owner hears of %llu ms",
          (unsigned long long)left_ms);
    rdmad_close(t->owner);
    CHECK(client_event(t->lessee, RDMAD_EVENT_LEASE_ENDED).reason == RDMAD_E_LEASE_ORPHANED, "why");
    t->owner = client_open(t->a);
    rdmad_lease_free(l);
}

static void a_lease_is_kept_alive_until_its_owner_is_gone(void) {
    two_each_route(alive);
}

static void renewable(struct two *t) {
    rdmad_lease *may = two_grant(t, 0, KEPT_MS, RDMAD_LEASE_RENEWABLE),
                *not = two_grant(t, 0, 60000, 0);
    rdmad_lease *l = client_attach(t->lessee, rdmad_lease_uri(may));
    rdmad_lease *other = client_attach(t->lessee, rdmad_lease_uri(not ));

    client_refused(t->lessee, rdmad_lease_keep(other, 1), RDMAD_E_PERM, "RDMAD_LEASE_RENEWABLE");
    CHECK(!rdmad_lease_keep(l, 1), "%s", rdmad_last_error(t->lessee));
    sleep_ms(2 * KEPT_MS);
    CHECK(!rdmad_write(l, 0, t->mine, 64), "%s", rdmad_last_error(t->lessee));
    CHECK(!rdmad_lease_keep(l, 0), "%s", rdmad_last_error(t->lessee));
    CHECK(client_event(t->lessee, RDMAD_EVENT_LEASE_ENDED).reason == RDMAD_E_LEASE_EXPIRED, "why");
    CHECK(rdmad_lease_keep(l, 1) == RDMAD_E_LEASE_EXPIRED, "%s", rdmad_last_error(t->lessee));
    rdmad_lease_free(l);
    rdmad_lease_free(other);
    rdmad_lease_free(not );
    rdmad_lease_free(may);
}

static void a_lessee_keeps_a_renewable_lease_and_no_other(void) {
    two_each_route(renewable);
}

static void two_releases(struct two *t) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *l, *one;
    terms.ends_after = 2;
    CHECK(!rdmad_lease_grant(t->owner, t->theirs, KIB, &terms, &l), "%s",
          rdmad_last_error(t->owner));
    for (int i = 0; i < 2; i++) {
        one = client_attach(t->lessee, rdmad_lease_uri(l));
        rdmad_lease_free(one);
    }
    struct rdmad_event e = client_event(t->owner, RDMAD_EVENT_LEASE_ENDED);
    CHECK(e.reason == RDMAD_E_LEASE_RELEASED && e.lease == l, "%s", e.text);
    rdmad_lease_free(l);
}

static void a_lease_ends_after_so_many_releases(void) {
    two_each_route(two_releases);
}

/* ---- requests ------------------------------------------------------------------------------- */

static void serve(struct two *t, size_t max_request) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    terms.budget = t->theirs;
    terms.budget_bytes = BUDGET;
    terms.max_request = max_request;
    terms.max_ttl_ms = 30000;
    CHECK(!rdmad_listen(t->owner, "memory", &terms, &t->service), "%s", rdmad_last_error(t->owner));
    snprintf(t->uri, sizeof(t->uri), "%s", rdmad_service_uri(t->service));
}

/* What was released a moment ago may still be on its way back. */
static rdmad_lease *requested(rdmad_session *s, const char *uri, size_t bytes) {
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    rdmad_lease *l;
    int rc;
    while ((rc = rdmad_lease_request(s, uri, bytes, NULL, 0, &l)) == RDMAD_E_BUDGET &&
           now_ms() < until)
        sleep_ms(2);
    CHECK(!rc, "%s", rdmad_last_error(s));
    return l;
}

static void filled(struct two *t) {
    serve(t, 0);
    memset(t->theirs, 's', BUDGET); /* what was there is nobody's business */
    rdmad_lease *l = requested(t->lessee, t->uri, MIB + 1);
    CHECK(client_info(l).length == MIB + 1 && client_info(l).rights == RDMAD_RIGHTS_DEFAULT,
          "its terms");
    CHECK(!rdmad_read(l, 0, t->mine, MIB + 1), "%s", rdmad_last_error(t->lessee));
    for (size_t i = 0; i < MIB + 1; i++)
        CHECK(!t->mine[i], "byte %zu says what was there before", i);
    for (size_t i = 0; i < MIB + 1; i++)
        t->mine[i] = (char)(i * 7);
    CHECK(!rdmad_write(l, 0, t->mine, MIB + 1), "%s", rdmad_last_error(t->lessee));
    CHECK(!rdmad_lease_hand_over(l), "%s", rdmad_last_error(t->lessee));

    struct rdmad_event e = client_event(t->owner, RDMAD_EVENT_HANDED_OVER);
    CHECK(e.service == t->service && e.length == MIB + 1, "%zu bytes", e.length);
    CHECK((char *)e.memory >= t->theirs && (char *)e.memory + e.length <= t->theirs + BUDGET,
          "it is not of the budget");
    CHECK(!memcmp(e.memory, t->mine, MIB + 1), "it is not what was written");
    /* It is the owner's until given back: nobody gets it, and then somebody does. */
    rdmad_lease *none;
    client_refused(t->lessee, rdmad_lease_request(t->lessee, t->uri, 3 * MIB, NULL, 0, &none),
                   RDMAD_E_BUDGET, "at a piece");
    CHECK(!rdmad_service_free(t->service, e.memory), "%s", rdmad_last_error(t->owner));
    client_refused(t->owner, rdmad_service_free(t->service, e.memory), RDMAD_E_HANDLE,
                   "given back");
    rdmad_lease_free(requested(t->lessee, t->uri, 3 * MIB));
}

static void requested_memory_is_filled_and_handed_over(void) {
    two_each_route(filled);
}

static void told_by_hand_over(struct two *t) {
    static const uint32_t rights[] = {0, RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC};

    serve(t, 0);
    memset(t->mine, 'n', 8);
    for (size_t i = 0; i < sizeof(rights) / sizeof(*rights); i++) {
        struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
        rdmad_lease *l;
        terms.rights = rights[i];
        CHECK(!rdmad_lease_request(t->lessee, t->uri, KIB, &terms, 0, &l), "%s",
              rdmad_last_error(t->lessee));
        client_refused(t->lessee, rdmad_write_notify(l, 0, t->mine, 8, 1), RDMAD_E_NO_WAITER,
                       "rdmad_lease_hand_over");
        CHECK(rdmad_last_outcome() == RDMAD_FAILED_UNTOUCHED, "outcome %d", rdmad_last_outcome());
        CHECK(!rdmad_write(l, 8, t->mine, 8), "%s", rdmad_last_error(t->lessee));
        CHECK(!rdmad_lease_hand_over(l), "%s", rdmad_last_error(t->lessee));
        const char *filled_by = client_event(t->owner, RDMAD_EVENT_HANDED_OVER).memory;
        CHECK(!filled_by[0], "a refused notification wrote");
        CHECK(filled_by[8] == 'n', "a write is not there");
    }
}

static void who_requested_tells_by_handing_over_alone(void) {
    two_each_route(told_by_hand_over);
}

static void too_much(struct two *t) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *a, *b, *none;
    rdmad_session *s = t->lessee;
    rdmad_lease *own = two_grant(t, 0, 0, 0), *plain = client_attach(s, rdmad_lease_uri(own));

    serve(t, MIB);
    client_refused(s, rdmad_lease_request(s, t->uri, MIB + 1, NULL, 0, &none), RDMAD_E_BUDGET,
                   "1048576");
    client_refused(s, rdmad_lease_request(s, t->uri, SIZE_MAX, NULL, 0, &none), RDMAD_E_BUDGET,
                   "memory");
    client_refused(s, rdmad_lease_request(s, t->uri, 0, NULL, 0, &none), RDMAD_E_INVAL,
                   "one at least");
    terms.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_DELEGATE;
    client_refused(s, rdmad_lease_request(s, t->uri, KIB, &terms, 0, &none), RDMAD_E_DELEGATE,
                   "one");
    terms = (struct rdmad_lease_terms)RDMAD_LEASE_TERMS_INIT;
    terms.ttl_ms = 30001;
    client_refused(s, rdmad_lease_request(s, t->uri, KIB, &terms, 0, &none), RDMAD_E_LIMIT,
                   "30000");
    a = requested(s, t->uri, MIB); /* half of what is there and its own is all it may have */
    b = requested(s, t->uri, MIB);
    client_refused(s, rdmad_lease_request(s, t->uri, 4 * KIB, NULL, 0, &none), RDMAD_E_BUDGET,
                   "release");
    client_refused(s, rdmad_lease_hand_over(plain), RDMAD_E_INVAL, "requested");
    rdmad_lease_free(a);
    rdmad_lease_free(b);
    rdmad_lease_free(requested(s, t->uri, MIB));

    char other[RDMAD_URI_MAX + 2];
    snprintf(other, sizeof(other), "%s2", t->uri);
    client_refused(s, rdmad_lease_request(s, other, KIB, NULL, 0, &none), RDMAD_E_NO_SERVICE,
                   "memory2");
    client_refused(s, rdmad_lease_request(s, rdmad_lease_uri(own), KIB, NULL, 0, &none),
                   RDMAD_E_URI, "service");
    rdmad_service *poor;
    CHECK(!rdmad_listen(t->owner, "poor", NULL, &poor), "%s", rdmad_last_error(t->owner));
    client_refused(s, rdmad_lease_request(s, rdmad_service_uri(poor), KIB, NULL, 0, &none),
                   RDMAD_E_BUDGET, "no memory");
    rdmad_service_close(poor);
    rdmad_lease_free(plain);
    rdmad_lease_free(own);
}

static void write_only(struct two *t) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    struct rdmad_lease_terms wish = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *l;
    terms.budget = t->theirs;
    terms.budget_bytes = BUDGET;
    terms.max_rights = RDMAD_RIGHT_DELEGATE;
    client_refused(t->owner, rdmad_listen(t->owner, "memory", &terms, &t->service), RDMAD_E_RIGHTS,
                   "max_rights is 0x8");
    terms.max_rights = RDMAD_RIGHT_WRITE;
    CHECK(!rdmad_listen(t->owner, "memory", &terms, &t->service), "%s", rdmad_last_error(t->owner));
    snprintf(t->uri, sizeof(t->uri), "%s", rdmad_service_uri(t->service));
    client_refused(t->lessee, rdmad_lease_request(t->lessee, t->uri, KIB, NULL, 0, &l),
                   RDMAD_E_RIGHTS, "rights 0x3 were asked, service \"memory\" gives 0x2 at most");
    wish.rights = RDMAD_RIGHT_WRITE;
    CHECK(!rdmad_lease_request(t->lessee, t->uri, KIB, &wish, 0, &l), "%s",
          rdmad_last_error(t->lessee));
    CHECK(!rdmad_write(l, 0, t->mine, KIB), "%s", rdmad_last_error(t->lessee));
    client_refused(t->lessee, rdmad_read(l, 0, t->mine, KIB), RDMAD_E_RIGHTS, "read");
    rdmad_lease_free(l);
    rdmad_service_close(t->service);
}

static void a_service_gives_the_rights_of_its_terms_and_no_more(void) {
    two_each_route(write_only);
}

static void a_request_beyond_the_budget_says_why(void) {
    two_each_route(too_much);
}

struct requester {
    struct tdaemon *d;
    const char *uri;
    int told;
};

static void request_and_hang(void *arg) {
    const struct requester *r = arg;
    rdmad_session *s = client_open(r->d);
    requested(s, r->uri, 3 * MIB);
    CHECK(write(r->told, "x", 1) == 1, "the test is gone");
    for (;;)
        pause();
}

static void killed(struct two *t) {
    int fds[2];
    char c;
    rdmad_lease *none;

    serve(t, 0);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(!pipe(fds), "no pipe");
        struct requester r = {.d = t->b, .uri = t->uri, .told = fds[1]};
        pid_t pid = client_fork(request_and_hang, &r);
        close(fds[1]);
        CHECK(read(fds[0], &c, 1) == 1, "it did not get its memory");
        CHECK(rdmad_lease_request(t->lessee, t->uri, 3 * MIB, NULL, 0, &none) == RDMAD_E_BUDGET,
              "it is not its own");
        client_kill(pid);
        close(fds[0]);
        rdmad_lease_free(requested(t->lessee, t->uri, 3 * MIB));
    }
}

static void what_a_killed_requester_had_is_free_again(void) {
    two_each_route(killed);
}

static void closed(struct two *t) {
    rdmad_lease *l, *none;
    serve(t, 0);
    l = requested(t->lessee, t->uri, MIB);
    rdmad_service_close(t->service);
    CHECK(client_event(t->lessee, RDMAD_EVENT_LEASE_ENDED).reason == RDMAD_E_LEASE_REVOKED, "why");
    CHECK(rdmad_lease_hand_over(l) == RDMAD_E_LEASE_REVOKED, "%s", rdmad_last_error(t->lessee));
    CHECK(rdmad_lease_request(t->lessee, t->uri, KIB, NULL, 0, &none) == RDMAD_E_NO_SERVICE, "%s",
          rdmad_last_error(t->lessee));
    rdmad_lease_free(l);
    CHECK(!rdmad_pool_destroy(t->owner_pool), "%s", rdmad_last_error(t->owner));
}

static void a_service_that_closes_takes_its_memory_back(void) {
    two_each_route(closed);
}

static json_int_t links_of(struct tdaemon *d) {
    json_t *objects = tdaemon_objects(d);
    json_int_t n = json_integer_value(json_object_get(objects, "links"));
    json_decref(objects);
    return n;
}

static void nothing_left(struct two *t) {
    /* With atomics: on some fabrics they make a daemon know itself, too. */
    rdmad_lease *before = two_grant(t, RDMAD_RIGHTS_ALL, 0, 0);
    rdmad_lease_free(
        client_attach(t->lessee, rdmad_lease_uri(before))); /* the daemons know each other */
    rdmad_lease_free(before);
    sleep_ms(1000); /* and let go of the link */
    for (uint64_t until = now_ms() + TEST_PATIENCE_MS; links_of(t->a) || links_of(t->b);) {
        CHECK(now_ms() < until, "nobody uses the link, and it stays");
        sleep_ms(20);
    }
    json_t *at_a = tdaemon_objects(t->a), *at_b = tdaemon_objects(t->b);
    rdmad_session *owner = t->owner, *lessee = t->lessee;
    char uri[RDMAD_URI_MAX + 1];

    t->owner = client_open(t->a);
    t->lessee = client_open(t->b);
    CHECK(!rdmad_pool_create(t->owner, TWO_POOL, 0, &t->owner_pool), "%s",
          rdmad_last_error(t->owner));
    t->theirs = rdmad_pool_base(t->owner_pool);
    serve(t, 0);
    for (unsigned i = 0; i < 5; i++)
        requested(t->lessee, t->uri, 300 * KIB);
    rdmad_lease *l =
        client_attach(t->lessee, rdmad_lease_uri(two_grant(t, RDMAD_RIGHTS_ALL, 0, 0)));
    CHECK(!rdmad_lease_delegate(l, 8, 8, NULL, 0, uri), "%s", rdmad_last_error(t->lessee));
    rdmad_close(t->owner);
    rdmad_close(t->lessee);
    t->owner = owner;
    t->lessee = lessee;
    tdaemon_expect_objects(t->a, at_a);
    tdaemon_expect_objects(t->b, at_b);
}

static void sessions_that_end_leave_nothing(void) {
    two_each_route(nothing_left);
}

/* ---- memory that is freed under a lease ----------------------------------------------------- */

/* Whether piece is among all that the pool has to give. */
static bool handed_out(rdmad_pool *pool, size_t size, const void *piece) {
    static void *taken[TWO_POOL / KIB + 1];
    unsigned n = 0;
    bool found = false;

    while ((taken[n] = rdmad_alloc(pool, size))) {
        found = found || taken[n] == piece;
        n++;
    }
    while (n)
        rdmad_free(pool, taken[--n]);
    return found;
}

/* A lease that ends soon, and an attach to it; a second, or as much more as it takes to attach. */
static rdmad_lease *lent_for_a_moment(struct two *t, char *piece, size_t size, rdmad_lease **own) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *l;
    int rc;
    for (terms.ttl_ms = 1000;; terms.ttl_ms *= 2) {
        CHECK(!rdmad_lease_grant(t->owner, piece, size, &terms, own), "%s",
              rdmad_last_error(t->owner));
        rc = rdmad_lease_attach(t->lessee, rdmad_lease_uri(*own), 0, &l);
        if (rc != RDMAD_E_LEASE_EXPIRED || terms.ttl_ms > TEST_PATIENCE_MS)
            break;
        rdmad_lease_free(*own);
    }
    CHECK(!rc, "%s", rdmad_last_error(t->lessee));
    return l;
}

static void freed_under_a_lease(struct two *t) {
    static const size_t sizes[] = {KIB, 8 * KIB, MIB};

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint64_t start = now_ms();
        char *piece = rdmad_alloc(t->owner_pool, sizes[i]);
        rdmad_lease *own, *l;

        CHECK(piece, "%s", rdmad_last_error(t->owner));
        l = lent_for_a_moment(t, piece, sizes[i], &own);
        rdmad_free(t->owner_pool, piece);
        if (handed_out(t->owner_pool, sizes[i], piece))
            CHECK(rdmad_write(l, 0, t->mine, 8), "a write landed in %zu bytes of somebody else's",
                  sizes[i]);
        while (!handed_out(t->owner_pool, sizes[i], piece)) /* nobody takes its event */
            CHECK(now_ms() - start < 10 * TEST_PATIENCE_MS, "%zu bytes never came back", sizes[i]);
        CHECK(rdmad_write(l, 0, t->mine, 8) == RDMAD_E_LEASE_EXPIRED, "the lease is alive: %s",
              rdmad_last_error(t->lessee));
        rdmad_lease_free(l);
        rdmad_lease_free(own);
    }
}

static void memory_freed_under_a_lease_is_nobody_elses_before_the_lease_has_ended(void) {
    two_each_route(freed_under_a_lease);
}

TEST_MAIN(CASE(a_part_grants_no_more_and_ends_with_its_lease),
          CASE(what_lessees_of_a_part_leave_its_leases_owner_takes),
          CASE(what_a_lease_does_not_have_cannot_be_handed_on),
          CASE(a_lease_is_kept_alive_until_its_owner_is_gone),
          CASE(a_lessee_keeps_a_renewable_lease_and_no_other),
          CASE(a_lease_ends_after_so_many_releases),
          CASE(requested_memory_is_filled_and_handed_over),
          CASE(who_requested_tells_by_handing_over_alone),
          CASE(a_request_beyond_the_budget_says_why),
          CASE(a_service_gives_the_rights_of_its_terms_and_no_more),
          CASE(what_a_killed_requester_had_is_free_again),
          CASE(a_service_that_closes_takes_its_memory_back), CASE(sessions_that_end_leave_nothing),
          CASE(memory_freed_under_a_lease_is_nobody_elses_before_the_lease_has_ended))
