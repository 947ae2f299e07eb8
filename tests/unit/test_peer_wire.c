/* SPDX-License-Identifier: MIT */
/*
 * Messages between daemons: what goes in comes out, and whatever is malformed has its own sentence.
 */
#include "daemon/config/schema.h"
#include "daemon/peer/wire/wire.h"
#include "tests/unit/peer_samples.h"
#include <criterion/criterion.h>
#include <string.h>

static size_t encode(uint16_t type, uint8_t frame[PEER_WIRE_MAX]) {
    struct peer_msg m = peer_sample(type);
    memset(frame, 0xee, PEER_WIRE_MAX);
    return peer_wire_encode(&m, frame);
}

static void refused(const uint8_t *frame, size_t length, const char *words) {
    struct peer_msg out;
    struct error err = {0};
    cr_expect_eq(peer_wire_decode(frame, length, &out, &err), RDMAD_E_PROTOCOL);
    cr_expect_not_null(strstr(err.text, words), "\"%s\" does not say \"%s\"", err.text, words);
}

Test(peer_wire, every_message_comes_out_as_it_went_in) {
    for (uint16_t type = 1; type < (uint16_t)PEER_MSG_COUNT; type++) {
        uint8_t frame[PEER_WIRE_MAX];
        struct peer_msg in = peer_sample(type), out;
        struct error err = {0};
        size_t length = encode(type, frame), told = 0;
        int from_dialler = peer_wire_length(frame, true, &told, &err) == 0;
        cr_expect(from_dialler || peer_wire_length(frame, false, &told, &err) == 0, "%s", err.text);
        cr_expect_eq(told, length);
        cr_expect_leq(length, PEER_WIRE_MAX);
        cr_assert_eq(peer_wire_decode(frame, length, &out, &err), 0, "%s: %s", peer_wire_name(type),
                     err.text);
        cr_expect_eq(memcmp(&in, &out, sizeof(in)), 0, "%s", peer_wire_name(type));
    }
}

Test(peer_wire, numbers_are_little_endian_on_every_host) {
    uint8_t frame[PEER_WIRE_MAX];
    static const uint8_t want[] = {
        16, 0, PEER_MSG_PING, 0, PEER_WIRE_VERSION, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1};
    cr_assert_eq(encode(PEER_MSG_PING, frame), sizeof(want));
    cr_expect_eq(memcmp(frame, want, sizeof(want)), 0);
}

Test(peer_wire, each_message_has_its_direction) {
    static const struct {
        uint16_t type;
        bool dialler, acceptor;
    } may[] = {{PEER_MSG_HELLO, true, true},         {PEER_MSG_BYE, true, true},
               {PEER_MSG_PING, true, true},          {PEER_MSG_PONG, true, true},
               {PEER_MSG_ATTACH_REQ, true, false},   {PEER_MSG_ATTACH_REP, false, true},
               {PEER_MSG_RELEASE, true, false},      {PEER_MSG_REVOKED, false, true},
               {PEER_MSG_STOPPED, true, false},      {PEER_MSG_RENEWED, false, true},
               {PEER_MSG_TTL_REQ, true, false},      {PEER_MSG_TTL_REP, false, true},
               {PEER_MSG_LINK_REQ, true, false},     {PEER_MSG_LINK_REP, false, true},
               {PEER_MSG_KEY_REQ, true, false},      {PEER_MSG_KEY_REP, false, true},
               {PEER_MSG_LINK_GONE, true, false},    {PEER_MSG_CHAN_REQ, true, false},
               {PEER_MSG_CHAN_REFUSE, false, true},  {PEER_MSG_CHAN_BIND, true, false},
               {PEER_MSG_CHAN_OPEN, true, false},    {PEER_MSG_CHAN_END, true, true},
               {PEER_MSG_DELEGATE_REQ, true, false}, {PEER_MSG_DELEGATE_REP, false, true},
               {PEER_MSG_REQUEST_REQ, true, false},  {PEER_MSG_NAMES_REQ, true, false},
               {PEER_MSG_NAMES_REP, false, true},    {PEER_MSG_WATCH_REQ, true, false},
               {PEER_MSG_UNWATCH, true, false},      {PEER_MSG_NAME_EV, false, true},
               {PEER_MSG_WATCH_MORE, true, false},   {PEER_MSG_USED, true, false},
               {PEER_MSG_KEEP_REQ, true, false},     {PEER_MSG_KEEP_REP, false, true},
               {PEER_MSG_CERTIFICATE, true, true},   {PEER_MSG_CHAN_AGAIN, true, false},
               {PEER_MSG_CHAN_ALIVE, true, true}};
    cr_assert_eq(sizeof(may) / sizeof(may[0]), PEER_MSG_COUNT - 1);
    for (unsigned i = 0; i < PEER_MSG_COUNT - 1; i++) {
        uint8_t frame[PEER_WIRE_MAX];
        size_t length;
        encode(may[i].type, frame);
        cr_expect_eq(peer_wire_length(frame, true, &length, NULL) == 0, may[i].dialler, "%s",
                     peer_wire_name(may[i].type));
        cr_expect_eq(peer_wire_length(frame, false, &length, NULL) == 0, may[i].acceptor, "%s",
                     peer_wire_name(may[i].type));
    }
}

