/* SPDX-License-Identifier: MIT */
/*
 * Peers that we dial are shared by all users of this daemon: what one of them can take.
 */
#include "tests/unit/lessee_steps.h"

TestSuite(peer_shares, .init = up, .fini = down, .timeout = 60);

Test(peer_shares, one_uid_fills_at_most_half_of_the_table) {
    struct session *first = s, *other = rig_session(4);
    for (int i = 0; i < 4; i++) { /* of 8 */
        listener = raw_listen(&uri.port);
        begin();
        raw_accept(listener);
    }
    cr_expect_eq(done.calls, 0, "all of them wait for hello");
    listener = raw_listen(&uri.port);
    begin();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(done.text, "for uid 3"), "%s", done.text);
    s = other;
    begin();
    greet();
    rig_close(other);
    fake_answer_all();
    s = first;
}

Test(peer_shares, one_uid_fills_at_most_half_of_what_a_peer_gives) {
    struct session *mine[4] = {s, rig_session(3), rig_session(3), rig_session(3)};
    struct session *other = rig_session(4);
    for (unsigned i = 0; i < rig.config.max_peer_attaches / 2; i++) {
        s = mine[i % 4];
        begin();
    }
    cr_expect_eq(done.calls, 0, "all of them wait for hello");
    begin();
    cr_expect_eq(done.calls, 1);
    cr_expect_eq(done.code, RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(done.text, "uid 3 has 2048"), "%s", done.text);
    s = other;
    begin();
    cr_expect_eq(done.calls, 1, "another user goes on");
    for (unsigned i = 1; i < 4; i++)
        rig_close(mine[i]);
    rig_close(other);
    fake_answer_all();
    s = mine[0];
}
