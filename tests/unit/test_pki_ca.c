/* SPDX-License-Identifier: MIT */
/*
 * The CA: whose name is whose, what is renewed and revoked; requests from outside.
 */
#include "pki/files.h"
#include "pki/init.h"
#include "pki/issued.h"
#include "pki/key.h"
#include "tests/unit/pki_rig.h"
#include <criterion/criterion.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[RIG_PATH];
static struct pki_ca ca;
static struct pki_error err;

static void open_ca(void) {
    cr_assert_eq(pki_ca_open(dir, &ca, &err), 0, "%s", err.text);
}

static EVP_PKEY *key_made(void) {
    EVP_PKEY *key;
    cr_assert_eq(pki_key_make(&key, &err), 0);
    return key;
}

static int issue(const char *name, EVP_PKEY *key, unsigned days, int64_t now) {
    struct pki_grant grant = {.name = name, .days = days};
    X509 *cert = NULL;
    int rc = pki_ca_issue(&ca, &grant, key, now, &cert, &err);
    X509_free(cert);
    return rc;
}

/* ---- init ----------------------------------------------------------------------------------- */

Test(pki_ca, init_makes_files_with_their_modes) {
    static const struct {
        const char *file;
        unsigned mode;
    } files[] = {{".", 0700},        {"ca.key", 0600},    {"ca.crt", 0644},      {"node.key", 0600},
                 {"node.crt", 0644}, {"trust", 0755},     {"revoked.crl", 0644}, {"tokens", 0700},
                 {"issued", 0700},   {"ca.address", 0644}};
    rig_init(dir, "n");
    for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[2 * RIG_PATH];
        struct stat is;
        snprintf(path, sizeof(path), "%s/%s", dir, files[i].file);
        cr_assert_eq(lstat(path, &is), 0, "%s", path);
        cr_assert_eq(is.st_mode & 07777, files[i].mode, "%s: %o", path, is.st_mode & 07777);
    }
}

static int init_again(void) {
    struct pki_init init = {
        .path = dir, .name = "n", .address = "h:1", .days = 90, .now = rig_now()};
    return pki_init(&init, &err);
}

Test(pki_ca, init_keeps_what_is_there) {
    char path[2 * RIG_PATH];
    uint8_t before[32], after[32];
    rig_init(dir, "n");
    cr_assert_eq(init_again(), RDMAD_E_EXISTS);
    cr_assert(strstr(err.text, "has an identity already"), "%s", err.text);
    open_ca();
    pki_fingerprint(ca.cert, before);
    pki_ca_close(&ca);
    snprintf(path, sizeof(path), "%s/node.crt", dir);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(init_again(), 0, "%s", err.text); /* one that was broken off goes on */
    open_ca();
    pki_fingerprint(ca.cert, after);
    pki_ca_close(&ca);
    cr_assert_eq(memcmp(before, after, 32), 0, "the CA was replaced");
}

/* ---- names ---------------------------------------------------------------------------------- */

Test(pki_ca, a_name_belongs_to_one_key) {
    EVP_PKEY *one = key_made(), *two = key_made();
    unsigned count;
    rig_init(dir, "n");
    open_ca();
    cr_assert_eq(issue("a", one, 1, rig_now()), 0, "%s", err.text);
    cr_assert_eq(issue("a", two, 1, rig_now()), RDMAD_E_EXISTS);
    cr_assert(strstr(err.text, "rdmactl cluster revoke a"), "%s", err.text);
    cr_assert_eq(issue("a", one, 1, rig_now()), 0, "the same key: %s", err.text);
    cr_assert_eq(issue("n", two, 1, rig_now()), RDMAD_E_EXISTS, "the CA's own name");
    cr_assert_eq(issue("a", two, 1, rig_now() + 86401), 0, "expired: %s", err.text);
    cr_assert_eq(issue("b", one, 90, rig_now()), 0);
    cr_assert_eq(pki_ca_revoke(&ca, "b", rig_now(), &count, &err), 0);
    cr_assert_eq(issue("b", two, 90, rig_now()), 0, "revoked: %s", err.text);
    pki_ca_close(&ca);
    EVP_PKEY_free(one);
    EVP_PKEY_free(two);
}

