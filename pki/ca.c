/* SPDX-License-Identifier: MIT */
#include "pki/ca.h"
#include "common/uri.h"
#include "pki/cert.h"
#include "pki/files.h"
#include "pki/issued.h"
#include "pki/key.h"
#include "pki/own.h"
#include "pki/sign.h"
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DAY_S 86400

/* ---- opening -------------------------------------------------------------------------------- */

/* ca.key and ca.crt. PKI_NOT_THERE: the key, or the certificate, is missing. */
static int load_pair(const struct pki_dir *dir, X509 **cert, EVP_PKEY **key,
                     struct pki_error *err) {
    char *pem = NULL;
    size_t size = 0;
    STACK_OF(X509) *certs = NULL;
    int rc = pki_file_read(dir, PKI_CA_KEY, PKI_SECRET, &pem, &size, err);
    if (rc)
        return rc;
    rc = pki_key_parse(pem, size, PKI_CA_KEY, key, err);
    pki_wipe(pem, size);
    if (rc)
        return rc;
    rc = pki_file_read(dir, PKI_CA_CERT, PKI_PUBLIC, &pem, &size, err);
    if (!rc) {
        rc = pki_certs_parse(pem, size, PKI_CA_CERT, 1, &certs, err);
        free(pem);
    }
    if (!rc) {
        *cert = sk_X509_shift(certs);
        sk_X509_free(certs);
        if (EVP_PKEY_eq(X509_get0_pubkey(*cert), *key) != 1 || !pki_is_ca(*cert)) {
            X509_free(*cert);
            rc = pki_fail(err, RDMAD_E_CONFIG,
                          "%s: " PKI_CA_KEY " and " PKI_CA_CERT " are not one CA", dir->path);
        }
    }
    if (rc)
        EVP_PKEY_free(*key);
    return rc;
}

/* The caller has taken the directory and its lock. */
static int take_pair(struct pki_ca *ca, struct pki_error *err) {
    int rc = load_pair(&ca->dir, &ca->cert, &ca->key, err);
    if (rc) {
        ca->cert = NULL;
        ca->key = NULL;
    }
    return rc;
}

int pki_ca_open(const char *path, struct pki_ca *out, struct pki_error *err) {
    *out = (struct pki_ca){.lock = -1};
    int rc = pki_dir_open(path, &out->dir, err);
    if (rc)
        return rc;
    rc = pki_file_there(&out->dir, PKI_CA_KEY) ? pki_lock(&out->dir, &out->lock, err)
                                               : PKI_NOT_THERE;
    if (!rc && (rc = take_pair(out, err)) == PKI_NOT_THERE)
        rc = pki_fail(err, RDMAD_E_CONFIG, "%s/" PKI_CA_CERT " is missing", path);
    if (rc)
        pki_ca_close(out);
    return rc;
}

void pki_ca_close(struct pki_ca *ca) {
    X509_free(ca->cert);
    EVP_PKEY_free(ca->key);
    if (ca->lock >= 0)
        pki_unlock(ca->lock);
    pki_dir_close(&ca->dir);
    *ca = (struct pki_ca){.lock = -1, .dir.fd = -1};
}

/* ---- making ------------------------------------------------------------------------------------
 */

/* The key goes to disk before the certificate: without its certificate it has signed nothing. */
static int make_pair(struct pki_ca *ca, int64_t now, struct pki_error *err) {
    unsigned char tail[4];
    char name[64];
    if (RAND_bytes(tail, sizeof(tail)) != 1)
        return pki_fail_ssl(err, RDMAD_E_SYSTEM, "no random bytes for a CA's name");
    snprintf(name, sizeof(name), "rdmad cluster %02x%02x%02x%02x", tail[0], tail[1], tail[2],
             tail[3]);
    struct pki_terms terms = {.name = name,
                              .not_before = now - PKI_EARLY_S,
                              .not_after = now + (int64_t)PKI_CA_DAYS * DAY_S,
                              .is_ca = true};
    int rc = pki_key_make(&ca->key, err);
    if (!rc)
        rc = pki_cert_sign(&terms, ca->key, NULL, ca->key, &ca->cert, err);
    if (!rc)
        rc = pki_own_write_key(&ca->dir, PKI_CA_KEY, ca->key, err);
    if (!rc)
        rc = pki_own_write_cert(&ca->dir, PKI_CA_CERT, ca->cert, NULL, err);
    return rc;
}

