/* SPDX-License-Identifier: MIT */
/*
 * TLS between daemons: who is let in, and what is said to and of who is not. Both ends are in
 * memory.
 */
#include "pki/files.h"
#include "pki/issued.h"
#include "pki/key.h"
#include "pki/own.h"
#include "tests/unit/pki_rig.h"
#include <criterion/criterion.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct rig_end client, server;

static void connect_nodes(const char *from, const char *to) {
    rig_shake(rig_client(from, PKI_PEER), rig_server(to), &client, &server);
}

static void expect_let_in(const char *client_name, const char *server_name) {
    cr_assert_eq(server.why.code, 0, "%s", server.why.text);
    cr_assert_eq(client.why.code, 0, "%s", client.why.text);
    cr_assert(client.done && server.done);
    cr_assert_str_eq(server.peer.name, client_name);
    cr_assert_str_eq(client.peer.name, server_name);
    rig_end_free(&client, &server);
}

/* The server refuses with a sentence that has those words, and the client is told, too. */
static void expect_refused_by_server(int code, const char *words, const char *to_client) {
    cr_assert_eq(server.why.code, code, "%d: %s", server.why.code, server.why.text);
    cr_assert(strstr(server.why.text, words), "\"%s\" is not in: %s", words, server.why.text);
    cr_assert(client.why.code, "the client was not told");
    cr_assert(strstr(client.why.text, to_client), "\"%s\" is not in: %s", to_client,
              client.why.text);
    rig_end_free(&client, &server);
}

static void expect_refused_by_client(const char *words) {
    cr_assert_eq(client.why.code, RDMAD_E_PERM, "%s", client.why.text);
    cr_assert(strstr(client.why.text, words), "\"%s\" is not in: %s", words, client.why.text);
    cr_assert(!server.done || server.why.code, "the server took the connection");
    rig_end_free(&client, &server);
}

Test(pki_context, nodes_of_a_cluster_know_each_other_by_name) {
    char ca[RIG_PATH], a[RIG_PATH];
    rig_init(ca, "alpha");
    rig_node(a, ca, (struct pki_terms){.name = "beta.rack-1"});
    connect_nodes(a, ca);
    expect_let_in("beta.rack-1", "alpha");
    connect_nodes(ca, a);
    expect_let_in("alpha", "beta.rack-1");
}

Test(pki_context, single_certificates_are_trusted_one_by_one) {
    char a[RIG_PATH], b[RIG_PATH], c[RIG_PATH];
    rig_single(a, (struct pki_terms){.name = "a"});
    rig_single(b, (struct pki_terms){.name = "b"});
    rig_single(c, (struct pki_terms){.name = "c"});
    rig_trust(a, b);
    rig_trust(b, a);
    rig_trust(c, a);
    connect_nodes(a, b);
    expect_let_in("a", "b");
    connect_nodes(c, a);
    expect_refused_by_server(RDMAD_E_PERM, "not in trust/ here", "does not trust the CA");
}

Test(pki_context, another_ca_is_refused) {
    char one[RIG_PATH], two[RIG_PATH], a[RIG_PATH];
    rig_init(one, "one");
    rig_init(two, "two");
    rig_node(a, two, (struct pki_terms){.name = "a"});
    rig_copy(one, PKI_CA_CERT, a, "trust/one.crt");
    connect_nodes(a, one);
    expect_refused_by_server(RDMAD_E_PERM, "not in trust/ here", "does not trust the CA");
    connect_nodes(one, a);
    expect_refused_by_client("not in trust/ here");
}

/* A CA changes without a gap: both are trusted for a while. */
Test(pki_context, two_cas_are_trusted_at_once) {
    char one[RIG_PATH], two[RIG_PATH], a[RIG_PATH];
    rig_init(one, "one");
    rig_init(two, "two");
    rig_node(a, two, (struct pki_terms){.name = "a"});
    rig_copy(one, PKI_CA_CERT, a, "trust/one.crt");
    rig_copy(two, PKI_CA_CERT, one, "trust/two.crt");
    connect_nodes(a, one); /* and the list of revoked ones that `one` has says nothing of two's */
    expect_let_in("a", "one");
}