Test(peer_wire, a_malformed_head_is_refused_before_anything_is_waited_for) {
    static const struct {
        uint8_t at, value;
        int code;
        const char *words;
    } bad[] = {{0, 15, RDMAD_E_PROTOCOL, "a PING has 15 bytes instead of 16"},
               {1, 255, RDMAD_E_PROTOCOL, "instead of 16"},
               {0, 0, RDMAD_E_PROTOCOL, "0 bytes"},
               {2, 0, RDMAD_E_PROTOCOL, "type 0 is unknown"},
               {2, PEER_MSG_COUNT, RDMAD_E_PROTOCOL, "is unknown"},
               {3, 255, RDMAD_E_PROTOCOL, "is unknown"},
               {4, 1, RDMAD_E_VERSION, "version 1 is spoken there, versions 7 to 8 here; update"},
               {6, 1, RDMAD_E_PROTOCOL, "no frame of rdmad's"}};
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint8_t frame[PEER_WIRE_MAX];
        struct error err = {0};
        size_t length;
        encode(PEER_MSG_PING, frame);
        frame[bad[i].at] = bad[i].value;
        cr_expect_eq(peer_wire_length(frame, true, &length, &err), bad[i].code, "%u", i);
        cr_expect_not_null(strstr(err.text, bad[i].words), "%u: %s", i, err.text);
    }
}

Test(peer_wire, a_goodbye_is_understood_in_any_version) {
    uint8_t frame[PEER_WIRE_MAX];
    struct peer_msg m;
    size_t length = encode(PEER_MSG_BYE, frame), told;
    frame[4] = 200;
    frame[8] = 0x9c; /* a code of that version: -100 */
    frame[9] = frame[10] = frame[11] = 0xff;
    cr_assert_eq(peer_wire_length(frame, false, &told, NULL), 0);
    cr_assert_eq(peer_wire_decode(frame, length, &m, NULL), 0);
    cr_expect_eq(m.bye.code, RDMAD_E_PROTOCOL);
    cr_expect_str_eq(m.bye.text, "no fabric in common");
}

Test(peer_wire, a_frame_of_any_wrong_length_is_refused) {
    for (uint16_t type = 1; type < (uint16_t)PEER_MSG_COUNT; type++) {
        uint8_t frame[PEER_WIRE_MAX];
        size_t right = encode(type, frame);
        for (size_t length = 0; length <= PEER_WIRE_MAX; length++) {
            struct peer_msg out;
            if (length >= 2) {
                frame[0] = (uint8_t)length;
                frame[1] = (uint8_t)(length >> 8);
            }
            if (length != right)
                cr_expect_neq(peer_wire_decode(frame, length, &out, NULL), 0, "%s of %zu bytes",
                              peer_wire_name(type), length);
        }
    }
}