int pki_ca_make(const char *path, int64_t now, struct pki_ca *out, struct pki_error *err) {
    *out = (struct pki_ca){.lock = -1};
    int rc = pki_dir_make(path, &out->dir, err);
    if (!rc)
        rc = pki_lock(&out->dir, &out->lock, err);
    if (!rc && pki_file_there(&out->dir, PKI_NODE_CERT))
        rc = pki_fail(err, RDMAD_E_EXISTS,
                      "%s has an identity already: rdmactl cluster show tells whose; %s", path,
                      pki_file_there(&out->dir, PKI_CA_KEY)
                          ? "rdmactl cluster token prints a join line"
                          : "for a cluster of its own name another directory by --identity");
    if (!rc && (rc = take_pair(out, err)) == PKI_NOT_THERE)
        rc = make_pair(out, now, err);
    if (rc)
        pki_ca_close(out);
    return rc;
}

/* ---- giving out ----------------------------------------------------------------------------- */

/* Signs and notes. */
static int issue(struct pki_ca *ca, const struct pki_terms *terms, EVP_PKEY *key, int64_t now,
                 X509 **out, struct pki_error *err) {
    X509 *cert = NULL;
    int rc = pki_cert_sign(terms, key, ca->cert, ca->key, &cert, err);
    if (rc)
        return rc;
    rc = pki_issued_add(&ca->dir, ca->cert, terms->name, cert, now, err);
    if (rc)
        X509_free(cert);
    else
        *out = cert;
    return rc;
}

/* No certificate outlives its CA's. */
static int64_t end_of(const struct pki_ca *ca, int64_t now, int64_t seconds) {
    int64_t last = pki_seconds(X509_get0_notAfter(ca->cert));
    return now + seconds < last ? now + seconds : last;
}

/* Whether who dials one of two names may take a node of the other for it: the case of a host's name
 * does not count, and its first label is enough. */
static bool names_clash(const char *a, const char *b) {
    size_t first_a = strcspn(a, "."), first_b = strcspn(b, ".");
    bool same = first_a == first_b && strncasecmp(a, b, first_a) == 0;
    return strcasecmp(a, b) == 0 || (same && (!a[first_a] || !b[first_b]));
}

/* That all good certificates of `taken`, which is name or like it, are for key. */
static int check_owner(const char *taken, const char *name, const EVP_PKEY *key,
                       const STACK_OF(X509) * good, struct pki_error *err) {
    char date[PKI_DATE_TEXT];
    for (int i = 0; i < sk_X509_num(good); i++) {
        X509 *cert = sk_X509_value(good, i);
        if (EVP_PKEY_eq(X509_get0_pubkey(cert), key) == 1)
            continue;
        pki_date_text(pki_seconds(X509_get0_notAfter(cert)), date);
        return strcmp(taken, name) == 0
                   ? pki_fail(err, RDMAD_E_EXISTS,
                              "the name %s belongs to a node with another key until %s; join with "
                              "another --name, or first rdmactl cluster revoke %s where the CA is",
                              name, date, name)
                   : pki_fail(
                         err, RDMAD_E_EXISTS,
                         "the name %s is too like %s, which belongs to a node with another key "
                         "until %s: who dials one might reach the other; join with another "
                         "--name, or first rdmactl cluster revoke %s where the CA is",
                         name, taken, date, taken);
    }
    return RDMAD_OK;
}

/* That no other node has a name that clashes with this one. */
static int check_others(struct pki_ca *ca, const char *name, const EVP_PKEY *key, int64_t now,
                        struct pki_error *err) {
    struct pki_names names;
    int rc = pki_issued_names(&ca->dir, &names, err);
    for (unsigned i = 0; !rc && i < names.count; i++) {
        STACK_OF(X509) *good = NULL;
        if (!names_clash(name, names.names[i]))
            continue;
        rc = pki_issued_good(&ca->dir, ca->cert, names.names[i], now, &good, err);
        if (!rc)
            rc = check_owner(names.names[i], name, key, good, err);
        sk_X509_pop_free(good, X509_free);
    }
    pki_names_free(&names);
    return rc;
}

