/* SPDX-License-Identifier: MIT */
/*
 * Connections and the ends of certificates: they end with theirs, unless the next one was shown.
 */
#include "daemon/peer/connect/judge.h"
#include "daemon/peer/connect/renewed.h"
#include "pki/next.h"
#include "pki/own.h"
#include "tests/unit/tls_end.h"
#include <time.h>

TestSuite(peer_renewed, .init = tls_up, .fini = tls_down, .timeout = 120);

#define DAY 86400

/* ---- the clock on the wall ----------------------------------------------------------------- */

static time_t ahead;

time_t __real_time(time_t *out);
time_t __wrap_time(time_t *out);
time_t __wrap_time(time_t *out) {
    time_t now = __real_time(NULL) + ahead;
    if (out)
        *out = now;
    return now;
}

/* So much later the daemon looks at its clock. */
static void later(int64_t seconds) {
    ahead += seconds;
    rig_advance(JUDGE_EXPIRY_NS);
    quiet();
}

static bool lives(struct end *e) {
    struct peer_msg ping = {.type = PEER_MSG_PING};
    end_say(e, &ping);
    return end_expect(e, PEER_MSG_PONG).type == PEER_MSG_PONG;
}

static void expect_end(struct end *e) {
    struct peer_msg bye = end_expect(e, PEER_MSG_BYE);
    cr_assert_eq(bye.bye.code, RDMAD_E_PERM);
    cr_assert(strstr(bye.bye.text, "the certificate of raw was good until") &&
                  strstr(bye.bye.text, "its renewal is due"),
              "%s", bye.bye.text);
    cr_assert(end_closed(e));
}

/* ---- next certificates --------------------------------------------------------------------- */

/* In a directory, by the CA of another, for the key that is there. */
static void sign_next(const char *dir, const char *by, const char *name, int64_t days) {
    struct pki_terms terms = {.name = name,
                              .not_before = rig_now() - PKI_EARLY_S,
                              .not_after = rig_now() + days * DAY,
                              .serves_joins = dir == by};
    struct pki_error err;
    struct pki_ca authority;
    struct pki_dir at;
    EVP_PKEY *key;
    X509 *cert;
    cr_assert_eq(pki_ca_open(by, &authority, &err), 0, "%s", err.text);
    cr_assert_eq(pki_dir_open(dir, &at, &err), 0, "%s", err.text);
    cr_assert_eq(pki_own_key(&at, &key, &err), 0);
    cr_assert_eq(pki_cert_sign(&terms, key, authority.cert, authority.key, &cert, &err), 0);
    cr_assert_eq(pki_own_write_cert(&at, PKI_NODE_CERT, cert, authority.cert, &err), 0);
    X509_free(cert);
    EVP_PKEY_free(key);
    pki_dir_close(&at);
    pki_ca_close(&authority);
}

static void say_certificate(struct end *e, const uint8_t *bytes, size_t size) {
    for (size_t at = 0; at < size; at += PEER_PIECE_BYTES) {
        struct peer_msg m = {.type = PEER_MSG_CERTIFICATE};
        size_t left = size - at;
        m.certificate.total = (uint32_t)size;
        m.certificate.at = (uint32_t)at;
        m.certificate.size = (uint16_t)(left < PEER_PIECE_BYTES ? left : PEER_PIECE_BYTES);
        memcpy(m.certificate.data, bytes + at, m.certificate.size);
        end_say(e, &m);
    }
}

/* The daemon rests after each. */
static void rest(void) {
    for (int i = 0; i < 20; i++)
        pass_time();
}

/* The certificate that is in a directory; the caller's (OPENSSL_free). */
static uint8_t *that_of(const char *dir, size_t *size) {
    struct pki_identity *id = rig_load(dir);
    struct pki_error err;
    uint8_t *bytes;
    cr_assert_eq(pki_next_print(id, &bytes, size, &err), 0);
    pki_identity_free(id);
    return bytes;
}

static void say_that_of(struct end *e, const char *dir) {
    size_t size;
    uint8_t *bytes = that_of(dir, &size);
    say_certificate(e, bytes, size);
    OPENSSL_free(bytes);
}

static void show(struct end *e, const char *dir) {
    say_that_of(e, dir);
    rest();
}

static void show_without_key(struct end *e, const char *dir) {
    size_t size;
    uint8_t *bytes = that_of(dir, &size);
    rig_spoil_key(bytes, size);
    say_certificate(e, bytes, size);
    OPENSSL_free(bytes);
    rest();
}

Test(peer_renewed, a_connection_ends_with_its_certificate) {
    struct end *e = greet();
    later(DAY / 2);
    cr_assert(lives(e));
    later(DAY / 2 + 1);
    expect_end(e);
    end_free(e);
}

