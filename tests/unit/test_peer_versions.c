/* SPDX-License-Identifier: MIT */
/*
 * Daemons of different versions: the highest that both speak is used, whoever dials, also with one
 * that knows nothing of that; where there is none both hear which each speaks.
 */
#include "tests/unit/lessee_steps.h"

/* In the place of those of the build. */
const struct rdmad_versions peer_versions = {7, 9};

TestSuite(peer_versions, .init = up, .fini = down, .timeout = 60);

static void send_of(struct raw *r, struct peer_msg m, uint16_t version) {
    uint8_t frame[PEER_WIRE_MAX];
    size_t size = peer_wire_encode(&m, frame);
    peer_wire_set_version(frame, version);
    raw_bytes(r, frame, size);
}

static struct peer_msg hello(uint16_t newest) {
    struct peer_msg m = raw_hello();
    m.hello.newest = newest;
    return m;
}

static const struct peer_msg ping = {.type = PEER_MSG_PING, .ping.seq = 5};

/* The version of the next frame, which is not taken. */
static uint16_t comes_in(struct raw *r) {
    AWAIT((r->have += (size_t)(recv(r->fd, r->in + r->have, 1, 0) == 1)) >= PEER_WIRE_HEAD);
    return peer_wire_version(r->in);
}

/* ---- whoever dials us ------------------------------------------------------------------------ */

static void agrees(uint16_t head, uint16_t newest, uint16_t on) {
    struct raw *r = raw_dial();
    send_of(r, hello(newest), head);
    cr_expect_eq(comes_in(r), on, "%u to %u: %u", head, newest, comes_in(r));
    cr_expect_eq(raw_expect(r, PEER_MSG_HELLO).hello.newest, on);
    send_of(r, ping, on);
    cr_expect_eq(comes_in(r), on);
    cr_expect_eq(raw_expect(r, PEER_MSG_PONG).ping.seq, 5);
    raw_close(r);
}

Test(peer_versions, the_highest_that_both_speak_is_used) {
    agrees(7, 0, 7); /* as one that knows nothing of ranges */
    agrees(7, 7, 7);
    agrees(7, 8, 8);
    agrees(7, 9, 9);
    agrees(7, 12, 9);
    agrees(8, 12, 9);
    agrees(5, 7, 7);
    agrees(9, 0, 9);
    agrees(9, 2, 9); /* nonsense says no more than the head */
}

static void refuses(uint16_t head, uint16_t newest, const char *words) {
    struct raw *r = raw_dial();
    send_of(r, hello(newest), head);
    struct peer_msg m = raw_expect(r, PEER_MSG_BYE);
    cr_expect_eq(m.bye.code, RDMAD_E_VERSION);
    cr_expect(strstr(m.bye.text, words) &&
                  strstr(m.bye.text, "rig versions 7 to 9: update the older of the two"),
              "%s", m.bye.text);
    cr_expect(raw_eof(r));
    AWAIT(peers_count(rig.st.peers) == 0);
}

Test(peer_versions, who_speaks_none_of_ours_hears_of_both) {
    refuses(10, 0, "speaks version 10 of");
    refuses(10, 12, "speaks versions 10 to 12 of");
    refuses(1, 6, "speaks versions 1 to 6 of");
    refuses(0, 0, "speaks version 0 of");
    refuses(UINT16_MAX, 3, "speaks version 65535 of");
}

Test(peer_versions, what_was_agreed_on_is_kept_to) {
    static const uint16_t others[] = {7, 9, 10};
    for (unsigned i = 0; i < 3; i++) {
        struct raw *r = raw_dial();
        send_of(r, hello(8), 7);
        raw_expect(r, PEER_MSG_HELLO);
        send_of(r, ping, others[i]);
        struct peer_msg m = raw_expect(r, PEER_MSG_BYE);
        cr_expect(strstr(m.bye.text, i < 2 ? "a PING of version" : "version 10 is spoken there"),
                  "%s", m.bye.text);
        cr_expect(raw_eof(r));
    }
    struct raw *r = raw_dial();
    struct peer_msg bye = {.type = PEER_MSG_BYE};
    send_of(r, hello(8), 7);
    raw_expect(r, PEER_MSG_HELLO);
    send_of(r, bye, 33); /* in whatever version, that it leaves is understood */
    cr_expect(raw_eof(r));
}

/* ---- whom we dial ---------------------------------------------------------------------------- */

static struct raw *dialled(void) {
    begin();
    struct raw *r = raw_accept(listener);
    cr_expect_eq(comes_in(r), 7, "the lowest, which older ones understand, too");
    cr_expect_eq(raw_expect(r, PEER_MSG_HELLO).hello.newest, 9);
    return r;
}

Test(peer_versions, whom_we_dial_chooses) {
    struct raw *r = dialled();
    send_of(r, hello(8), 8);
    cr_expect_eq(comes_in(r), 8);
    raw_expect(r, PEER_MSG_ATTACH_REQ);
}

Test(peer_versions, one_that_knows_nothing_of_ranges_has_chosen_its_own) {
    struct raw *r = dialled();
    send_of(r, hello(0), 7);
    cr_expect_eq(comes_in(r), 7);
    raw_expect(r, PEER_MSG_ATTACH_REQ);
}

static void chooses_wrong(uint16_t head, uint16_t newest) {
    struct raw *r = dialled();
    send_of(r, hello(newest), head);
    cr_expect_eq(raw_expect(r, PEER_MSG_BYE).bye.code, RDMAD_E_VERSION);
    cr_expect(raw_eof(r));
    AWAIT(done.calls);
    cr_expect_eq(done.code, RDMAD_E_VERSION, "%s", done.text);
    cr_expect(strstr(done.text, "rig versions 7 to 9"), "%s", done.text);
}

Test(peer_versions, a_choice_that_was_not_offered_is_none) {
    chooses_wrong(10, 0);
}
Test(peer_versions, a_range_is_no_choice) {
    chooses_wrong(7, 9);
}

Test(peer_versions, an_older_ones_refusal_says_what_it_speaks) {
    struct raw *r = dialled();
    struct peer_msg bye = {.type = PEER_MSG_BYE, .bye.code = RDMAD_E_VERSION};
    strcpy(bye.bye.text, "peer protocol version 7 is spoken there, version 6 here");
    send_of(r, bye, 6);
    cr_expect(raw_eof(r));
    AWAIT(done.calls);
    cr_expect_eq(done.code, RDMAD_E_VERSION);
    cr_expect(strstr(done.text, "version 6 here"), "%s", done.text);
}