/* One sample, one change in its struct, one sentence. */
#define REFUSED(type, change, words)                        \
    do {                                                    \
        uint8_t frame[PEER_WIRE_MAX];                       \
        struct peer_msg m = peer_sample(type);              \
        change;                                             \
        refused(frame, peer_wire_encode(&m, frame), words); \
    } while (0)

Test(peer_wire, values_that_make_no_sense_are_refused) {
    REFUSED(PEER_MSG_HELLO, m.hello.magic++, "magic");
    REFUSED(PEER_MSG_HELLO, m.hello.node[0] = 0, "no name");
    REFUSED(PEER_MSG_HELLO, m.hello.fabrics[0][0] = 0, "no fabric");
    REFUSED(PEER_MSG_HELLO, m.hello.life.number = LIFE_LAST + 1, "so many lives");
    REFUSED(PEER_MSG_ATTACH_REQ, m.attach_req.lease = 0, "no lease is named");
    REFUSED(PEER_MSG_ATTACH_REQ, strcpy(m.attach_req.name, "n"), "both");
    REFUSED(PEER_MSG_ATTACH_REQ, (m.attach_req.lease = 0, strcpy(m.attach_req.name, "../n")),
            "no lease is named");
    REFUSED(PEER_MSG_ATTACH_REP, m.attach_rep.status = 1, "status");
    REFUSED(PEER_MSG_ATTACH_REP, m.attach_rep.status = -30000, "status");
    REFUSED(PEER_MSG_ATTACH_REP, m.attach_rep.rights = 16, "rights");
    REFUSED(PEER_MSG_ATTACH_REP, m.attach_rep.rights = 0, "rights");
    REFUSED(PEER_MSG_ATTACH_REP, m.attach_rep.lease = 0, "number");
    REFUSED(PEER_MSG_ATTACH_REP, m.attach_rep.status = RDMAD_E_LIMIT, "a refusal has a key");
    REFUSED(PEER_MSG_RELEASE, m.release.returned = 3, "returned");
    REFUSED(PEER_MSG_REVOKED, m.revoked.reason = 0, "reason");
    REFUSED(PEER_MSG_REVOKED, m.revoked.reason = RDMAD_E_LIMIT, "reason");
    REFUSED(PEER_MSG_LINK_REP, m.link_rep.status = 9, "status");
    REFUSED(PEER_MSG_LINK_REP, m.link_rep.offer.size = 0, "empty");
    REFUSED(PEER_MSG_LINK_REP, m.link_rep.status = RDMAD_E_LIMIT, "a refusal has an offer");
    REFUSED(PEER_MSG_KEY_REQ, m.key_req.via = 0, "no link");
    REFUSED(PEER_MSG_KEY_REP, m.key_rep.via = 0, "no link");
    REFUSED(PEER_MSG_KEY_REP, m.key_rep.status = 1, "status");
    REFUSED(PEER_MSG_KEY_REP, m.key_rep.key.size = 0, "empty");
    REFUSED(PEER_MSG_KEY_REP, m.key_rep.status = RDMAD_E_NOMEM, "a refusal has a key");
    REFUSED(PEER_MSG_LINK_GONE, m.link_gone.via = 0, "no link");
}

