/* SPDX-License-Identifier: MIT */
/*
 * test_peer_self.c - a daemon that is its own peer, because its device's atomics are not the CPU's:
 * how a lease is reached, and that its lessee here is worse off than one elsewhere in nothing.
 */
#include "daemon/peer/connect/own_address.h"
#include "daemon/peer/control/record.h"
#include "tests/unit/lessee_steps.h"

TestSuite(peer_self, .init = up, .fini = down, .timeout = 60);

static struct session *owner;
static struct lease *l;

static void turn(void) {
    fake_answer_all();
    settle();
}

/* Of a session that outlives its daemon; its scope asks for the lessee's user, whom only the kernel
 * tells. */
static void attached_here(void) {
    struct lease_terms t = rig_terms(60000);
    struct error err;
    t.scope = RDMAD_SCOPE_UID;
    t.scope_uid = 3;
    owner = rig_session(1);
    l = rig_grant_terms(owner, &t);
    fake_atomics_are_cpus = false;
    s->origin.life = 1;
    s->origin.session = s->id;
    uri = (struct rdmad_uri){.lease = l->id};
    memcpy(uri.key, l->key, sizeof(uri.key));
    cr_assert_eq(handle_new(s, &h, &err), 0);
    peer_attach(rig.st.peers, h, &uri, 50000 * MS, rig_done, &done);
    for (int i = 0; i < 400 && !done.calls; i++)
        turn();
    cr_assert_eq(done.calls, 1);
    cr_assert_eq(done.code, 0, "%s", done.text);
}

static void revoked(void) {
    struct rig_done over = {0};
    lease_end(l, RDMAD_E_LEASE_REVOKED, rig_done, &over);
    for (int i = 0; i < 400 && !over.calls; i++)
        turn();
    cr_expect_eq(over.calls, 1);
}

Test(peer_self, a_lease_for_the_devices_atomics_is_reached_by_link_even_here) {
    struct error err;
    attached_here();
    cr_expect(handle_goes_by_link(&rig.st, l->terms.rights));
    cr_expect_not(handle_goes_by_link(&rig.st, RDMAD_RIGHTS_DEFAULT));
    cr_expect(h->remote, "by link");
    cr_expect_eq(l->attached, 1);
    cr_expect_eq(fake_count(FAKE_LANE_OPEN), 1);
    cr_expect_eq(fake_count(FAKE_WINDOW_OPEN), 1);

    /* Another that may not: the scope is asked about the session, not about the address. */
    struct session *other = rig_session(4);
    struct rig_done refused = {0};
    struct handle *h2;
    cr_assert_eq(handle_new(other, &h2, &err), 0);
    peer_attach(rig.st.peers, h2, &uri, 50000 * MS, rig_done, &refused);
    for (int i = 0; i < 400 && !refused.calls; i++)
        turn();
    cr_expect_eq(refused.code, RDMAD_E_SCOPE, "%s", refused.text);
    revoked();
    rig_close(other);
    fake_answer_all();
}

/* It has not heard itself for so long, because it did nothing at all. */
static void hung_and_returned(void) {
    rig.now_ns += rig.config.peer_dead_ms * MS;
    for (int i = 0; i < 400 && !fake_count(FAKE_LEASE_RETURN); i++) {
        rig.now_ns += MS;
        turn();
    }
    cr_assert_eq(fake_count(FAKE_LEASE_RETURN), 1, "the connection is lost, and made anew");
    for (int i = 0; i < 400 && !fake_count(FAKE_LEASE_KEY); i++) {
        rig.now_ns += MS;
        turn();
    }
    cr_expect_eq(fake_count(FAKE_LEASE_KEY), 1);
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0, "%s", h->text);
    cr_expect_eq(fake_count(FAKE_LANE_NEW), 1, "the lane is the same,");
    cr_expect_eq(fake_count(FAKE_LANE_OPEN), 2, "with a new link");
    cr_expect(h->remote, "by link, still");
    cr_expect_eq(l->attached, 1);
    revoked();
}

Test(peer_self, a_daemon_that_hung_gives_its_own_lessees_their_leases_again) {
    attached_here();
    hung_and_returned();
}

/* The handle goes by link, whatever a new one would do. */
Test(peer_self, a_device_that_came_meanwhile_changes_no_handles_way) {
    attached_here();
    fake_atomics_are_cpus = true;
    hung_and_returned();
}

/* Its sessions part by themselves, and take their handles to the next life. */
Test(peer_self, a_daemon_that_stops_does_not_tell_its_own_lessees_as_a_peer) {
    attached_here();
    rig.st.stopping = true;
    cr_expect(peers_have_left(rig.st.peers), "nobody elsewhere is waited for");
    peers_leave(rig.st.peers);
    for (int i = 0; i < 10; i++)
        turn();
    cr_expect_eq(fake_count(FAKE_LEASE_END), 0, "%s", h->text);
    cr_expect_eq(l->attached, 1);
    revoked();
}

/* It would tell peers another one, or none. */
Test(peer_self, a_daemon_that_cannot_learn_its_address_does_not_start) {
    struct error err = {.code = 0};
    cr_assert_eq(own_address_note(rig.st.peers, -1, "127.0.0.1", &err), RDMAD_E_SYSTEM);
    cr_assert(strstr(err.text, "cannot be asked"), "%s", err.text);
}
