/* SPDX-License-Identifier: MIT */
/*
 * What an owner's client is told of parts of its leases, in whatever order it reads and they end:
 * in the end it knows those that there are.
 */
#include "daemon/state/delegate.h"
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>
#include <string.h>

enum { PARTS = 12 };

static struct session *owner;
static struct lease *whole;

static void up(void) {
    rig_up();
    owner = rig_session(1);
    owner->version = RDMAD_ABI_VERSION;
    owner->origin = (struct session_origin){.life = 3, .session = owner->id};
    whole = rig_grant(owner, 1000000);
}

static void down(void) {
    rig_close(owner);
    fake_answer_all();
    rig_down();
}

TestSuite(part_told, .init = up, .fini = down);

static struct lease *part(struct lease *l, uint64_t ttl_ms) {
    struct lease_part p = {.length = 8, .ttl_ns = ttl_ms * MS, .rights = RDMAD_RIGHTS_ALL};
    struct lease *child;
    struct error err;
    cr_assert_eq(lease_delegate(l, &p, &child, &err), 0, "%s", err.text);
    return child;
}

static void end(struct lease *l) {
    lease_end(l, RDMAD_E_LEASE_RELEASED, NULL, NULL);
}

/* What a client knows that has heard all this. */
static bool known(uint64_t lease) {
    bool there = false;
    for (unsigned i = 0; i < rig.nevents; i++) {
        const struct rig_event *e = &rig.events[i];
        if (e->type == RDMAD_EV_LEASE_PART && (e->lease == lease || !e->lease))
            there = e->lease && e->handle;
    }
    return there;
}

Test(part_told, that_it_is_there_and_that_it_has_ended) {
    struct lease *child = part(whole, 1000);
    uint64_t id = child->id;
    cr_expect(known(id));
    cr_expect_eq(rig_last_event(owner)->handle, whole->id);
    struct lease *grandchild = part(child, 1000);
    cr_expect_eq(rig_last_event(owner)->handle, child->id);
    uint64_t deep = grandchild->id;
    end(child);
    cr_expect(!known(id) && !known(deep));
    cr_expect_eq(rig_events(owner, RDMAD_EV_LEASE_ENDED), 0, "the program hears of it");
}

Test(part_told, nothing_in_a_session_that_ends_with_its_daemon) {
    struct session *other = rig_session(2);
    part(rig_grant(other, 1000), 1000);
    cr_expect_eq(rig_events(other, RDMAD_EV_LEASE_PART), 0);
    rig_close(other);
}

Test(part_told, that_it_is_cut_short) {
    struct error err;
    struct lease *child = part(whole, 1000);
    part(child, 900);
    unsigned before = rig_events(owner, RDMAD_EV_LEASE_PART);
    cr_assert_eq(lease_renew(whole, 100 * MS, &err), 0);
    cr_expect_eq(rig_events(owner, RDMAD_EV_LEASE_PART), before + 2);
}

Test(part_told, of_what_ended_before_the_client_read_nothing_is_told) {
    rig.lags = true;
    struct lease *child = part(whole, 1000), *stays = part(whole, 1000);
    uint64_t id = child->id;
    end(child);
    rig.lags = false;
    session_tell_late(owner);
    cr_expect(!known(id) && known(stays->id));
    cr_expect_eq(rig_events(owner, RDMAD_EV_LEASE_PART), 1);
}

Test(part_told, ends_that_the_client_did_not_read_make_all_void) {
    struct lease *child[PARTS];
    uint64_t id[PARTS];
    for (unsigned i = 0; i < PARTS; i++) {
        child[i] = part(whole, 1000);
        id[i] = child[i]->id;
    }
    rig.lags = true;
    uint64_t charged = rig.st.quota.total.used[QUOTA_LEASES];
    for (unsigned i = 0; i < PARTS; i += 2)
        end(child[i]);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_LEASES], charged - PARTS / 2, "the owner pays on");
    struct lease *late = part(whole, 1000);
    rig.lags = false;
    session_tell_late(owner);
    for (unsigned i = 0; i < PARTS; i++)
        cr_expect_eq(known(id[i]), i % 2 == 1, "part %u", i);
    cr_expect(known(late->id));
    unsigned voids = 0;
    for (unsigned i = 0; i < rig.nevents; i++)
        voids += rig.events[i].type == RDMAD_EV_LEASE_PART && !rig.events[i].lease;
    cr_expect_eq(voids, 1, "something is kept of each, %u times", voids);
}

/* The client stops reading in the midst of it, and some more end. */
Test(part_told, however_often_it_stops_reading) {
    struct lease *child[PARTS];
    uint64_t id[PARTS];
    for (unsigned i = 0; i < PARTS; i++) {
        child[i] = part(whole, 1000);
        id[i] = child[i]->id;
    }
    rig.lags = true;
    for (unsigned i = 0; i < PARTS; i++) {
        end(child[i]);
        rig.lags = false;
        rig.lags_after = rig.nevents + i % 4;
        session_tell_late(owner);
        rig.lags = true;
        if (i % 3 == 0) {
            child[i] = part(whole, 1000);
            id[i] = child[i]->id;
        }
    }
    rig.lags = false;
    rig.lags_after = 0;
    session_tell_late(owner);
    for (unsigned i = 0; i < PARTS; i++)
        cr_expect_eq(known(id[i]), i % 3 == 0, "part %u", i);
}

Test(part_told, an_older_client_hears_nothing_that_it_does_not_know) {
    owner->version = RDMAD_ABI_PARTS - 1;
    end(part(whole, 1000));
    cr_expect_eq(rig_events(owner, RDMAD_EV_LEASE_PART), 0);
}

Test(part_told, a_client_that_never_read_leaves_nothing) {
    struct lease *child = part(whole, 1000);
    rig.lags = true;
    part(whole, 1000);
    end(child); /* and what down() finds has to be back */
}