Test(peer_renewed, one_whose_next_certificate_was_shown_goes_on) {
    struct end *e = greet();
    sign_next(node, ca, "raw", 3);
    show(e, node);
    later(DAY + 1);
    cr_assert(lives(e));
    later(2 * DAY);
    expect_end(e); /* with the next one */
    end_free(e);
}

Test(peer_renewed, what_is_not_the_nodes_next_certificate_changes_nothing) {
    static const uint8_t garbage[600] = {0x30, 0x82, 0x02, 0x00};
    char other_key[RIG_PATH], other_ca[RIG_PATH];
    rig_node(other_key, ca, (struct pki_terms){.name = "raw", .not_after = rig_now() + 9 * DAY});
    rig_init(other_ca, "there");
    struct end *e = greet();
    sign_next(node, ca, "second", 9);
    show(e, node);
    show(e, other_key);
    say_certificate(e, garbage, sizeof(garbage));
    rest();
    sign_next(node, ca, "raw", 9);
    show_without_key(e, node);
    sign_next(node, other_ca, "raw", 9);
    show(e, node);
    cr_assert(lives(e));
    later(DAY + 1);
    expect_end(e);
    end_free(e);
}

/* Its operator was faster than ours. */
Test(peer_renewed, one_of_a_ca_that_is_trusted_later_is_taken_then) {
    char other_ca[RIG_PATH];
    struct error err;
    rig_init(other_ca, "there");
    struct end *e = greet();
    sign_next(node, other_ca, "raw", 9);
    show(e, node);
    rig_copy(other_ca, "ca.crt", ca, "trust/there.crt");
    cr_assert_eq(identity_reload(&rig.st, true, &err), 0, "%s", err.text);
    quiet();
    later(DAY + 1);
    cr_assert(lives(e));
    end_free(e);
}

Test(peer_renewed, certificates_out_of_order_end_it) {
    struct peer_msg m = {.type = PEER_MSG_CERTIFICATE};
    struct end *e = greet();
    m.certificate.total = 700;
    m.certificate.at = PEER_PIECE_BYTES;
    m.certificate.size = 700 - PEER_PIECE_BYTES;
    end_say(e, &m);
    cr_assert_eq(end_expect(e, PEER_MSG_BYE).bye.code, RDMAD_E_PROTOCOL);
    end_free(e);
}

Test(peer_renewed, those_who_show_certificates_without_pause_wait_for_a_rest) {
    enum { MANY = 8 };
    struct end *e[MANY];
    unsigned taken = 0;
    int64_t until = rig_now() + 5 * DAY;
    for (int i = 0; i < MANY; i++)
        e[i] = greet();
    sign_next(node, ca, "raw", 9);
    for (int i = 0; i < MANY; i++)
        say_that_of(e[i], node);
    quiet();
    rig_advance(RENEWED_REST_NS);
    quiet();
    list_for_each (at, &rig.st.peers->all)
        taken += list_entry(at, struct peer, node)->certificate.until > until;
    cr_assert_leq(taken, 2, "%u were judged at once", taken);
    for (int i = 0; i < MANY; i++)
        end_free(e[i]);
}

/* ---- ours ---------------------------------------------------------------------------------- */

static void load_next(void) {
    struct error err;
    sign_next(ca, ca, "here", 200);
    cr_assert_eq(identity_reload(&rig.st, true, &err), 0, "%s", err.text);
}

static void expect_ours(struct end *e) {
    uint8_t bytes[PEER_CERTIFICATES_MAX];
    const unsigned char *at = bytes;
    struct peer_certificate m;
    do {
        m = end_expect(e, PEER_MSG_CERTIFICATE).certificate;
        memcpy(bytes + m.at, m.data, m.size);
    } while (m.at + m.size < m.total);
    X509 *shown = d2i_X509(NULL, &at, m.total), *ours = rig_leaf(ca);
    cr_assert_eq(X509_cmp(shown, ours), 0);
    X509_free(shown);
    X509_free(ours);
}

Test(peer_renewed, our_next_certificate_is_shown_to_peers) {
    struct end *e = greet();
    load_next();
    expect_ours(e);
    end_free(e);
}

Test(peer_renewed, ours_is_shown_to_whom_the_handshake_has_shown_the_one_before) {
    struct end *e = dial_as(node);
    SSL_do_handshake(e->ssl);
    end_flush(e);
    for (int i = 0; i < 100; i++)
        settle();
    load_next();
    greet_by(e);
    expect_ours(e);
    end_free(e);
}
