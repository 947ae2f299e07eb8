/* SPDX-License-Identifier: MIT */
/*
 * Joining and renewing, both ends as functions; and requests and replies that lie.
 */
#include "pki/files.h"
#include "pki/issued.h"
#include "pki/join_client.h"
#include "pki/join_server.h"
#include "pki/key.h"
#include "tests/unit/pki_rig.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char ca_dir[RIG_PATH];
static struct pki_error err;

static struct pki_token token_made(void) {
    struct pki_token token;
    struct pki_ca ca;
    struct pki_token_terms terms = {.expires = rig_now() + 100, .days = 30};
    cr_assert_eq(pki_ca_open(ca_dir, &ca, &err), 0, "%s", err.text);
    cr_assert_eq(pki_token_make(&ca.dir, ca.cert, rig_now(), &terms, &token, &err), 0);
    pki_ca_close(&ca);
    return token;
}

/* The CA's answer to a whole request; its bytes come one by one. */
static struct join_bytes answer(const struct join_bytes *request, const X509 *shown,
                                struct join_outcome *outcome) {
    struct join_server server;
    struct join_bytes reply;
    join_server_init(&server);
    for (size_t i = 0; i < request->size; i++) {
        int rc = join_server_take(&server, request->data + i, 1, &err);
        cr_assert_eq(rc, i + 1 < request->size ? JOIN_MORE : 0, "byte %zu: %d %s", i, rc, err.text);
    }
    cr_assert_eq(join_server_answer(&server, ca_dir, shown, rig_now(), &reply, outcome), 0);
    join_server_fini(&server);
    return reply;
}

/* Joins a fresh or old directory; what came of it. */
static int join(const char *dir, const char *name, const struct pki_token *token, bool replace) {
    struct join_client client;
    struct join_bytes request, reply;
    struct join_outcome outcome;
    int rc = join_client_begin(dir, name, token, replace, &client, &request, &err);
    if (rc)
        return rc;
    reply = answer(&request, NULL, &outcome);
    rc = join_client_finish(&client, reply.data, reply.size, "ca.example:7471", &err);
    cr_assert_eq(!rc, !outcome.code, "%s / %s", err.text, outcome.text);
    join_bytes_free(&request);
    join_bytes_free(&reply);
    join_client_fini(&client);
    return rc;
}

Test(pki_join, a_node_joins_and_is_one_of_the_cluster) {
    char dir[RIG_PATH], address[64];
    struct rig_end client, server;
    rig_init(ca_dir, "ca");
    struct pki_token token = token_made();
    cr_assert_eq(join(rig_path(dir, "joined"), "beta", &token, false), 0, "%s", err.text);
    struct pki_identity *id = rig_load(dir);
    cr_assert_str_eq(id->name, "beta");
    cr_assert(!id->is_ca && id->crls);
    cr_assert_eq(id->not_after - id->not_before, 30 * 86400 + PKI_EARLY_S);
    pki_identity_free(id);
    cr_assert_eq(join_client_address(dir, address, sizeof(address), &err), 0);
    cr_assert_str_eq(address, "ca.example:7471");
    rig_shake(rig_client(dir, PKI_PEER), rig_server(ca_dir), &client, &server);
    cr_assert_eq(server.why.code, 0, "%s", server.why.text);
    cr_assert_str_eq(server.peer.name, "beta");
    rig_end_free(&client, &server);
}

Test(pki_join, a_token_joins_one_node) {
    char dir[RIG_PATH];
    struct pki_identity *id;
    rig_init(ca_dir, "ca");
    struct pki_token token = token_made(), other;
    other = token;
    RAND_bytes(other.secret, sizeof(other.secret));
    cr_assert_eq(join(rig_path(dir, "guess"), "beta", &other, false), RDMAD_E_PERM);
    cr_assert_eq(pki_load(dir, &id, &err), PKI_NOT_THERE, "a refused node has an identity");
    cr_assert_eq(join(rig_path(dir, "one"), "beta", &token, false), 0, "%s", err.text);
    cr_assert_eq(join(rig_path(dir, "two"), "gamma", &token, false), RDMAD_E_PERM);
    cr_assert(strstr(err.text, "rdmactl cluster token"), "%s", err.text);
}