Test(peer_wire, senseless_values_of_channels_are_refused) {
    REFUSED(PEER_MSG_CHAN_REQ, m.chan_req.ref = 0, "no number");
    REFUSED(PEER_MSG_CHAN_REQ, m.chan_req.kind = 3, "kind of channel");
    REFUSED(PEER_MSG_CHAN_REQ, m.chan_req.kind = RDMAD_CHANNEL_DATAGRAM, "what was asked for");
    REFUSED(PEER_MSG_CHAN_REQ, m.chan_req.asked = 3, "what was asked for");
    REFUSED(PEER_MSG_CHAN_REQ, m.chan_req.worker = PEER_ANY_WORKER, "no worker");
    REFUSED(PEER_MSG_CHAN_REQ, m.chan_req.worker = PEER_WORKERS, "no worker");
    REFUSED(PEER_MSG_CHAN_REQ, m.chan_req.port = 0, "address");
    REFUSED(PEER_MSG_CHAN_REQ, strcpy(m.chan_req.host, "a b"), "address");
    REFUSED(PEER_MSG_CHAN_REQ, strcpy(m.chan_req.service, ".x"), "no service");
    REFUSED(PEER_MSG_CHAN_REQ, m.chan_req.service[0] = 0, "no service");
    REFUSED(PEER_MSG_CHAN_REFUSE, m.chan_refuse.status = RDMAD_OK, "refusal");
    REFUSED(PEER_MSG_CHAN_REFUSE, m.chan_refuse.status = -1000, "refusal");
    REFUSED(PEER_MSG_CHAN_BIND, m.chan_bind.ref = 0, "no number");
    REFUSED(PEER_MSG_CHAN_BIND, m.chan_bind.number = 0, "no number");
    REFUSED(PEER_MSG_CHAN_BIND, m.chan_bind.kind = UINT32_MAX, "kind of channel");
    REFUSED(PEER_MSG_CHAN_BIND, m.chan_bind.worker = PEER_ANY_WORKER, "no worker");
    REFUSED(PEER_MSG_CHAN_BIND, m.chan_bind.worker = PEER_WORKERS, "no worker");
    REFUSED(PEER_MSG_CHAN_END, m.chan_end.mine = 2, "mine");
    REFUSED(PEER_MSG_CHAN_END, m.chan_end.reason = RDMAD_OK, "reason");
    REFUSED(PEER_MSG_CHAN_END, m.chan_end.reason = 1, "reason");
}

Test(peer_wire, senseless_values_of_names_are_refused) {
    REFUSED(PEER_MSG_NAMES_REQ, strcpy(m.names_req.prefix, "a/"), "malformed");
    REFUSED(PEER_MSG_NAMES_REQ, strcpy(m.names_req.after, "a b"), "malformed");
    REFUSED(PEER_MSG_NAMES_REP, m.names_rep.last = 3, "last");
    REFUSED(PEER_MSG_NAMES_REP, m.names_rep.last = 1, "after the last");
    REFUSED(PEER_MSG_NAMES_REP, m.names_rep.entry.name[0] = 0, "no name");
    REFUSED(PEER_MSG_NAMES_REP, strcpy(m.names_rep.entry.name, "lease"), "no name");
    REFUSED(PEER_MSG_NAMES_REP, m.names_rep.entry.kind = 2, "unknown kind");
    REFUSED(PEER_MSG_NAMES_REP, m.names_rep.entry.rights = 16, "rights");
    REFUSED(PEER_MSG_WATCH_REQ, strcpy(m.watch_req.prefix, "*"), "malformed");
    REFUSED(PEER_MSG_NAME_EV, m.name_ev.gone = 3, "gone");
    REFUSED(PEER_MSG_NAME_EV, m.name_ev.gone = 2, "all names anew");
    REFUSED(PEER_MSG_WATCH_MORE, m.watch_more.count = 0, "no more");
    REFUSED(PEER_MSG_NAME_EV, m.name_ev.entry.kind = 2, "unknown kind");
    struct peer_msg all = {.type = PEER_MSG_NAME_EV, .name_ev.ref = 1}, out;
    uint8_t frame[PEER_WIRE_MAX];
    size_t length = peer_wire_encode(&all, frame);
    cr_expect_eq(peer_wire_decode(frame, length, &out, NULL), 0, "those that are there were told");
}