/* Who dials takes a host's name in any case, and its first label. */
Test(pki_ca, a_name_that_is_like_anothers_is_refused) {
    static const char *const like[] = {"ALPHA", "alpha.rack", "Alpha.x", "beta", "BETA.Rack"};
    static const char *const unlike[] = {"alph", "alpha1", "beta.lab", "rack", "x.alpha"};
    EVP_PKEY *one = key_made(), *two = key_made();
    unsigned count;
    rig_init(dir, "n");
    open_ca();
    cr_assert_eq(issue("alpha", one, 1, rig_now()), 0, "%s", err.text);
    cr_assert_eq(issue("beta.rack", one, 1, rig_now()), 0, "%s", err.text);
    for (unsigned i = 0; i < sizeof(like) / sizeof(like[0]); i++) {
        cr_assert_eq(issue(like[i], two, 1, rig_now()), RDMAD_E_EXISTS, "%s", like[i]);
        cr_assert(strstr(err.text, i < 3 ? "is too like alpha," : "is too like beta.rack,"), "%s",
                  err.text);
    }
    for (unsigned i = 0; i < sizeof(unlike) / sizeof(unlike[0]); i++)
        cr_assert_eq(issue(unlike[i], two, 1, rig_now()), 0, "%s: %s", unlike[i], err.text);
    cr_assert_eq(issue("alpha.rack", one, 1, rig_now()), 0, "its own: %s", err.text);
    cr_assert_eq(pki_ca_revoke(&ca, "alpha", rig_now(), &count, &err), 0, "%s", err.text);
    cr_assert_eq(pki_ca_revoke(&ca, "alpha.rack", rig_now(), &count, &err), 0, "%s", err.text);
    cr_assert_eq(issue("ALPHA", two, 1, rig_now()), 0, "revoked: %s", err.text);
    pki_ca_close(&ca);
    EVP_PKEY_free(one);
    EVP_PKEY_free(two);
}

Test(pki_ca, one_name_has_a_bounded_number_of_certificates) {
    EVP_PKEY *key = key_made();
    rig_init(dir, "n");
    open_ca();
    for (unsigned i = 0; i < PKI_ISSUED_MAX; i++)
        cr_assert_eq(issue("a", key, 1, rig_now()), 0, "%u: %s", i, err.text);
    cr_assert_eq(issue("a", key, 1, rig_now()), RDMAD_E_LIMIT);
    cr_assert_eq(issue("a", key, 1, rig_now() + 86401), 0, "those that expired count no more");
    pki_ca_close(&ca);
    EVP_PKEY_free(key);
}

Test(pki_ca, certificates_that_are_revoked_count_no_more) {
    EVP_PKEY *key = key_made();
    unsigned count;
    rig_init(dir, "n");
    open_ca();
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < PKI_ISSUED_MAX; i++)
            cr_assert_eq(issue("a", key, 1, rig_now()), 0, "%u %u: %s", round, i, err.text);
        cr_assert_eq(pki_ca_revoke(&ca, "a", rig_now(), &count, &err), 0, "%s", err.text);
        cr_assert_eq(count, PKI_ISSUED_MAX);
    }
    pki_ca_close(&ca);
    EVP_PKEY_free(key);
}

Test(pki_ca, revoking_takes_all_certificates_of_a_name) {
    EVP_PKEY *key = key_made();
    unsigned count;
    X509_CRL *list;
    STACK_OF(X509_CRL) * others;
    STACK_OF(X509) * certs;
    rig_init(dir, "n");
    open_ca();
    cr_assert_eq(issue("a", key, 1, rig_now()), 0);
    cr_assert_eq(issue("a", key, 2, rig_now()), 0);
    cr_assert_eq(issue("b", key, 2, rig_now()), 0);
    cr_assert_eq(pki_ca_revoke(&ca, "a", rig_now(), &count, &err), 0, "%s", err.text);
    cr_assert_eq(count, 2);
    cr_assert_eq(pki_ca_revoke(&ca, "a", rig_now(), &count, &err), RDMAD_E_HANDLE);
    cr_assert_eq(pki_ca_revoke(&ca, "nobody", rig_now(), &count, &err), RDMAD_E_HANDLE);
    cr_assert_eq(pki_ca_revoke(&ca, "../n", rig_now(), &count, &err), RDMAD_E_NAME);
    cr_assert_eq(pki_ca_revoke(&ca, "n", rig_now(), &count, &err), RDMAD_E_BUSY);
    cr_assert_eq(pki_revoked_read(&ca.dir, ca.cert, &list, &others, &err), 0);
    cr_assert_eq(pki_issued_read(&ca.dir, "a", rig_now(), &certs, &err), 0);
    cr_assert_eq(sk_X509_num(certs), 2);
    cr_assert(pki_revoked_has(list, sk_X509_value(certs, 0)));
    cr_assert(pki_revoked_has(list, sk_X509_value(certs, 1)));
    sk_X509_pop_free(certs, X509_free);
    cr_assert_eq(pki_issued_read(&ca.dir, "b", rig_now(), &certs, &err), 0);
    cr_assert(!pki_revoked_has(list, sk_X509_value(certs, 0)));
    sk_X509_pop_free(certs, X509_free);
    sk_X509_CRL_pop_free(others, X509_CRL_free);
    X509_CRL_free(list);
    pki_ca_close(&ca);
    EVP_PKEY_free(key);
}