/* The same key may: a node whose reply was lost joins again with a new token. */
Test(pki_join, a_taken_name_is_refused_and_does_not_use_up_the_token) {
    char one[RIG_PATH], two[RIG_PATH];
    rig_init(ca_dir, "ca");
    struct pki_token first = token_made(), second = token_made();
    cr_assert_eq(join(rig_path(one, "one"), "beta", &first, false), 0, "%s", err.text);
    cr_assert_eq(join(rig_path(two, "two"), "beta", &second, false), RDMAD_E_EXISTS);
    cr_assert_eq(join(two, "ca", &second, false), RDMAD_E_EXISTS, "the CA's own name");
    cr_assert_eq(join(one, "beta", &second, true), 0, "%s", err.text);
}

Test(pki_join, a_name_that_has_too_many_certificates_does_not_use_up_the_token) {
    char one[RIG_PATH];
    rig_init(ca_dir, "ca");
    rig_path(one, "one");
    for (unsigned i = 0; i < PKI_ISSUED_MAX; i++) {
        struct pki_token token = token_made();
        cr_assert_eq(join(one, "beta", &token, true), 0, "%u: %s", i, err.text);
    }
    struct pki_token last = token_made();
    cr_assert_eq(join(one, "beta", &last, true), RDMAD_E_LIMIT);
    rig_revoke(ca_dir, "beta");
    cr_assert_eq(join(one, "beta", &last, true), 0, "%s", err.text);
}

/* As on a full disk: files are made, but not written. */
static void disk_full(bool full) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = full ? 0 : limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

Test(pki_join, a_certificate_that_cannot_be_written_does_not_use_up_the_token) {
    char dir[RIG_PATH];
    struct join_client client;
    struct join_bytes request, reply;
    struct join_outcome outcome;
    rig_init(ca_dir, "ca");
    rig_path(dir, "one");
    struct pki_token token = token_made();
    cr_assert_eq(join_client_begin(dir, "beta", &token, false, &client, &request, &err), 0);
    for (unsigned i = 0; i < 3; i++) {
        disk_full(true);
        reply = answer(&request, NULL, &outcome);
        disk_full(false);
        cr_assert_eq(outcome.code, RDMAD_E_SYSTEM, "%d: %s", outcome.code, outcome.text);
        cr_assert(outcome.ours && strstr(outcome.text, "cannot write"), "%s", outcome.text);
        join_bytes_free(&reply);
    }
    reply = answer(&request, NULL, &outcome);
    cr_assert_eq(join_client_finish(&client, reply.data, reply.size, "ca.example:7471", &err), 0,
                 "%s / %s", err.text, outcome.text);
    join_bytes_free(&request);
    join_bytes_free(&reply);
    join_client_fini(&client);
    cr_assert_eq(join(rig_path(dir, "two"), "gamma", &token, false), RDMAD_E_PERM, "used twice");
}

Test(pki_join, an_identity_is_not_replaced_by_accident) {
    char dir[RIG_PATH];
    rig_init(ca_dir, "ca");
    struct pki_token first = token_made(), second = token_made();
    cr_assert_eq(join(rig_path(dir, "one"), "beta", &first, false), 0);
    cr_assert_eq(join(dir, "beta", &second, false), RDMAD_E_EXISTS);
    cr_assert(strstr(err.text, "--replace"), "%s", err.text);
    cr_assert_eq(join(ca_dir, "ca", &second, true), RDMAD_E_EXISTS);
    cr_assert(strstr(err.text, "has a CA"), "%s", err.text);
}