Test(peer_wire, senseless_values_of_leases_of_leases_are_refused) {
    REFUSED(PEER_MSG_DELEGATE_REQ, m.delegate_req.length = 0, "range");
    REFUSED(PEER_MSG_DELEGATE_REQ, m.delegate_req.offset++, "range");
    REFUSED(PEER_MSG_DELEGATE_REQ, m.delegate_req.rights = 0, "rights");
    REFUSED(PEER_MSG_DELEGATE_REQ, m.delegate_req.rights = 16, "rights");
    REFUSED(PEER_MSG_DELEGATE_REP, m.delegate_rep.status = 1, "status");
    REFUSED(PEER_MSG_DELEGATE_REP, m.delegate_rep.status = RDMAD_E_DELEGATE, "has a lease");
    REFUSED(PEER_MSG_DELEGATE_REP, m.delegate_rep.lease = 0, "without number");
    REFUSED(PEER_MSG_REQUEST_REQ, m.request_req.bytes = 0, "no bytes");
    REFUSED(PEER_MSG_REQUEST_REQ, m.request_req.rights = 0, "rights");
    REFUSED(PEER_MSG_REQUEST_REQ, m.request_req.service[0] = 0, "no service");
    REFUSED(PEER_MSG_KEEP_REP, m.keep_rep.status = 2, "status");
    REFUSED(PEER_MSG_CERTIFICATE, m.certificate.total = 0, "so many bytes");
    REFUSED(PEER_MSG_CERTIFICATE, m.certificate.total = PEER_CERTIFICATES_MAX + 1, "so many bytes");
    REFUSED(PEER_MSG_CERTIFICATE, m.certificate.at = 2 * PEER_PIECE_BYTES, "no piece begins");
    REFUSED(PEER_MSG_CERTIFICATE, m.certificate.at = 100, "no piece begins");
    REFUSED(PEER_MSG_CERTIFICATE, m.certificate.size = PEER_PIECE_BYTES, "that size");
}

Test(peer_wire, only_a_blob_may_be_missing_where_there_is_none_yet) {
    uint8_t frame[PEER_WIRE_MAX];
    struct peer_msg m = peer_sample(PEER_MSG_ATTACH_REP), out;
    m.attach_rep.key = (struct fabric_blob){0};
    size_t length = peer_wire_encode(&m, frame);
    cr_expect_eq(peer_wire_decode(frame, length, &out, NULL), 0, "no link was named");
    m = peer_sample(PEER_MSG_LINK_REQ);
    m.link_req.hello = (struct fabric_blob){0};
    length = peer_wire_encode(&m, frame);
    cr_expect_eq(peer_wire_decode(frame, length, &out, NULL), 0, "tcp has nothing to say");
}

Test(peer_wire, blobs_have_a_size_that_fits_and_nothing_behind_it) {
    uint8_t frame[PEER_WIRE_MAX];
    struct peer_msg m = peer_sample(PEER_MSG_LINK_REQ), out;
    size_t at = PEER_WIRE_HEAD + 8 + 4, length = encode(PEER_MSG_LINK_REQ, frame);
    frame[at] = FABRIC_BLOB_MAX + 1;
    refused(frame, length, "malformed");
    frame[at] = FABRIC_BLOB_MAX; /* all of it counts */
    cr_expect_eq(peer_wire_decode(frame, length, &out, NULL), 0);
    frame[at] = 1; /* the second byte is left over */
    refused(frame, length, "malformed");

    m.link_req.hello.bytes[60] = 7; /* left over in the sender's struct: does not leave the house */
    length = peer_wire_encode(&m, frame);
    cr_expect_eq(frame[at + 1 + 60], 0);
    cr_expect_eq(peer_wire_decode(frame, length, &out, NULL), 0);
}

Test(peer_wire, texts_are_terminated_zero_filled_and_printable) {
    uint8_t frame[PEER_WIRE_MAX];
    struct peer_msg m;
    size_t length = encode(PEER_MSG_BYE, frame);
    uint8_t *text = frame + PEER_WIRE_HEAD + 4;
    memset(text, 'a', RDMAD_TEXT_MAX + 1);
    refused(frame, length, "malformed"); /* no NUL */
    memset(text, 0, RDMAD_TEXT_MAX + 1);
    text[RDMAD_TEXT_MAX] = 'b';
    refused(frame, length, "malformed"); /* something hides behind it */
    memcpy(text, "a\x1b[31m\nb", 8);
    text[RDMAD_TEXT_MAX] = 0;
    cr_assert_eq(peer_wire_decode(frame, length, &m, NULL), 0);
    cr_expect_str_eq(m.bye.text, "a?[31m?b");
}

/* The wire's bound and the setting's are one: a channel at the last worker would else be refused.
 */
Test(peer_wire, every_worker_that_a_daemon_can_have_can_be_named) {
    cr_assert_eq(setting_find("workers")->max, PEER_WORKERS);
}
