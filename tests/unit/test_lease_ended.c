/* SPDX-License-Identifier: MIT */
/* What is remembered of leases that have ended, and who learns of it. */
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>
#include <string.h>

TestSuite(lease_ended, .init = rig_up, .fini = rig_down);

Test(lease_ended, who_knows_the_secret_is_told_why_and_when_who_does_not_learns_nothing) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 1000);
    struct rdmad_uri uri = rig_uri(l), wrong = uri, never = uri;
    struct error err, guess, blank;

    wrong.key[15] ^= 1;
    cr_expect_eq(rig_find_error(&wrong, &guess), RDMAD_E_NO_LEASE);
    rig_advance(1000 * MS);
    rig_advance(1230 * MS);
    cr_expect_eq(rig_find_error(&uri, &err), RDMAD_E_LEASE_EXPIRED);
    cr_expect_str_eq(err.text, "lease 1 expired 1.2 s ago; ask its owner for a new one");
    struct error after;
    cr_expect_eq(rig_find_error(&wrong, &after), RDMAD_E_NO_LEASE);
    cr_expect_str_eq(after.text, guess.text);

    never.lease = 2;
    cr_expect_eq(rig_find_error(&never, &blank), RDMAD_E_NO_LEASE);
    char *number = strchr(blank.text, '2');
    cr_assert_not_null(number);
    *number = '1';
    cr_expect_str_eq(blank.text, guess.text, "a wrong key and a number that never was");
}

Test(lease_ended, each_reason_has_its_sentence) {
    static const struct {
        int reason;
        const char *words;
    } cases[] = {{RDMAD_E_LEASE_EXPIRED, "lease 9 expired"},
                 {RDMAD_E_LEASE_REVOKED, "lease 9 was revoked by its owner"},
                 {RDMAD_E_LEASE_ADMIN, "lease 9 was revoked by an administrator"},
                 {RDMAD_E_LEASE_RELEASED, "released"},
                 {RDMAD_E_LEASE_ORPHANED, "its owner is gone"}};
    for (unsigned i = 0; i < 5; i++) {
        struct error err;
        cr_expect_eq(lease_ended_error(9, cases[i].reason, 0, &err), cases[i].reason);
        cr_expect_not_null(strstr(err.text, cases[i].words), "%s", err.text);
        cr_expect_not_null(strstr(err.text, "lease 9"));
    }
}

Test(lease_ended, tombstones_are_bounded_and_the_oldest_goes_first) {
    struct session *owner = rig_session(1);
    struct rdmad_uri uri[12];
    struct error err;
    for (int i = 0; i < 12; i++) {
        struct lease *l = rig_grant(owner, 1000);
        uri[i] = rig_uri(l);
        rig_finish(l);
    }
    for (int i = 0; i < 12; i++)
        cr_expect_eq(rig_find_error(&uri[i], &err),
                     i < 4 ? RDMAD_E_NO_LEASE : RDMAD_E_LEASE_REVOKED, "%d", i);
    struct lease_view v;
    cr_expect_not(lease_ended_view(rig.st.leases, 4, &v));
    cr_assert(lease_ended_view(rig.st.leases, 5, &v));
    cr_expect_eq(v.owner_session, owner->id);
    cr_expect_eq(v.reason, RDMAD_E_LEASE_REVOKED);
    rig.config.lease_tombstones = 0; /* reloaded */
    rig_finish(rig_grant(owner, 1000));
    cr_expect_not(lease_ended_view(rig.st.leases, 12, &v));
}

Test(lease_ended, a_tenant_has_tombstones_of_its_own_whatever_its_uid) {
    struct session *few = rig_session(1), *many = rig_session(1);
    struct rdmad_uri first;
    struct error err;
    many->tenant = 2;
    struct lease *l = rig_grant(few, 1000);
    first = rig_uri(l);
    rig_finish(l);
    for (int i = 0; i < 20; i++)
        rig_finish(rig_grant(many, 1000));
    cr_expect_eq(rig_find_error(&first, &err), RDMAD_E_LEASE_REVOKED);
    rig_close(few);
    rig_close(many);
}

Test(lease_ended, tombstones_of_a_uid_that_has_most_of_them_make_room_for_others) {
    struct session *few = rig_session(1), *many = rig_session(2), *again = rig_session(2);
    struct rdmad_uri first[2], later[20];
    struct error err;
    for (int i = 0; i < 2; i++) {
        struct lease *l = rig_grant(few, 1000);
        first[i] = rig_uri(l);
        rig_finish(l);
    }
    for (int i = 0; i < 20; i++) {
        struct lease *l = rig_grant(i % 2 ? many : again, 1000);
        later[i] = rig_uri(l);
        rig_finish(l);
    }
    for (int i = 0; i < 2; i++)
        cr_expect_eq(rig_find_error(&first[i], &err), RDMAD_E_LEASE_REVOKED, "%d", i);
    for (int i = 0; i < 20; i++)
        cr_expect_eq(rig_find_error(&later[i], &err),
                     i < 14 ? RDMAD_E_NO_LEASE : RDMAD_E_LEASE_REVOKED, "%d", i);
    rig.config.lease_tombstones = 2; /* reloaded */
    struct lease *last = rig_grant(few, 1000);
    first[0] = rig_uri(last);
    rig_finish(last);
    cr_expect_eq(rig_find_error(&first[0], &err), RDMAD_E_LEASE_REVOKED, "one for each");
    cr_expect_eq(rig_find_error(&later[19], &err), RDMAD_E_LEASE_REVOKED, "one for each");
    cr_expect_eq(rig_find_error(&later[18], &err), RDMAD_E_NO_LEASE);
}