/* From one cluster to another: the old CA stays trusted until it is taken away. */
Test(pki_join, a_node_moves_to_another_ca_without_losing_the_first) {
    char dir[RIG_PATH], old[RIG_PATH];
    rig_init(ca_dir, "old");
    struct pki_token token = token_made();
    cr_assert_eq(join(rig_path(dir, "one"), "beta", &token, false), 0);
    memcpy(old, ca_dir, sizeof(old));
    rig_init(ca_dir, "new");
    token = token_made();
    cr_assert_eq(join(dir, "beta", &token, true), 0, "%s", err.text);
    struct pki_identity *id = rig_load(dir);
    cr_assert_eq(sk_X509_num(id->trust), 2);
    cr_assert_eq(sk_X509_CRL_num(id->crls), 2);
    X509 *theirs = rig_leaf(old);
    cr_assert_eq(pki_check(id, theirs, NULL, &err), 0, "%s", err.text);
    X509_free(theirs);
    pki_identity_free(id);
}

/* Two processes use one token over the whole service at once. */
Test(pki_join, of_two_that_join_at_once_with_one_token_one_wins) {
    rig_init(ca_dir, "ca");
    for (unsigned round = 0; round < 10; round++) {
        struct pki_token token = token_made();
        char dir[2][RIG_PATH], name[2][32];
        pid_t pids[2];
        int status, won = 0;
        for (unsigned i = 0; i < 2; i++) {
            snprintf(name[i], sizeof(name[i]), "n%u-%u", round, i);
            rig_path(dir[i], name[i]);
        }
        for (unsigned i = 0; i < 2; i++)
            if (!(pids[i] = fork()))
                _exit(join(dir[i], name[i], &token, false) ? 1 : 0);
        for (unsigned i = 0; i < 2; i++) {
            cr_assert_eq(waitpid(pids[i], &status, 0), pids[i]);
            cr_assert(WIFEXITED(status));
            won += WEXITSTATUS(status) == 0;
        }
        cr_assert_eq(won, 1);
    }
}

/* ---- renewal -------------------------------------------------------------------------------- */

static int renew(const char *dir, const X509 *shown, bool list_only) {
    struct join_client client;
    struct join_bytes request, reply;
    struct join_outcome outcome;
    struct pki_identity *id = rig_load(dir);
    int rc = join_client_begin_renewal(id, list_only, &client, &request, &err);
    cr_assert_eq(rc, 0, "%s", err.text);
    reply = answer(&request, shown, &outcome);
    rc = join_client_finish(&client, reply.data, reply.size, NULL, &err);
    join_bytes_free(&request);
    join_bytes_free(&reply);
    join_client_fini(&client);
    pki_identity_free(id);
    return rc;
}

Test(pki_join, a_certificate_is_renewed_with_the_same_key_and_name) {
    char dir[RIG_PATH], other[RIG_PATH];
    rig_init(ca_dir, "ca");
    rig_node(dir, ca_dir, (struct pki_terms){.name = "beta", .not_before = rig_now() - 80 * 86400});
    rig_node(other, ca_dir, (struct pki_terms){.name = "gamma"});
    X509 *before = rig_leaf(dir), *others = rig_leaf(other);
    cr_assert_eq(renew(dir, NULL, false), RDMAD_E_PERM, "without a certificate");
    cr_assert_eq(renew(dir, others, false), RDMAD_E_PERM, "for another's name");
    cr_assert(strstr(err.text, "gamma asks for a certificate of beta"), "%s", err.text);
    rig_revoke(ca_dir, "gamma");
    cr_assert_eq(renew(dir, before, false), 0, "%s", err.text);
    X509 *after = rig_leaf(dir);
    cr_assert(X509_cmp(before, after) != 0);
    cr_assert_eq(EVP_PKEY_eq(X509_get0_pubkey(before), X509_get0_pubkey(after)), 1);
    struct pki_identity *id = rig_load(dir); /* and the list came with it */
    cr_assert_eq(pki_check(id, others, NULL, &err), RDMAD_E_PERM);
    pki_identity_free(id);
    X509_free(before);
    X509_free(after);
    X509_free(others);
}

