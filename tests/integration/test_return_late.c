/* SPDX-License-Identifier: MIT */
/*
 * test_return_late.c - the daemon of a lessee and that of its lease's owner both die, and the
 * owner's takes long to start: the lessee's next daemon waits for it as long as peer.return_ms
 * says, and the library with it, and no longer. Or it is silent, and very many handles wait for it.
 */
#include "tests/integration/far_pair.h"
#include "tests/support/client.h"

#include <inttypes.h>
#include <signal.h>

/* The library waits for ten seconds by itself. */
#define AWAY_MS 12000u
#define RETURN_MS 11500u
#define LONG "{\"peer\": {\"return_ms\": 120000}}"
#define SHORT "{\"peer\": {\"return_ms\": 11500}}"

/* Both daemons die, and only the lessee's is started again. Returns when that was. */
static uint64_t lose_both(struct far_pair *p) {
    far_pair_works(p, 1);
    tdaemon_kill(p->far);
    tdaemon_kill(p->near);
    uint64_t since_ms = now_ms();
    tdaemon_restart(p->near);
    client_event(p->lessee, RDMAD_EVENT_SESSION_RESUMED);
    return since_ms;
}

static void expect_waits(struct far_pair *p) {
    struct rdmad_lease_info info = client_info(p->attached);
    CHECK(!info.ended, "the handle has ended with %s", rdmad_errname(info.ended));
    client_refused(p->lessee, rdmad_read(p->attached, 0, p->buffer, 64), RDMAD_E_NO_LEASE,
                   "not back yet");
}

/* Of other leases meanwhile. Nobody gets the number that the handle has. */
static void attach_others(struct far_pair *p) {
    struct rdmad_lease_terms t = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *own;
    CHECK(!rdmad_lease_grant(p->lessee, p->buffer, 64, &t, &own), "%s",
          rdmad_last_error(p->lessee));
    for (unsigned i = 0; i < 8; i++)
        client_attach(p->lessee, rdmad_lease_uri(own));
}

static void expect_comes(struct far_pair *p, rdmad_lease *handle) {
    for (uint64_t since = now_ms(); rdmad_read(handle, 0, p->buffer, 64) != 0; sleep_ms(5)) {
        struct rdmad_lease_info info = client_info(handle);
        CHECK(!info.ended, "the handle has ended with %s: %s", rdmad_errname(info.ended),
              rdmad_last_error(p->lessee));
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "%s", rdmad_last_error(p->lessee));
    }
}

static void expect_back(struct far_pair *p) {
    tdaemon_restart(p->far);
    expect_comes(p, p->attached);
    far_pair_works(p, 2);
    far_pair_expect_no_end(p);
}

static void expect_given_up(struct far_pair *p, uint64_t since_ms) {
    struct rdmad_event e = client_event(p->lessee, RDMAD_EVENT_LEASE_ENDED);
    CHECK(e.reason == RDMAD_E_NO_LEASE, "%s: %s", rdmad_errname(e.reason), e.text);
    CHECK(now_ms() - since_ms >= RETURN_MS, "it was given up after %" PRIu64 " ms: %s",
          now_ms() - since_ms, e.text);
}

static void a_handle_waits_for_its_owners_daemon_as_long_as_its_own_is_told_to(void) {
    struct far_pair late, never;
    far_pair_up(&late, LONG, 0, 1);
    far_pair_up(&never, SHORT, 0, 1);
    lose_both(&late);
    uint64_t since_ms = lose_both(&never);
    attach_others(&late);
    sleep_ms(AWAY_MS);
    expect_waits(&late);
    expect_given_up(&never, since_ms);
    expect_back(&late);
    tdaemon_restart(never.far);
    far_pair_down(&never);
    far_pair_down(&late);
}

/* More than are asked for before the session is open again, as none is answered. */
enum { MANY = 300 };

static void many_handles_wait_for_a_silent_daemon_and_none_loses_its_place(void) {
    static rdmad_lease *handle[MANY];
    struct far_pair p;
    far_pair_up(&p, LONG, 0, 1);
    for (unsigned i = 0; i < MANY; i++)
        handle[i] = client_attach(p.lessee, rdmad_lease_uri(p.granted));
    CHECK(!kill(tdaemon_pid(p.far), SIGSTOP), "kill");
    tdaemon_kill(p.near);
    tdaemon_restart(p.near);
    client_event(p.lessee, RDMAD_EVENT_SESSION_RESUMED);
    attach_others(&p);
    CHECK(!kill(tdaemon_pid(p.far), SIGCONT), "kill");
    for (unsigned i = 0; i < MANY; i++)
        expect_comes(&p, handle[i]);
    far_pair_expect_no_end(&p);
    far_pair_down(&p);
}

TEST_MAIN(CASE(a_handle_waits_for_its_owners_daemon_as_long_as_its_own_is_told_to),
          CASE(many_handles_wait_for_a_silent_daemon_and_none_loses_its_place))