/* As a certificate: a node whose clock is behind would end all its connections for the list. */
Test(pki_ca, a_list_begins_as_early_as_a_certificate) {
    X509_CRL *list;
    STACK_OF(X509_CRL) * others;
    rig_init(dir, "n");
    open_ca();
    cr_assert_eq(pki_ca_write_list(&ca, NULL, rig_now() + 1000, &err), 0, "%s", err.text);
    cr_assert_eq(pki_revoked_read(&ca.dir, ca.cert, &list, &others, &err), 0);
    cr_assert_leq(pki_seconds(X509_CRL_get0_lastUpdate(list)), rig_now() + 1000 - PKI_EARLY_S);
    sk_X509_CRL_pop_free(others, X509_CRL_free);
    X509_CRL_free(list);
    pki_ca_close(&ca);
}

/* What expired long ago is not carried along for ever, and lists of other CAs stay. */
Test(pki_ca, the_list_forgets_and_keeps_others) {
    char other[RIG_PATH];
    EVP_PKEY *key = key_made();
    unsigned count;
    X509_CRL *list;
    STACK_OF(X509_CRL) * others;
    int64_t later = rig_now() + 400 * 86400L;
    rig_init(other, "other");
    rig_init(dir, "n");
    rig_copy(other, "revoked.crl", dir, "revoked.crl");
    open_ca();
    cr_assert_eq(issue("a", key, 1, rig_now()), 0);
    cr_assert_eq(pki_ca_revoke(&ca, "a", rig_now(), &count, &err), 0, "%s", err.text);
    cr_assert_eq(issue("b", key, 1, later), 0);
    cr_assert_eq(pki_ca_revoke(&ca, "b", later, &count, &err), 0, "%s", err.text);
    cr_assert_eq(pki_revoked_read(&ca.dir, ca.cert, &list, &others, &err), 0);
    cr_assert_eq(sk_X509_REVOKED_num(X509_CRL_get_REVOKED(list)), 1);
    cr_assert_eq(sk_X509_CRL_num(others), 1);
    sk_X509_CRL_pop_free(others, X509_CRL_free);
    X509_CRL_free(list);
    pki_ca_close(&ca);
    EVP_PKEY_free(key);
}

/* ---- renewal -------------------------------------------------------------------------------- */

/* Of which less than a third is left. */
static struct pki_terms old_terms(const char *name) {
    return (struct pki_terms){
        .name = name, .not_before = rig_now() - 80 * 86400, .not_after = rig_now() + 86400};
}

Test(pki_ca, only_good_certificates_of_this_ca_are_renewed) {
    char a[RIG_PATH], other[RIG_PATH];
    X509 *next = NULL;
    rig_init(other, "other");
    rig_init(dir, "n");
    rig_node(a, other, (struct pki_terms){.name = "a"});
    X509 *foreign = rig_leaf(a);
    rig_node(a, dir, old_terms("a"));
    X509 *cert = rig_leaf(a);
    EVP_PKEY *key = X509_get0_pubkey(cert);
    open_ca();
    cr_assert_eq(pki_ca_renew(&ca, foreign, key, rig_now(), &next, &err), RDMAD_E_PERM);
    cr_assert_eq(pki_ca_renew(&ca, cert, key, rig_now(), &next, &err), 0, "%s", err.text);
    cr_assert(X509_cmp(cert, next) != 0);
    X509_free(next);
    cr_assert_eq(pki_ca_renew(&ca, cert, key, rig_now() + 2 * 86400, &next, &err), RDMAD_E_PERM,
                 "an expired one was renewed");
    pki_ca_close(&ca);
    rig_revoke(dir, "a");
    open_ca();
    cr_assert_eq(pki_ca_renew(&ca, cert, key, rig_now(), &next, &err), RDMAD_E_PERM);
    cr_assert(strstr(err.text, "is revoked"), "%s", err.text);
    pki_ca_close(&ca);
    X509_free(cert);
    X509_free(foreign);
}