int pki_ca_name_free(struct pki_ca *ca, const char *name, const EVP_PKEY *key, int64_t now,
                     struct pki_error *err) {
    STACK_OF(X509) *good = NULL;
    int rc = pki_issued_good(&ca->dir, ca->cert, name, now, &good, err);
    if (!rc)
        rc = check_owner(name, name, key, good, err);
    if (!rc)
        rc = pki_issued_room(good, name, err);
    if (!rc && sk_X509_num(good) == 0)
        rc = check_others(ca, name, key, now, err);
    sk_X509_pop_free(good, X509_free);
    return rc;
}

int pki_ca_issue(struct pki_ca *ca, const struct pki_grant *grant, EVP_PKEY *key, int64_t now,
                 X509 **out, struct pki_error *err) {
    struct pki_terms terms = {.name = grant->name,
                              .not_before = now - PKI_EARLY_S,
                              .not_after = end_of(ca, now, (int64_t)grant->days * DAY_S),
                              .serves_joins = grant->serves_joins};
    int rc = pki_ca_name_free(ca, grant->name, key, now, err);
    return rc ? rc : issue(ca, &terms, key, now, out, err);
}

/* That cert is in issued/, and not revoked. */
static int renewal_check(struct pki_ca *ca, const char *name, const X509 *cert, int64_t now,
                         struct pki_error *err) {
    STACK_OF(X509) *certs = NULL;
    STACK_OF(X509_CRL) *others = NULL;
    X509_CRL *list = NULL;
    bool found = false;
    int rc = pki_issued_read(&ca->dir, name, now, &certs, err);
    if (!rc)
        rc = pki_revoked_read(&ca->dir, ca->cert, &list, &others, err);
    for (int i = 0; !rc && i < sk_X509_num(certs); i++)
        found |= X509_cmp(sk_X509_value(certs, i), cert) == 0;
    if (!rc && !found)
        rc = pki_fail(err, RDMAD_E_PERM,
                      "the certificate of %s is not of this CA, or has expired; join with a token",
                      name);
    else if (!rc && pki_revoked_has(list, cert))
        rc = pki_fail(err, RDMAD_E_PERM, "the certificate of %s is revoked; join with a token",
                      name);
    sk_X509_pop_free(certs, X509_free);
    sk_X509_CRL_pop_free(others, X509_CRL_free);
    X509_CRL_free(list);
    return rc;
}

/* For as long as the certificate before it, which began a little early. */
static int issue_next(struct pki_ca *ca, const char *name, const X509 *cert, EVP_PKEY *key,
                      int64_t now, X509 **out, struct pki_error *err) {
    int64_t span = pki_seconds(X509_get0_notAfter(cert)) - pki_seconds(X509_get0_notBefore(cert)) -
                   PKI_EARLY_S;
    struct pki_terms terms = {.name = name,
                              .not_before = now - PKI_EARLY_S,
                              .not_after = end_of(ca, now, span > 0 ? span : DAY_S),
                              .serves_joins = pki_serves_joins(cert)};
    return issue(ca, &terms, key, now, out, err);
}

/* Who could not keep what it was given asks again, and would use up what its name may have. So the
 * newest that is good, for that key and not due itself is given again. *out: NULL if none is. */
static int find_given(const struct pki_ca *ca, const char *name, const X509 *cert,
                      const EVP_PKEY *key, int64_t now, X509 **out, struct pki_error *err) {
    STACK_OF(X509) *good = NULL;
    int rc = pki_issued_good(&ca->dir, ca->cert, name, now, &good, err);
    *out = NULL;
    for (int i = 0; !rc && !*out && i < sk_X509_num(good); i++) {
        const X509 *given = sk_X509_value(good, i);
        if (now < pki_due(given) && EVP_PKEY_eq(X509_get0_pubkey(given), key) == 1 &&
            pki_serves_joins(given) == pki_serves_joins(cert))
            *out = sk_X509_delete(good, i);
    }
    sk_X509_pop_free(good, X509_free);
    return rc;
}

