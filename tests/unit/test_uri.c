/* SPDX-License-Identifier: MIT */
/* Lease URIs: one spelling per lease, and a sentence for everything else. */
#include "common/errors.h"
#include "common/uri.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <string.h>

#define KEY "000102030405060708090a0b0c0d0eff"

static void round_trip(const char *text) {
    struct rdmad_uri u;
    char back[RDMAD_URI_MAX + 1];
    const char *why = rdmad_uri_parse(text, &u);

    cr_assert_null(why, "%s: %s", text, why);
    cr_assert_eq(rdmad_uri_print(&u, back, sizeof(back)), (int)strlen(text));
    cr_assert_str_eq(back, text);
}

Test(uri, what_is_printed_is_what_was_parsed) {
    round_trip("rdmad://127.0.0.1:7471/lease/17?key=" KEY);
    round_trip("rdmad://node-1.example:1/lease/18446744073709551615?key=" KEY);
    round_trip("rdmad://[::1]:65535/lease/1?key=" KEY);
    round_trip("rdmad://[fe80::1%eth0]:9/name");
    round_trip("rdmad:///lease/1?key=" KEY);
    round_trip("rdmad:///weights.v2");
    round_trip("rdmad://h:1/leases");
}

Test(uri, fields_are_taken_apart) {
    struct rdmad_uri u;

    cr_assert_null(rdmad_uri_parse("rdmad://[::1]:80/lease/42?key=" KEY, &u));
    cr_assert_str_eq(u.host, "::1");
    cr_assert_eq(u.port, 80);
    cr_assert_eq(u.lease, 42);
    cr_assert_eq(u.key[1], 1);
    cr_assert_eq(u.key[15], 0xff);
    cr_assert_str_eq(u.name, "");
    cr_assert_null(rdmad_uri_parse("rdmad:///x", &u));
    cr_assert_str_eq(u.host, "");
    cr_assert_eq(u.lease, 0);
    cr_assert_str_eq(u.name, "x");
}

Test(uri, malformed_text_is_refused_with_a_sentence_and_changes_nothing) {
    static const char *const bad[] = {
        "",
        "rdmad:",
        "RDMAD:///x",
        "http://h:1/x",
        "rdmad://",
        "rdmad:///",
        "rdmad://h/x",
        "rdmad://h:/x",
        "rdmad://h:0/x",
        "rdmad://h:65536/x",
        "rdmad://h:01/x",
        "rdmad://h:1",
        "rdmad://h:1x/x",
        "rdmad://:1/x",
        "rdmad://h h:1/x",
        "rdmad://::1:1/x",
        "rdmad://[::1:1/x",
        "rdmad://[]:1/x",
        "rdmad://[h]:1/x",
        "rdmad://[::1%]:1/x",
        "rdmad://[::1%a/b]:1/x",
        "rdmad:///lease",
        "rdmad:///lease/",
        "rdmad:///lease/1",
        "rdmad:///lease/1?key=",
        "rdmad:///lease/0?key=" KEY,
        "rdmad:///lease/01?key=" KEY,
        "rdmad:///lease/-1?key=" KEY,
        "rdmad:///lease/18446744073709551616?key=" KEY,
        "rdmad:///lease/1?key=" KEY "0",
        "rdmad:///lease/1?key=" KEY "&a=b",
        "rdmad:///lease/1?key=0001",
        "rdmad:///lease/1?key=g00102030405060708090a0b0c0d0eff",
        "rdmad:///.hidden",
        "rdmad:///a/b",
        "rdmad:///a?b",
        "rdmad:///a\n",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rdmad_uri u, before;
        memset(&u, 0x5a, sizeof(u));
        before = u;
        cr_assert_not_null(rdmad_uri_parse(bad[i], &u), "accepted: %s", bad[i]);
        cr_assert_eq(memcmp(&u, &before, sizeof(u)), 0);
    }
}

Test(uri, longest_text_is_refused_not_overrun) {
    char text[RDMAD_URI_MAX + 64];
    struct rdmad_uri u;

    memset(text, 'a', sizeof(text));
    memcpy(text, "rdmad://", 8);
    text[sizeof(text) - 1] = '\0';
    cr_assert_not_null(rdmad_uri_parse(text, &u));
    text[8 + RDMAD_HOST_MAX + 1] = '\0'; /* the host alone is one too long */
    cr_assert_not_null(rdmad_uri_parse(text, &u));
}

Test(uri, printing_into_too_little_room_says_so) {
    struct rdmad_uri u;
    char buf[16];

    cr_assert_null(rdmad_uri_parse("rdmad://h:1/name", &u));
    cr_assert_eq(rdmad_uri_print(&u, buf, sizeof(buf)), RDMAD_E_LENGTH);
    cr_assert_eq(rdmad_uri_print(&u, buf, 0), RDMAD_E_LENGTH);
}

Test(names, only_plain_words_may_be_published) {
    char longest[RDMAD_NAME_MAX + 2];

    cr_assert(rdmad_name_ok("a"));
    cr_assert(rdmad_name_ok("A-z_0.9"));
    cr_assert_not(rdmad_name_ok(""));
    cr_assert_not(rdmad_name_ok(".a"));
    cr_assert_not(rdmad_name_ok("lease"));
    cr_assert_not(rdmad_name_ok("a b"));
    cr_assert_not(rdmad_name_ok("\xc3\xa4"));
    memset(longest, 'x', sizeof(longest));
    longest[RDMAD_NAME_MAX] = '\0';
    cr_assert(rdmad_name_ok(longest));
    longest[RDMAD_NAME_MAX] = 'x';
    longest[RDMAD_NAME_MAX + 1] = '\0';
    cr_assert_not(rdmad_name_ok(longest));
}

Test(hostport, splits_names_and_both_kinds_of_address) {
    char host[RDMAD_HOST_MAX + 1];
    uint16_t port;

    cr_assert_null(rdmad_hostport_parse("127.0.0.1:0", host, &port));
    cr_assert_eq(port, 0);
    cr_assert_null(rdmad_hostport_parse("[::]:65535", host, &port));
    cr_assert_str_eq(host, "::");
    cr_assert_eq(port, 65535);
    cr_assert_not_null(rdmad_hostport_parse("::1:80", host, &port));
    cr_assert_not_null(rdmad_hostport_parse("h", host, &port));
    cr_assert_not_null(rdmad_hostport_parse("h:1 ", host, &port));
    cr_assert_str_eq(host, "::", "a refused text changes nothing");
}

Test(errors, every_code_has_its_name_and_text) {
    cr_assert_str_eq(rdmad_error_name(0), "RDMAD_OK");
    cr_assert_str_eq(rdmad_error_name(RDMAD_E_LEASE_EXPIRED), "RDMAD_E_LEASE_EXPIRED");
    cr_assert_str_eq(rdmad_error_text(RDMAD_E_LEASE_EXPIRED), "lease expired");
    cr_assert_str_eq(rdmad_error_text(1), "unknown error");
    cr_assert_str_eq(rdmad_error_text(-10000), "unknown error");
    cr_assert_str_eq(rdmad_error_text(INT_MIN), "unknown error");
}
