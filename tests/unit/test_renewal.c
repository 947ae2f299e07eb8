/* SPDX-License-Identifier: MIT */
/*
 * A lease's new deadline reaches its lessees, and costs the control thread no more at a time
 * however many they are.
 */
#include "daemon/base/clock.h"
#include "daemon/state/delegate.h"
#include "daemon/state/renewal.h"
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>

TestSuite(renewal, .init = rig_up, .fini = rig_down);

enum { MANY = 200 };

static void attach_many(struct rig_peer *p, struct lease *l) {
    struct error err;
    for (unsigned i = 0; i < MANY; i++)
        cr_assert_eq(rig_peer_try(&p[i], l, "127.0.0.2", &err), 0, "%s", err.text);
}

static unsigned heard(const struct rig_peer *p, uint64_t deadline_ns) {
    unsigned n = 0;
    for (unsigned i = 0; i < MANY; i++)
        n += p[i].renewed && p[i].a.told_ns == deadline_ns;
    return n;
}

Test(renewal, very_many_lessees_hear_of_a_renewal_in_passes_and_of_the_newest_only) {
    static struct rig_peer many[MANY];
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 100000), *other = rig_grant(owner, 100000);
    struct rig_peer *p = rig_peer(other, "127.0.0.3");
    struct error err;
    unsigned passes = 0;
    attach_many(many, l);

    rig_advance(MS);
    cr_assert_eq(lease_renew(l, 200000 * MS, &err), 0);
    cr_expect_eq(heard(many, l->deadline_ns), RENEWAL_AT_ONCE);
    for (unsigned i = 0; i < 20; i++) {
        rig_advance(1);
        cr_assert_eq(lease_renew(l, 200000 * MS, &err), 0);
    }
    cr_assert_eq(lease_renew(other, 200000 * MS, &err), 0);
    cr_expect(p->renewed, "of another lease one waits for them");
    while (heard(many, l->deadline_ns) < MANY) {
        unsigned before = heard(many, l->deadline_ns);
        cr_assert_lt(passes++, MANY / RENEWAL_A_PASS + 2);
        rig_advance(1);
        cr_expect_leq(heard(many, l->deadline_ns) - before, RENEWAL_A_PASS);
    }
    unsigned told = (unsigned)fake_count(FAKE_WINDOW_EXTEND);
    rig_advance(1000);
    cr_expect_eq((unsigned)fake_count(FAKE_WINDOW_EXTEND), told, "there is one more pass");
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    rig_finish(l);
    rig_finish(other);
}

Test(renewal, a_lease_that_ends_while_its_lessees_hear_of_a_renewal_ends) {
    static struct rig_peer many[MANY];
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 100000);
    struct error err;
    attach_many(many, l);
    rig_advance(MS);
    cr_assert_eq(lease_renew(l, 200000 * MS, &err), 0);
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    uint64_t deadline_ns = l->deadline_ns;
    rig_advance(1000);
    cr_expect_eq(heard(many, deadline_ns), RENEWAL_AT_ONCE);
    rig_finish(l);
}

/* An owner's one request would else tell as many at once as its lease has parts and these have
 * lessees: 4,096. */
Test(renewal, lessees_of_many_parts_hear_in_passes) {
    static struct rig_peer many[MANY];
    const struct lease_part what = {
        .length = 64, .ttl_ns = 100000 * MS, .rights = RDMAD_RIGHT_READ};
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 100000);
    struct error err;
    for (unsigned i = 0; i < MANY; i++) {
        struct lease *part;
        cr_assert_eq(lease_delegate(l, &what, &part, &err), 0, "%s", err.text);
        cr_assert_eq(rig_peer_try(&many[i], part, "127.0.0.2", &err), 0, "%s", err.text);
    }
    rig_advance(MS);
    cr_assert_eq(lease_renew(l, 50000 * MS, &err), 0);
    cr_expect_eq(heard(many, l->deadline_ns), 0);
    for (unsigned before; (before = heard(many, l->deadline_ns)) < MANY;) {
        rig_advance(1);
        cr_assert_gt(heard(many, l->deadline_ns), before);
        cr_assert_leq(heard(many, l->deadline_ns) - before, RENEWAL_A_PASS);
    }
    rig_finish(l); /* and with it all parts */
}