Test(pki_context, dates_are_kept) {
    char ca[RIG_PATH], a[RIG_PATH];
    rig_init(ca, "ca");
    rig_node(
        a, ca,
        (struct pki_terms){.name = "a", .not_before = rig_now() - 100, .not_after = rig_now() - 2});
    connect_nodes(a, ca);
    expect_refused_by_server(RDMAD_E_PERM, "has expired at ", "has expired");
    rig_node(a, ca, (struct pki_terms){.name = "b", .not_before = rig_now() + 1000});
    connect_nodes(a, ca);
    expect_refused_by_server(RDMAD_E_PERM, "is not valid before ", "may not be valid yet");
    connect_nodes(ca, a);
    expect_refused_by_client("is not valid before ");
}

Test(pki_context, revoked_ones_are_refused_and_others_are_not) {
    char ca[RIG_PATH], a[RIG_PATH], b[RIG_PATH];
    rig_init(ca, "ca");
    rig_node(a, ca, (struct pki_terms){.name = "a"});
    rig_node(b, ca, (struct pki_terms){.name = "b"});
    rig_revoke(ca, "a");
    connect_nodes(a, ca);
    expect_refused_by_server(RDMAD_E_PERM, "is revoked", "is revoked");
    connect_nodes(ca, a);
    expect_refused_by_client("is revoked");
    connect_nodes(b, ca);
    expect_let_in("b", "ca");
}

/* For connections that live on when the list changes. */
Test(pki_context, a_certificate_is_judged_again) {
    char ca[RIG_PATH], a[RIG_PATH];
    struct pki_error err = {0};
    rig_init(ca, "ca");
    rig_node(a, ca, (struct pki_terms){.name = "a"});
    X509 *cert = rig_leaf(a);
    struct pki_identity *id = rig_load(ca);
    cr_assert_eq(pki_check(id, cert, NULL, &err), 0, "%s", err.text);
    pki_identity_free(id);
    rig_revoke(ca, "a");
    id = rig_load(ca);
    cr_assert_eq(pki_check(id, cert, NULL, &err), RDMAD_E_PERM);
    cr_assert(strstr(err.text, "is revoked"), "%s", err.text);
    pki_identity_free(id);
    X509_free(cert);
}

Test(pki_context, a_list_that_is_out_of_date_lets_nobody_in) {
    char ca[RIG_PATH], a[RIG_PATH];
    struct pki_error err;
    struct pki_ca open;
    X509_CRL *list;
    rig_init(ca, "ca");
    rig_node(a, ca, (struct pki_terms){.name = "a"});
    cr_assert_eq(pki_ca_open(ca, &open, &err), 0);
    struct pki_list_terms terms = {
        .now = rig_now() - 100, .from = rig_now() - 100, .until = rig_now() - 5};
    cr_assert_eq(pki_list_sign(&terms, NULL, NULL, open.cert, open.key, &list, &err), 0);
    cr_assert_eq(pki_revoked_write(&open.dir, list, NULL, &err), 0);
    X509_CRL_free(list);
    pki_ca_close(&open);
    connect_nodes(a, ca);
    expect_refused_by_server(RDMAD_E_PERM, "revoked.crl", "");
}

/* The CA's clock is an hour fast. Nodes could not even fetch a better list if this one shut them
 * out. */