Test(pki_join, nodes_get_the_list_of_revoked_ones) {
    char dir[RIG_PATH], other[RIG_PATH];
    rig_init(ca_dir, "ca");
    rig_node(dir, ca_dir, (struct pki_terms){.name = "beta"});
    rig_node(other, ca_dir, (struct pki_terms){.name = "gamma"});
    X509 *own = rig_leaf(dir), *others = rig_leaf(other);
    rig_revoke(ca_dir, "gamma");
    cr_assert_eq(renew(dir, NULL, true), RDMAD_E_PERM);
    cr_assert_eq(renew(dir, own, true), 0, "%s", err.text);
    struct pki_identity *id = rig_load(dir);
    cr_assert_eq(pki_check(id, others, NULL, &err), RDMAD_E_PERM);
    pki_identity_free(id);
    X509 *same = rig_leaf(dir);
    cr_assert_eq(X509_cmp(own, same), 0);
    X509_free(same);
    X509_free(own);
    X509_free(others);
}

static ino_t list_file(const char *dir) {
    char path[2 * RIG_PATH];
    struct stat is;
    snprintf(path, sizeof(path), "%s/revoked.crl", dir);
    cr_assert_eq(stat(path, &is), 0, "%s", path);
    return is.st_ino;
}

/* A file that is written is another one, and its identity is loaded anew. */
Test(pki_join, a_list_that_is_as_it_was_is_not_written) {
    char dir[RIG_PATH];
    rig_init(ca_dir, "ca");
    rig_node(dir, ca_dir, (struct pki_terms){.name = "beta"});
    X509 *own = rig_leaf(dir);
    cr_assert_eq(renew(dir, own, true), 0, "%s", err.text);
    ino_t before = list_file(dir);
    cr_assert_eq(renew(dir, own, true), 0, "%s", err.text);
    cr_assert_eq(list_file(dir), before);
    X509_free(own);
}

static void expect_revoked(const char *dir, X509 *cert) {
    struct pki_identity *id = rig_load(dir);
    cr_assert_eq(pki_check(id, cert, NULL, &err), RDMAD_E_PERM);
    cr_assert(strstr(err.text, "is revoked"), "%s", err.text);
    pki_identity_free(id);
}

Test(pki_join, an_older_list_does_not_replace_a_newer_one) {
    char dir[RIG_PATH], other[RIG_PATH];
    rig_init(ca_dir, "ca");
    rig_node(dir, ca_dir, (struct pki_terms){.name = "beta"});
    rig_node(other, ca_dir, (struct pki_terms){.name = "gamma"});
    X509 *own = rig_leaf(dir), *others = rig_leaf(other);
    rig_copy(ca_dir, "revoked.crl", ca_dir, "older");
    rig_revoke(ca_dir, "gamma");
    cr_assert_eq(renew(dir, own, true), 0, "%s", err.text);
    expect_revoked(dir, others);
    rig_copy(ca_dir, "older", ca_dir, "revoked.crl");
    cr_assert_eq(renew(dir, own, true), 0, "%s", err.text);
    expect_revoked(dir, others);
    X509_free(own);
    X509_free(others);
}