/* Its disk is full, or its clock behind: it asks again each minute. */
Test(pki_ca, who_cannot_keep_the_next_certificate_gets_the_same_again) {
    char a[RIG_PATH];
    X509 *first = NULL, *again = NULL;
    EVP_PKEY *other = key_made();
    rig_init(dir, "n");
    rig_node(a, dir, old_terms("a"));
    X509 *cert = rig_leaf(a);
    EVP_PKEY *key = X509_get0_pubkey(cert);
    open_ca();
    cr_assert_eq(pki_ca_renew(&ca, cert, key, rig_now(), &first, &err), 0, "%s", err.text);
    for (unsigned i = 0; i < 2 * PKI_ISSUED_MAX; i++) {
        cr_assert_eq(pki_ca_renew(&ca, cert, key, rig_now() + 60 * i, &again, &err), 0,
                     "asked for the %uth time: %s", i + 2, err.text);
        cr_assert_eq(X509_cmp(first, again), 0, "another was signed");
        X509_free(again);
    }
    cr_assert_eq(pki_ca_renew(&ca, cert, other, rig_now(), &again, &err), 0, "%s", err.text);
    cr_assert_eq(EVP_PKEY_eq(X509_get0_pubkey(again), other), 1, "not for the key that asks");
    X509_free(again);
    cr_assert_eq(pki_ca_renew(&ca, first, key, pki_due(first), &again, &err), 0, "%s", err.text);
    cr_assert(X509_cmp(first, again) != 0, "one that is due itself was given again");
    pki_ca_close(&ca);
    X509_free(first);
    X509_free(again);
    X509_free(cert);
    EVP_PKEY_free(other);
}

Test(pki_ca, the_cas_node_renews_its_own) {
    rig_init(dir, "n");
    X509 *before = rig_leaf(dir);
    open_ca();
    cr_assert_eq(pki_ca_renew_own(&ca, rig_now() + 100 * 86400, &err), 0, "%s", err.text);
    pki_ca_close(&ca);
    struct pki_identity *id = rig_load(dir);
    cr_assert(X509_cmp(before, id->cert) != 0);
    cr_assert_str_eq(id->name, "n");
    cr_assert(pki_serves_joins(id->cert));
    cr_assert_eq(id->not_after - id->not_before, 90 * 86400 + PKI_EARLY_S);
    pki_identity_free(id);
    X509_free(before);
}

/* ---- requests ------------------------------------------------------------------------------- */

static void expect_request(EVP_PKEY *key, const char *name, int code) {
    uint8_t *der = NULL;
    size_t size = 0;
    char got[RDMAD_NAME_MAX + 1];
    EVP_PKEY *theirs = NULL;
    cr_assert_eq(pki_request_make(name, key, &der, &size, &err), 0, "%s", err.text);
    int rc = pki_request_read(der, size, got, &theirs, &err);
    cr_assert_eq(rc, code, "%s: %d %s", name, rc, err.text);
    if (!rc) {
        cr_assert_str_eq(got, name);
        cr_assert_eq(EVP_PKEY_eq(key, theirs), 1);
    }
    EVP_PKEY_free(theirs);
    OPENSSL_free(der);
}

Test(pki_ca, requests_are_judged_by_key_and_name) {
    EVP_PKEY *key = key_made(), *weak = EVP_RSA_gen(1024), *p521 = EVP_EC_gen("P-521");
    expect_request(key, "node-1.rack", 0);
    expect_request(key, ".hidden", RDMAD_E_NAME);
    expect_request(key, "a b", RDMAD_E_NAME);
    expect_request(key, "../../etc", RDMAD_E_NAME);
    expect_request(key, "lease", RDMAD_E_NAME);
    expect_request(weak, "a", RDMAD_E_UNSUPPORTED);
    expect_request(p521, "a", RDMAD_E_UNSUPPORTED);
    EVP_PKEY_free(key);
    EVP_PKEY_free(weak);
    EVP_PKEY_free(p521);
}

Test(pki_ca, a_request_for_a_key_that_cannot_be_decoded_is_refused) {
    EVP_PKEY *key = key_made(), *theirs = NULL;
    uint8_t *der = NULL;
    size_t size = 0;
    char name[RDMAD_NAME_MAX + 1];
    cr_assert_eq(pki_request_make("node", key, &der, &size, &err), 0);
    rig_spoil_key(der, size);
    cr_assert_eq(pki_request_read(der, size, name, &theirs, &err), RDMAD_E_UNSUPPORTED);
    cr_assert(strstr(err.text, "the key of the request cannot be read"), "%s", err.text);
    OPENSSL_free(der);
    EVP_PKEY_free(key);
}

/* Any byte that is changed makes it another request, or none. */
Test(pki_ca, a_request_that_was_changed_is_refused) {
    EVP_PKEY *key = key_made(), *theirs = NULL;
    uint8_t *der = NULL;
    size_t size = 0;
    char name[RDMAD_NAME_MAX + 1];
    cr_assert_eq(pki_request_make("node", key, &der, &size, &err), 0);
    for (size_t i = 0; i < size; i++) {
        der[i] ^= 1;
        cr_assert_neq(pki_request_read(der, size, name, &theirs, &err), 0, "byte %zu", i);
        der[i] ^= 1;
        cr_assert_neq(pki_request_read(der, i, name, &theirs, &err), 0, "cut at %zu", i);
    }
    cr_assert_eq(pki_request_read(der, size, name, &theirs, &err), 0);
    EVP_PKEY_free(theirs);
    OPENSSL_free(der);
    EVP_PKEY_free(key);
}
