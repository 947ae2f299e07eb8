/* SPDX-License-Identifier: MIT */
/*
 * test_lease_told.c - what owner and lessees are told of a lease by others: by an administrator who
 * ends it, and by lessees' daemons of its use. On one daemon and between two.
 */
#include "tests/support/two.h"

#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>

enum { KIB = 1 << 10 };

#define ALL_BUT_ATOMIC (RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_DELEGATE)

/* ---- use ------------------------------------------------------------------------------------- */

static struct rdmad_lease_audit audited(rdmad_lease *l) {
    struct rdmad_lease_audit a = RDMAD_LEASE_AUDIT_INIT;
    CHECK(!rdmad_lease_get_audit(l, &a), "%s", rdmad_lease_uri(l));
    return a;
}

/* A row of lease show, by the lease's number. */
static json_t *row_of(struct two *t, uint64_t id) {
    json_t *reply = tdaemon_call(t->a, "lease.show", NULL), *row, *found = NULL;
    size_t i;
    json_array_foreach(json_object_get(reply, "leases"), i, row) {
        if ((uint64_t)json_integer_value(json_object_get(row, "id")) == id)
            found = json_incref(row);
    }
    CHECK(found, "lease %llu is not shown", (unsigned long long)id);
    json_decref(reply);
    return found;
}

static void use_is_told(struct two *t) {
    rdmad_lease *l = two_grant(t, 0, 0, 0), *there = client_attach(t->lessee, rdmad_lease_uri(l));
    bool link = t->a != t->b;
    struct rdmad_lease_audit a = audited(l);
    CHECK(!a.ops && !a.said_ops, "nobody has used it");
    for (unsigned i = 0; i < 100; i++)
        CHECK(!rdmad_write(there, 0, t->mine, 4 * KIB), "%s", rdmad_last_error(t->lessee));
    CHECK(!rdmad_read(there, 0, t->mine, 5), "%s", rdmad_last_error(t->lessee));
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    do /* while the lease lives */
        a = audited(l);
    while (link && a.said_ops != 101 && now_ms() < until);
    CHECK(a.said_ops == (link ? 101 : 0), "%llu ops are told", (unsigned long long)a.said_ops);
    CHECK(!rdmad_read(there, 0, t->mine, 5), "%s", rdmad_last_error(t->lessee));
    rdmad_lease_free(there);
    do /* and at once when the lessee leaves */
        a = audited(l);
    while (a.attached && now_ms() < until);
    CHECK(a.said_ops == (link ? 102 : 0) && a.said_bytes_read == (link ? 10 : 0) &&
              a.said_bytes_written == (link ? 400 * KIB : 0),
          "%llu ops, %llu bytes read, %llu written are told", (unsigned long long)a.said_ops,
          (unsigned long long)a.said_bytes_read, (unsigned long long)a.said_bytes_written);
    if (!link || !strcmp(test_fabric(), "tcp"))
        CHECK(a.ops == 102 && a.bytes_read == 10 && a.bytes_written == 400 * KIB,
              "%llu ops were counted", (unsigned long long)a.ops);
    json_t *row = row_of(t, client_info(l).id), *said = json_object_get(row, "lessees_daemons_say");
    CHECK(json_integer_value(json_object_get(said, "ops")) == (link ? 102 : 0), "it is shown");
    json_decref(row);
    rdmad_lease_free(l);
}

static void an_audit_tells_what_lessees_daemons_say_apart(void) {
    two_each_route(use_is_told);
}

/* ---- an administrator's end ----------------------------------------------------------------- */

static void admin_revokes(struct two *t) {
    rdmad_lease *l = two_grant(t, ALL_BUT_ATOMIC, 0, 0);
    rdmad_lease *there = client_attach(t->lessee, rdmad_lease_uri(l)), *part, *none;
    char uri[RDMAD_URI_MAX + 1];
    struct rdmad_event e = RDMAD_EVENT_INIT;

    CHECK(!rdmad_lease_delegate(there, 0, 4 * KIB, NULL, 0, uri), "%s",
          rdmad_last_error(t->lessee));
    part = client_attach(t->lessee, uri);
    CHECK(!rdmad_write(there, 0, t->mine, 8), "%s", rdmad_last_error(t->lessee));
    json_decref(tdaemon_call(t->a, "lease.revoke",
                             json_pack("{s:I}", "id", (json_int_t)client_info(l).id)));
    e = client_event(t->owner, RDMAD_EVENT_LEASE_ENDED);
    CHECK(e.lease == l && e.reason == RDMAD_E_LEASE_ADMIN &&
              strstr(e.text, "revoked by an administrator"),
          "the owner hears %s: %s", rdmad_errname(e.reason), e.text);
    for (int i = 0; i < 2; i++) {
        e = client_event(t->lessee, RDMAD_EVENT_LEASE_ENDED);
        CHECK((e.lease == there || e.lease == part) && e.reason == RDMAD_E_LEASE_ADMIN &&
                  strstr(e.text, "revoked by an administrator"),
              "a lessee hears %s: %s", rdmad_errname(e.reason), e.text);
    }
    client_refused(t->lessee, rdmad_write(there, 0, t->mine, 8), RDMAD_E_LEASE_ADMIN,
                   "administrator");
    client_refused(t->lessee, rdmad_read(part, 0, t->mine, 8), RDMAD_E_LEASE_ADMIN,
                   "administrator");
    client_refused(t->lessee, rdmad_lease_attach(t->lessee, rdmad_lease_uri(l), 0, &none),
                   RDMAD_E_LEASE_ADMIN, "by an administrator");
    CHECK(!rdmad_lease_revoke(l), "it has ended already: %s", rdmad_last_error(t->owner));
    rdmad_lease_free(part);
    rdmad_lease_free(there);
    rdmad_lease_free(l);
}

static void an_administrators_revoke_is_told_as_his(void) {
    two_each_route(admin_revokes);
}

TEST_MAIN(CASE(an_audit_tells_what_lessees_daemons_say_apart),
          CASE(an_administrators_revoke_is_told_as_his))