static int give_next(struct pki_ca *ca, const char *name, const X509 *cert, EVP_PKEY *key,
                     int64_t now, X509 **out, struct pki_error *err) {
    X509 *given;
    int rc = find_given(ca, name, cert, key, now, &given, err);
    if (rc || !given)
        return rc ? rc : issue_next(ca, name, cert, key, now, out, err);
    *out = given;
    return RDMAD_OK;
}

int pki_ca_renew(struct pki_ca *ca, const X509 *cert, EVP_PKEY *key, int64_t now, X509 **out,
                 struct pki_error *err) {
    char name[RDMAD_NAME_MAX + 1];
    if (!pki_name_of(cert, name))
        return pki_fail(err, RDMAD_E_NAME, "the certificate names no node");
    int rc = renewal_check(ca, name, cert, now, err);
    return rc ? rc : give_next(ca, name, cert, key, now, out, err);
}

int pki_ca_renew_own(struct pki_ca *ca, int64_t now, struct pki_error *err) {
    char name[RDMAD_NAME_MAX + 1];
    X509 *cert = NULL, *next = NULL;
    int rc = pki_own_read_cert(&ca->dir, &cert, err);
    if (rc)
        return rc == PKI_NOT_THERE
                   ? pki_fail(err, RDMAD_E_CONFIG, "%s/" PKI_NODE_CERT " is missing", ca->dir.path)
                   : rc;
    if (!pki_name_of(cert, name))
        rc = pki_fail(err, RDMAD_E_NAME, PKI_NODE_CERT " names no node");
    if (!rc)
        rc = give_next(ca, name, cert, X509_get0_pubkey(cert), now, &next, err);
    if (!rc)
        rc = pki_own_write_cert(&ca->dir, PKI_NODE_CERT, next, ca->cert, err);
    X509_free(cert);
    X509_free(next);
    return rc;
}

/* ---- taking back ---------------------------------------------------------------------------- */

int pki_ca_write_list(struct pki_ca *ca, const STACK_OF(X509) * more, int64_t now,
                      struct pki_error *err) {
    STACK_OF(X509_CRL) *others = NULL;
    X509_CRL *former = NULL, *list = NULL;
    struct pki_list_terms terms = {.now = now,
                                   .from = now - PKI_EARLY_S,
                                   .until = pki_seconds(X509_get0_notAfter(ca->cert)),
                                   .forget = now - (int64_t)(PKI_NODE_DAYS_MAX + 1) * DAY_S};
    int rc = pki_revoked_read(&ca->dir, ca->cert, &former, &others, err);
    if (!rc)
        rc = pki_list_sign(&terms, former, more, ca->cert, ca->key, &list, err);
    if (!rc)
        rc = pki_revoked_write(&ca->dir, list, others, err);
    sk_X509_CRL_pop_free(others, X509_CRL_free);
    X509_CRL_free(former);
    X509_CRL_free(list);
    return rc;
}

int pki_ca_revoke(struct pki_ca *ca, const char *name, int64_t now, unsigned *count,
                  struct pki_error *err) {
    STACK_OF(X509) *certs = NULL;
    if (!rdmad_name_ok(name))
        return pki_fail(err, RDMAD_E_NAME, "\"%.64s\" is no name of a node", name);
    int rc = pki_issued_good(&ca->dir, ca->cert, name, now, &certs, err);
    if (!rc && sk_X509_num(certs) == 0)
        rc = pki_fail(err, RDMAD_E_HANDLE,
                      "this CA has given %s no certificate that is good now; rdmactl cluster show "
                      "lists what it has given",
                      name);
    for (int i = 0; !rc && i < sk_X509_num(certs); i++)
        if (pki_serves_joins(sk_X509_value(certs, i)))
            rc = pki_fail(err, RDMAD_E_BUSY,
                          "%s is the node of the CA itself, without which nobody can join or renew",
                          name);
    if (!rc)
        rc = pki_ca_write_list(ca, certs, now, err);
    *count = rc ? 0 : (unsigned)sk_X509_num(certs);
    sk_X509_pop_free(certs, X509_free);
    return rc;
}
