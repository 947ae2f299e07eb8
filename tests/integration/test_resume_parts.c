/* SPDX-License-Identifier: MIT */
/*
 * test_resume_parts.c - leases that were made of leases, by others than their owner, outlive the
 * owner's daemon: with their URIs and their terms, never wider or longer, and they end with what
 * they are of.
 */
#include "tests/support/two.h"

#include <string.h>
#include <unistd.h>

enum { KIB = 1024, ALL = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_DELEGATE };

static void each_route(void (*promise)(struct two *t)) {
    need_hole_guard();
    two_each_route(promise);
}

/* The owner's daemon. */
static void restart(struct two *t, bool in_order) {
    if (in_order)
        tdaemon_end(t->a);
    else
        tdaemon_kill(t->a);
    tdaemon_restart(t->a);
    (void)client_event(t->owner, RDMAD_EVENT_SESSION_RESUMED);
}

/* A part that begins at 4 KiB of l and is as long. */
static void hand_on(rdmad_session *s, rdmad_lease *l, uint32_t rights, uint32_t max_attaches,
                    uint64_t ttl_ms, char *uri) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    terms.rights = rights;
    terms.max_attaches = max_attaches;
    terms.ttl_ms = ttl_ms;
    CHECK(!rdmad_lease_delegate(l, 4 * KIB, 4 * KIB, &terms, 0, uri), "%s", rdmad_last_error(s));
}

/* Its owner may not have brought it back yet. */
static rdmad_lease *attach_in_time(rdmad_session *s, const char *uri) {
    rdmad_lease *l = NULL;
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    while (rdmad_lease_attach(s, uri, 0, &l) && now_ms() < until)
        sleep_ms(5);
    CHECK(l, "%s: %s", uri, rdmad_last_error(s));
    return l;
}

/* Writes by l land at that offset of the owner's memory, and nowhere beside it. */
static void lands(struct two *t, rdmad_lease *l, size_t at, char what) {
    memset(t->theirs, 0, TWO_LEASE);
    memset(t->mine, what, KIB);
    CHECK(!rdmad_write(l, 0, t->mine, KIB), "%s", rdmad_last_error(t->lessee));
    for (size_t i = 0; i < TWO_LEASE; i++)
        CHECK(t->theirs[i] == (i >= at && i < at + KIB ? what : 0), "byte %zu is %d", i,
              t->theirs[i]);
}

/* What a part cannot do it cannot do afterwards either. */
static void bounds_are_kept(struct two *t, rdmad_lease *l) {
    struct rdmad_lease_info info = client_info(l);
    CHECK(!info.ended && info.length == 4 * KIB && info.rights == RDMAD_RIGHT_WRITE,
          "ended %d, %llu bytes, rights %u", info.ended, (unsigned long long)info.length,
          info.rights);
    client_refused(t->lessee, rdmad_write(l, 3 * KIB, t->mine, 2 * KIB), RDMAD_E_RANGE, "");
    client_refused(t->lessee, rdmad_read(l, 0, t->mine, 8), RDMAD_E_RIGHTS, "");
}

static void goes_on(struct two *t) {
    char uri[RDMAD_URI_MAX + 1];
    rdmad_lease *own = two_grant(t, ALL, 0, 0);
    rdmad_lease *whole = client_attach(t->lessee, rdmad_lease_uri(own));
    hand_on(t->lessee, whole, RDMAD_RIGHT_WRITE, 0, 0, uri);
    rdmad_lease *part = client_attach(t->lessee, uri);
    for (unsigned i = 0; i < test_count(10); i++) {
        restart(t, i % 2);
        lands(t, part, 4 * KIB, (char)('a' + i % 26));
        bounds_are_kept(t, part);
        rdmad_lease *more = attach_in_time(t->lessee, uri); /* who has only its URI */
        lands(t, more, 4 * KIB, (char)('A' + i % 26));
        bounds_are_kept(t, more);
        rdmad_lease_free(more);
    }
    CHECK(!rdmad_lease_revoke(own), "%s", rdmad_last_error(t->owner));
    client_refused(t->lessee, rdmad_write(part, 0, t->mine, 8), RDMAD_E_LEASE_REVOKED, "revoked");
    CHECK(rdmad_lease_attach(t->lessee, uri, 0, &part) == RDMAD_E_LEASE_REVOKED, "%s",
          rdmad_last_error(t->lessee));
}

static void a_part_outlives_its_owners_daemon(void) {
    each_route(goes_on);
}

/* Of a lease that is published, whose number is another afterwards; and a part of the part. */
static void deeper(struct two *t) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    char uri[RDMAD_URI_MAX + 1], deep[RDMAD_URI_MAX + 1];
    rdmad_lease *own;
    uint64_t id;
    do { /* so that the numbers of the parts do not lie in the order in which they are kept */
        own = two_grant(t, ALL, 0, 0);
        id = client_info(own).id;
        rdmad_lease_free(own);
    } while (id % 256 != 253);
    terms.name = "published";
    terms.rights = ALL;
    CHECK(!rdmad_lease_grant(t->owner, t->theirs, TWO_LEASE, &terms, &own), "%s",
          rdmad_last_error(t->owner));
    rdmad_lease *whole = client_attach(t->lessee, rdmad_lease_uri(own));
    terms = (struct rdmad_lease_terms)RDMAD_LEASE_TERMS_INIT;
    terms.rights = ALL;
    CHECK(!rdmad_lease_delegate(whole, 8 * KIB, 16 * KIB, &terms, 0, uri), "%s",
          rdmad_last_error(t->lessee));
    rdmad_lease *part = client_attach(t->lessee, uri);
    hand_on(t->lessee, part, RDMAD_RIGHT_WRITE, 0, 0, deep);
    rdmad_lease *deepest = client_attach(t->lessee, deep);
    for (unsigned i = 0; i < 3; i++) {
        restart(t, false);
        lands(t, deepest, 12 * KIB, (char)('a' + i));
        bounds_are_kept(t, deepest);
    }
    CHECK(!rdmad_lease_revoke(own), "%s", rdmad_last_error(t->owner));
    client_refused(t->lessee, rdmad_write(deepest, 0, t->mine, 8), RDMAD_E_LEASE_REVOKED,
                   "revoked");
}