Test(pki_context, a_list_from_the_future_revokes_and_shuts_out_nobody_else) {
    char ca[RIG_PATH], a[RIG_PATH], b[RIG_PATH];
    struct pki_error err = {0};
    struct pki_ca open;
    unsigned count;
    rig_init(ca, "ca");
    rig_node(a, ca, (struct pki_terms){.name = "a"});
    rig_node(b, ca, (struct pki_terms){.name = "b"});
    cr_assert_eq(pki_ca_open(ca, &open, &err), 0, "%s", err.text);
    cr_assert_eq(pki_ca_revoke(&open, "a", rig_now() + 3600, &count, &err), 0, "%s", err.text);
    pki_ca_close(&open);
    rig_copy(ca, "revoked.crl", b, "revoked.crl");
    connect_nodes(b, ca);
    expect_let_in("b", "ca");
    rig_shake(rig_client(b, PKI_JOIN), rig_server(ca), &client, &server);
    expect_let_in("b", "ca");
    connect_nodes(a, ca);
    expect_refused_by_server(RDMAD_E_PERM, "is revoked", "is revoked");
    connect_nodes(b, a);
    expect_refused_by_client("is revoked");
    X509 *cert = rig_leaf(a);
    struct pki_identity *id = rig_load(b);
    cr_assert_eq(pki_check(id, cert, NULL, &err), RDMAD_E_PERM);
    cr_assert(strstr(err.text, "is revoked"), "%s", err.text);
    pki_identity_free(id);
    X509_free(cert);
}

Test(pki_context, who_shows_no_certificate_is_refused) {
    char ca[RIG_PATH];
    rig_init(ca, "ca");
    SSL_CTX *ctx = rig_client(ca, PKI_PEER), *bare = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_alpn_protos(bare, (const unsigned char *)"\x0crdmad-peer/1", 13);
    SSL_CTX_free(ctx);
    rig_shake(bare, rig_server(ca), &client, &server);
    cr_assert_eq(server.why.code, RDMAD_E_PERM, "%s", server.why.text);
    cr_assert(strstr(server.why.text, "shows no certificate"), "%s", server.why.text);
    rig_end_free(&client, &server);
}

Test(pki_context, a_cas_own_certificate_is_no_nodes) {
    char ca[RIG_PATH], a[RIG_PATH], b[RIG_PATH];
    rig_init(ca, "ca");
    rig_single(a, (struct pki_terms){.name = "a", .is_ca = true});
    rig_trust(a, a);
    rig_node(b, ca, (struct pki_terms){.name = "b"});
    rig_trust(b, a);
    rig_copy(ca, PKI_CA_CERT, a, "trust/ca.crt");
    connect_nodes(a, b);
    cr_assert_eq(server.why.code, RDMAD_E_PERM, "%s", server.why.text);
    cr_assert(strstr(server.why.text, "is not for this use"), "%s", server.why.text);
    rig_end_free(&client, &server);
}

/* A node's key must not make it a CA. */
Test(pki_context, a_node_cannot_sign_others) {
    char ca[RIG_PATH], a[RIG_PATH], b[RIG_PATH];
    struct pki_error err;
    struct pki_dir at;
    EVP_PKEY *key;
    X509 *cert;
    rig_init(ca, "ca");
    rig_node(a, ca, (struct pki_terms){.name = "a"});
    rig_node(b, ca, (struct pki_terms){.name = "b"});
    struct pki_identity *signer = rig_load(a);
    struct pki_identity *other = rig_load(b);
    key = other->key;
    struct pki_terms terms = {
        .name = "ca2", .not_before = rig_now() - 10, .not_after = rig_now() + 1000};
    cr_assert_eq(pki_cert_sign(&terms, key, signer->cert, signer->key, &cert, &err), 0);
    cr_assert_eq(pki_dir_open(b, &at, &err), 0);
    cr_assert_eq(pki_own_write_cert(&at, PKI_NODE_CERT, cert, signer->cert, &err), 0);
    pki_dir_close(&at);
    X509_free(cert);
    pki_identity_free(signer);
    pki_identity_free(other);
    connect_nodes(b, ca);
    cr_assert_eq(server.why.code, RDMAD_E_PERM, "%s", server.why.text);
    cr_assert(strstr(server.why.text, "is no CA") || strstr(server.why.text, "not for this use"),
              "%s", server.why.text);
    rig_end_free(&client, &server);
}