/* A CA that was put back from a copy goes on from an older number. */
Test(pki_join, another_list_of_the_same_number_is_taken) {
    char dir[RIG_PATH], other[RIG_PATH];
    struct pki_ca ca;
    rig_init(ca_dir, "ca");
    rig_node(dir, ca_dir, (struct pki_terms){.name = "beta"});
    rig_node(other, ca_dir, (struct pki_terms){.name = "gamma"});
    X509 *own = rig_leaf(dir), *others = rig_leaf(other);
    rig_copy(ca_dir, "revoked.crl", ca_dir, "older");
    cr_assert_eq(pki_ca_open(ca_dir, &ca, &err), 0, "%s", err.text);
    cr_assert_eq(pki_ca_write_list(&ca, NULL, rig_now() - 1, &err), 0, "%s", err.text);
    pki_ca_close(&ca);
    cr_assert_eq(renew(dir, own, true), 0, "%s", err.text);
    rig_copy(ca_dir, "older", ca_dir, "revoked.crl");
    rig_revoke(ca_dir, "gamma");
    cr_assert_eq(renew(dir, own, true), 0, "%s", err.text);
    expect_revoked(dir, others);
    X509_free(own);
    X509_free(others);
}

/* ---- requests that lie ---------------------------------------------------------------------- */

static int take_at_once(const uint8_t *bytes, size_t size) {
    struct join_server server;
    join_server_init(&server);
    int rc = join_server_take(&server, bytes, size, &err);
    join_server_fini(&server);
    return rc;
}

/* A message that says it has so many bytes in all, and then comes with as many as `sent`. */
static int take_message(size_t says, size_t sent) {
    static uint8_t bytes[65536];
    uint32_t length = htonl((uint32_t)(says - 4));
    memcpy(bytes, &length, sizeof(length));
    return take_at_once(bytes, sent);
}

Test(pki_join, what_a_stranger_makes_us_hold_is_bounded) {
    cr_assert_eq(take_message((size_t)UINT32_MAX + 4, 4), RDMAD_E_LENGTH);
    cr_assert_eq(take_message(16385, 4), RDMAD_E_LENGTH);
    cr_assert_eq(take_message(16384, 4), JOIN_MORE);
    cr_assert_eq(take_message(4, 4), RDMAD_E_LENGTH);
    cr_assert_eq(take_message(20, 20), 0);
    cr_assert_eq(take_message(20, 21), RDMAD_E_LENGTH, "something may follow a request");
}

Test(pki_join, every_spoiled_request_is_refused) {
    char dir[RIG_PATH];
    struct join_client client;
    struct join_bytes request, reply;
    struct join_message m;
    struct join_outcome outcome;
    rig_init(ca_dir, "ca");
    struct pki_token token = token_made();
    cr_assert_eq(
        join_client_begin(rig_path(dir, "node"), "beta", &token, false, &client, &request, &err),
        0);
    for (size_t i = 4; i < request.size; i++) {
        request.data[i] ^= 0x10;
        reply = answer(&request, NULL, &outcome);
        cr_assert_eq(join_message_parse(reply.data, reply.size, &m, &err), 0, "%s", err.text);
        cr_assert_eq(m.kind, JOIN_REFUSED, "byte %zu", i);
        cr_assert(m.code < 0 && m.text[0] && outcome.code < 0 && outcome.text[0]);
        join_bytes_free(&reply);
        request.data[i] ^= 0x10;
    }
    reply = answer(&request, NULL, &outcome); /* and none of them has used it up */
    cr_assert_eq(outcome.code, 0, "%s", outcome.text);
    cr_assert_str_eq(outcome.name, "beta");
    join_bytes_free(&reply);
    join_bytes_free(&request);
    join_client_fini(&client);
}

Test(pki_join, another_version_is_told_so) {
    struct join_message m = {.kind = JOIN_LIST};
    struct join_bytes request, reply;
    struct join_outcome outcome;
    rig_init(ca_dir, "ca");
    cr_assert_eq(join_message_print(&m, &request, &err), 0);
    request.data[9] = 2;
    reply = answer(&request, NULL, &outcome);
    cr_assert_eq(join_message_parse(reply.data, reply.size, &m, &err), 0);
    cr_assert_eq(m.code, RDMAD_E_VERSION);
    cr_assert(strstr(m.text, "version 2"), "%s", m.text);
    join_bytes_free(&request);
    join_bytes_free(&reply);
}

