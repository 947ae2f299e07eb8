/* SPDX-License-Identifier: MIT */
/*
 * What is told over a peer's connection besides what it asked for: names as it has room for them,
 * and what it says itself of its use of leases.
 */
#include "tests/unit/peer_rig.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(peer_told, .init = peer_rig_up, .fini = peer_rig_down, .timeout = 60);

/* It says nothing of what there is room for in its connection, and then too much. */
Test(peer_told, a_peer_is_told_of_names_as_it_asks_and_of_the_rest_later) {
    static struct name name[3 * WATCH_WINDOW];
    static char text[3 * WATCH_WINDOW][8];
    struct raw *r = raw_greet();
    struct peer_msg m = {.type = PEER_MSG_WATCH_REQ, .watch_req.ref = 5};
    for (unsigned i = 0; i < 3 * WATCH_WINDOW; i++) {
        snprintf(text[i], sizeof(text[i]), "w%03u", i);
        name[i] = (struct name){.text = text[i], .scope.peer = ""};
        if (i < 2 * WATCH_WINDOW)
            names_add(rig.st.names, &name[i]);
    }
    raw_send(r, &m);
    for (unsigned i = 0; i < WATCH_WINDOW; i++)
        cr_assert_str_eq(raw_expect(r, PEER_MSG_NAME_EV).name_ev.entry.name, text[i]);
    for (unsigned i = 2 * WATCH_WINDOW; i < 3 * WATCH_WINDOW; i++)
        names_add(rig.st.names, &name[i]);
    names_remove(&name[2 * WATCH_WINDOW]);
    quiet();
    m = (struct peer_msg){.type = PEER_MSG_WATCH_MORE, .watch_more = {.ref = 5, .count = 10}};
    raw_send(r, &m);
    for (unsigned i = 0; i < 10; i++)
        cr_assert_str_eq(raw_expect(r, PEER_MSG_NAME_EV).name_ev.entry.name,
                         text[WATCH_WINDOW + i]);
    m.watch_more.count = UINT32_MAX; /* as much as WATCH_WINDOW */
    raw_send(r, &m);
    for (unsigned i = 10; i < WATCH_WINDOW; i++)
        cr_assert_str_eq(raw_expect(r, PEER_MSG_NAME_EV).name_ev.entry.name,
                         text[WATCH_WINDOW + i]);
    cr_assert_str_eq(raw_expect(r, PEER_MSG_NAME_EV).name_ev.entry.name, "", "that was all");
    for (unsigned i = 1; i <= 10; i++)
        cr_assert_str_eq(raw_expect(r, PEER_MSG_NAME_EV).name_ev.entry.name,
                         text[2 * WATCH_WINDOW + i]);
    raw_send(r, &m);
    for (unsigned i = 11; i < WATCH_WINDOW; i++)
        cr_assert_str_eq(raw_expect(r, PEER_MSG_NAME_EV).name_ev.entry.name,
                         text[2 * WATCH_WINDOW + i]);
    struct peer_msg last = raw_expect(r, PEER_MSG_NAME_EV);
    cr_assert_str_eq(last.name_ev.entry.name, text[2 * WATCH_WINDOW]);
    cr_assert_eq(last.name_ev.gone, NAME_GONE);
    raw_close(r);
    quiet();
    for (unsigned i = 0; i < 3 * WATCH_WINDOW; i++)
        names_remove(&name[i]);
}

static struct lease_said said_of(const struct lease *l) {
    struct lease_said said;
    lease_said(l, &said);
    return said;
}

/* Peers may say what they like: it is kept apart, never less than before, and no sum wraps. */
Test(peer_told, what_a_peer_says_of_its_use_is_kept_apart_and_harms_nothing) {
    struct session *owner = rig_session(1);
    struct lease *l = rig_grant(owner, 5000);
    struct fabric_audit audit;
    struct raw *r = raw_greet();
    uint64_t owner_ref = raw_attach(r, l, 41, 0).owner_ref;
    struct peer_msg m = {.type = PEER_MSG_USED, .used = {owner_ref, 100, 200, 3}};
    raw_send(r, &m);
    AWAIT(said_of(l).ops == 3);
    cr_expect_eq(said_of(l).bytes_read, 100);
    cr_expect_eq(said_of(l).bytes_written, 200);
    m.used = (struct peer_used){owner_ref, 50, 300, 2};
    raw_send(r, &m);
    AWAIT(said_of(l).bytes_written == 300);
    cr_expect_eq(said_of(l).bytes_read, 100, "what was said is not taken back");
    m.used.owner_ref++; /* somebody else's */
    m.used.ops = 99;
    raw_send(r, &m);
    quiet();
    cr_expect_eq(said_of(l).ops, 3);
    for (unsigned i = 0; i < 3; i++) {
        m.used = (struct peer_used){raw_attach(r, l, 50 + i, 0).owner_ref, UINT64_MAX,
                                    INT64_MAX - 1, UINT64_MAX / 2};
        raw_send(r, &m);
    }
    quiet();
    cr_expect_eq(said_of(l).bytes_read, INT64_MAX);
    cr_expect_eq(said_of(l).bytes_written, INT64_MAX);
    cr_expect_eq(said_of(l).ops, INT64_MAX);
    lease_audit(l, &audit);
    cr_expect_eq(audit.ops + audit.bytes_read + audit.bytes_written, 0, "nothing counted here");
    raw_close(r);
    AWAIT(l->attached == 0);
    cr_expect_eq(said_of(l).ops, INT64_MAX, "of those that are gone, too");
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    rig_advance(1000 * MS);
    fake_answer_all();
}