Test(pki_context, a_certificate_without_a_nodes_name_is_refused) {
    char ca[RIG_PATH], a[RIG_PATH];
    struct pki_error err;
    struct pki_dir at;
    struct pki_ca open;
    X509 *cert;
    rig_init(ca, "ca");
    rig_node(a, ca, (struct pki_terms){.name = "a"});
    struct pki_identity *id = rig_load(a);
    cr_assert_eq(pki_ca_open(ca, &open, &err), 0);
    struct pki_terms terms = {
        .name = "*.evil", .not_before = rig_now() - 10, .not_after = rig_now() + 1000};
    cr_assert_eq(pki_cert_sign(&terms, id->key, open.cert, open.key, &cert, &err), 0, "%s",
                 err.text);
    pki_ca_close(&open);
    SSL_CTX *ctx = rig_client(a, PKI_PEER);
    cr_assert_eq(SSL_CTX_use_certificate(ctx, cert), 1);
    rig_shake(ctx, rig_server(ca), &client, &server);
    expect_refused_by_server(RDMAD_E_PERM, "names no node", "");
    /* and it is no identity either */
    cr_assert_eq(pki_dir_open(a, &at, &err), 0);
    cr_assert_eq(pki_own_write_cert(&at, PKI_NODE_CERT, cert, NULL, &err), 0);
    pki_dir_close(&at);
    pki_identity_free(id);
    id = NULL;
    cr_assert_eq(pki_load(a, &id, &err), RDMAD_E_NAME, "%s", err.text);
    X509_free(cert);
}

/* ---- the protocol --------------------------------------------------------------------------- */

Test(pki_context, who_asks_for_no_protocol_of_ours_is_refused) {
    static const struct {
        const char *alpn;
        unsigned size;
    } cases[] = {{NULL, 0}, {"\x08http/1.1", 9}, {"\x0crdmad-peer/2", 13}};
    char ca[RIG_PATH];
    rig_init(ca, "ca");
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        SSL_CTX *ctx = rig_client(ca, PKI_PEER), *plain = SSL_CTX_new(TLS_client_method());
        struct pki_identity *id = rig_load(ca);
        SSL_CTX_use_cert_and_key(plain, id->cert, id->key, NULL, 1);
        if (cases[i].alpn)
            SSL_CTX_set_alpn_protos(plain, (const unsigned char *)cases[i].alpn, cases[i].size);
        rig_shake(plain, rig_server(ca), &client, &server);
        expect_refused_by_server(RDMAD_E_PROTOCOL, "asks for none of rdmad's protocols", "");
        pki_identity_free(id);
        SSL_CTX_free(ctx);
    }
}

Test(pki_context, nothing_older_than_tls_1_3_is_spoken) {
    char ca[RIG_PATH];
    rig_init(ca, "ca");
    SSL_CTX *ctx = rig_client(ca, PKI_PEER);
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    rig_shake(ctx, rig_server(ca), &client, &server);
    cr_assert_eq(server.why.code, RDMAD_E_PROTOCOL);
    cr_assert(strstr(server.why.text, "does not offer TLS 1.3"), "%s", server.why.text);
    rig_end_free(&client, &server);
}

Test(pki_context, plain_text_is_refused_in_words) {
    char ca[RIG_PATH];
    struct pki_error why;
    BIO *a, *b;
    rig_init(ca, "ca");
    SSL_CTX *ctx = rig_server(ca);
    SSL *ssl = SSL_new(ctx);
    cr_assert_eq(BIO_new_bio_pair(&a, 4096, &b, 4096), 1);
    SSL_set_bio(ssl, b, b);
    SSL_set_accept_state(ssl);
    cr_assert_eq(BIO_write(a, "\0\0\0\x20\1\0\0\0hello, I am a node", 26), 26);
    cr_assert(SSL_do_handshake(ssl) <= 0);
    cr_assert_eq(pki_why(ssl, ERR_get_error(), &why), RDMAD_E_PROTOCOL);
    cr_assert(strstr(why.text, "does not speak TLS"), "%s", why.text);
    ERR_clear_error();
    SSL_free(ssl);
    BIO_free(a);
    SSL_CTX_free(ctx);
}