static void a_part_of_a_part_of_a_published_lease_does_too(void) {
    each_route(deeper);
}

/* What has ended before does not come back. */
static void ended(struct two *t) {
    char once[RDMAD_URI_MAX + 1], brief[RDMAD_URI_MAX + 1], lasting[RDMAD_URI_MAX + 1];
    rdmad_lease *own = two_grant(t, ALL, 0, 0), *l;
    rdmad_lease *whole = client_attach(t->lessee, rdmad_lease_uri(own));
    json_t *objects = tdaemon_objects(t->a);
    json_t *before = json_pack("{s:O}", "leases", json_object_get(objects, "leases"));
    json_decref(objects);
    hand_on(t->lessee, whole, RDMAD_RIGHT_WRITE, 1, 0, once);
    rdmad_lease_free(client_attach(t->lessee, once)); /* for one lessee, who is gone */
    tdaemon_expect_objects(t->a, before);
    hand_on(t->lessee, whole, RDMAD_RIGHT_WRITE, 0, 300, brief);
    hand_on(t->lessee, whole, RDMAD_RIGHT_WRITE, 0, 0, lasting);
    tdaemon_kill(t->a);
    sleep_ms(300); /* it expires while there is no daemon */
    tdaemon_restart(t->a);
    rdmad_lease_free(attach_in_time(t->lessee, lasting)); /* so all are back that will be */
    int rc = rdmad_lease_attach(t->lessee, once, 0, &l);
    CHECK(rc == RDMAD_E_NO_LEASE, "%s: who was alone with it had released it", rdmad_errname(rc));
    rc = rdmad_lease_attach(t->lessee, brief, 0, &l);
    CHECK(rc == RDMAD_E_NO_LEASE, "%s: it had expired", rdmad_errname(rc));
}

static void a_part_that_has_ended_stays_away(void) {
    each_route(ended);
}

/* The owner cuts the lease short, and with it the part; that the lease lives for longer again
 * afterwards is not for the part. */
static void cut_short(struct two *t) {
    char uri[RDMAD_URI_MAX + 1];
    rdmad_lease *own = two_grant(t, ALL, 100000, 0);
    rdmad_lease *whole = client_attach(t->lessee, rdmad_lease_uri(own));
    hand_on(t->lessee, whole, RDMAD_RIGHT_WRITE, 0, 90000, uri);
    rdmad_lease *part = client_attach(t->lessee, uri);
    CHECK(!rdmad_lease_renew(own, 60000), "%s", rdmad_last_error(t->owner));
    CHECK(!rdmad_lease_renew(own, 100000), "%s", rdmad_last_error(t->owner));
    restart(t, false);
    lands(t, part, 4 * KIB, 'x');
    rdmad_lease *again = attach_in_time(t->lessee, uri);
    CHECK(client_info(again).ttl_ms <= 60000, "it has %llu ms",
          (unsigned long long)client_info(again).ttl_ms);
    CHECK(client_info(own).ttl_ms > 60000, "the lease has %llu ms",
          (unsigned long long)client_info(own).ttl_ms);
}

static void a_part_lives_no_longer_than_it_was_to(void) {
    each_route(cut_short);
}

/* The program that granted the lease does not take part. */
static void without(struct two *t) {
    char uri[RDMAD_URI_MAX + 1];
    rdmad_lease *own = two_grant(t, ALL, 0, 0), *l;
    rdmad_lease *whole = client_attach(t->lessee, rdmad_lease_uri(own));
    hand_on(t->lessee, whole, RDMAD_RIGHT_WRITE, 0, 0, uri);
    tdaemon_kill(t->a);
    rdmad_close(t->owner);
    tdaemon_restart(t->a);
    t->owner = client_with_pool(t->a, TWO_POOL, &t->owner_pool);
    t->theirs = rdmad_pool_base(t->owner_pool);
    two_grant(t, ALL, 0, 0);
    int rc;
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    do
        rc = rdmad_lease_attach(t->lessee, uri, 0, &l);
    while (rc != RDMAD_E_NO_LEASE && now_ms() < until);
    CHECK(rc == RDMAD_E_NO_LEASE, "%s: %s", rdmad_errname(rc), rdmad_last_error(t->lessee));
}

static void a_part_does_not_come_back_without_its_owner(void) {
    each_route(without);
}

TEST_MAIN(CASE(a_part_outlives_its_owners_daemon),
          CASE(a_part_of_a_part_of_a_published_lease_does_too),
          CASE(a_part_that_has_ended_stays_away), CASE(a_part_lives_no_longer_than_it_was_to),
          CASE(a_part_does_not_come_back_without_its_owner))