/* Where the files are, and what is wrong with them, is not told to strangers. */
Test(pki_join, strangers_learn_nothing_of_the_cas_machine) {
    struct join_message m = {.kind = JOIN_LIST};
    struct join_bytes request, reply;
    struct join_outcome outcome;
    rig_path(ca_dir, "none");
    cr_assert_eq(join_message_print(&m, &request, &err), 0);
    reply = answer(&request, NULL, &outcome);
    cr_assert_eq(join_message_parse(reply.data, reply.size, &m, &err), 0);
    cr_assert_eq(m.code, RDMAD_E_CONFIG);
    cr_assert(!strstr(m.text, ca_dir), "%s", m.text);
    cr_assert(strstr(outcome.text, ca_dir), "%s", outcome.text);
    join_bytes_free(&request);
    join_bytes_free(&reply);
}

/* ---- replies that lie ----------------------------------------------------------------------- */

Test(pki_join, every_spoiled_reply_is_refused_and_nothing_is_kept) {
    char dir[RIG_PATH];
    struct join_client client;
    struct join_bytes request, reply;
    struct join_outcome outcome;
    struct pki_identity *id;
    rig_init(ca_dir, "ca");
    struct pki_token token = token_made();
    rig_path(dir, "node");
    cr_assert_eq(join_client_begin(dir, "beta", &token, false, &client, &request, &err), 0);
    reply = answer(&request, NULL, &outcome);
    cr_assert_eq(outcome.code, 0);
    for (size_t i = 0; i < reply.size; i++) {
        reply.data[i] ^= 0x20;
        int rc = join_client_finish(&client, reply.data, reply.size, NULL, &err);
        cr_assert_neq(rc, 0, "byte %zu of %zu", i, reply.size);
        reply.data[i] ^= 0x20;
        cr_assert_neq(join_client_finish(&client, reply.data, i, NULL, &err), 0, "cut at %zu", i);
    }
    cr_assert_eq(pki_load(dir, &id, &err), PKI_NOT_THERE);
    cr_assert_eq(join_client_finish(&client, reply.data, reply.size, NULL, &err), 0, "%s",
                 err.text);
    join_bytes_free(&request);
    join_bytes_free(&reply);
    join_client_fini(&client);
}

/* Whoever answers, for whatever reason, with something of another CA, or for somebody else. */
Test(pki_join, a_good_reply_to_somebody_else_is_refused) {
    char dir[RIG_PATH], other[RIG_PATH];
    struct join_client a, b;
    struct join_bytes request_a, request_b, reply;
    struct join_outcome outcome;
    rig_init(ca_dir, "ca");
    struct pki_token token = token_made();
    cr_assert_eq(join_client_begin(rig_path(dir, "a"), "a", &token, false, &a, &request_a, &err),
                 0);
    cr_assert_eq(join_client_begin(rig_path(other, "b"), "b", &token, false, &b, &request_b, &err),
                 0);
    reply = answer(&request_b, NULL, &outcome);
    cr_assert_eq(join_client_finish(&a, reply.data, reply.size, NULL, &err), RDMAD_E_PROTOCOL);
    join_bytes_free(&reply);
    rig_init(ca_dir, "another");
    token = token_made();
    join_bytes_free(&request_b);
    join_client_fini(&b);
    cr_assert_eq(join_client_begin(other, "b", &token, false, &b, &request_b, &err), 0);
    b.fingerprint[0] ^= 1;
    reply = answer(&request_b, NULL, &outcome);
    cr_assert_eq(join_client_finish(&b, reply.data, reply.size, NULL, &err), RDMAD_E_PERM);
    cr_assert(strstr(err.text, "of another CA"), "%s", err.text);
    join_bytes_free(&reply);
    join_bytes_free(&request_a);
    join_bytes_free(&request_b);
    join_client_fini(&a);
    join_client_fini(&b);
}