Test(pki_context, nothing_of_a_connection_is_good_for_another) {
    char ca[RIG_PATH], a[RIG_PATH];
    rig_init(ca, "ca");
    rig_node(a, ca, (struct pki_terms){.name = "a"});
    connect_nodes(a, ca);
    SSL_SESSION *session = SSL_get1_session(client.ssl);
    cr_assert_eq(SSL_SESSION_is_resumable(session), 0);
    SSL_SESSION_free(session);
    expect_let_in("a", "ca");
}

/* ---- joining -------------------------------------------------------------------------------- */

static void shake_stranger(const char *by, const char *ca) {
    uint8_t fingerprint[PKI_FINGERPRINT_BYTES];
    struct pki_error err;
    struct pki_ca open;
    SSL_CTX *ctx;
    cr_assert_eq(pki_ca_open(by, &open, &err), 0);
    pki_fingerprint(open.cert, fingerprint);
    pki_ca_close(&open);
    cr_assert_eq(pki_stranger_context(fingerprint, &ctx, &err), 0);
    rig_shake(ctx, rig_server(ca), &client, &server);
}

Test(pki_context, a_stranger_may_only_join) {
    char ca[RIG_PATH];
    rig_init(ca, "ca");
    shake_stranger(ca, ca);
    cr_assert_eq(client.why.code, 0, "%s", client.why.text);
    cr_assert_eq(server.why.code, 0, "%s", server.why.text);
    cr_assert_eq(server.peer.protocol, PKI_JOIN);
    cr_assert_str_eq(server.peer.name, "");
    cr_assert_str_eq(client.peer.name, "ca");
    cr_assert(client.peer.serves_joins);
    rig_end_free(&client, &server);
}

Test(pki_context, a_stranger_says_nothing_to_another_ca) {
    char ca[RIG_PATH], other[RIG_PATH];
    rig_init(ca, "ca");
    rig_init(other, "other");
    shake_stranger(ca, other);
    expect_refused_by_client("does not belong to the CA that the token names");
}

/* Any node of the cluster has a chain to the CA; only one may be given tokens. */
Test(pki_context, a_stranger_says_nothing_to_another_node) {
    char ca[RIG_PATH], a[RIG_PATH];
    rig_init(ca, "ca");
    rig_node(a, ca, (struct pki_terms){.name = "a"});
    rig_write(a, PKI_CA_KEY, "it says that it is one", 0600);
    shake_stranger(ca, a);
    expect_refused_by_client("not the one that takes tokens");
}

Test(pki_context, only_the_node_of_the_ca_takes_those_that_join) {
    char ca[RIG_PATH], a[RIG_PATH];
    rig_init(ca, "ca");
    rig_node(a, ca, (struct pki_terms){.name = "a"});
    shake_stranger(ca, a);
    expect_refused_by_server(RDMAD_E_PROTOCOL, "not the node where rdmactl cluster init ran",
                             "only the daemon where rdmactl cluster init ran");
}

/* Renewal: with a certificate the joining protocol knows the name, and a bad one is bad there, too.
 */
Test(pki_context, a_certificate_shown_when_joining_is_judged) {
    char ca[RIG_PATH], a[RIG_PATH];
    rig_init(ca, "ca");
    rig_node(a, ca, (struct pki_terms){.name = "a"});
    rig_shake(rig_client(a, PKI_JOIN), rig_server(ca), &client, &server);
    cr_assert_eq(server.peer.protocol, PKI_JOIN);
    expect_let_in("a", "ca");
    rig_revoke(ca, "a");
    rig_shake(rig_client(a, PKI_JOIN), rig_server(ca), &client, &server);
    expect_refused_by_server(RDMAD_E_PERM, "is revoked", "is revoked");
}
