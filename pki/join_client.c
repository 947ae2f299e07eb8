/* SPDX-License-Identifier: MIT */
#include "pki/join_client.h"
#include "common/uri.h"
#include "pki/context.h"
#include "pki/files.h"
#include "pki/issued.h"
#include "pki/own.h"
#include "pki/sign.h"
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void join_client_fini(struct join_client *c) {
    pki_dir_close(&c->dir);
    EVP_PKEY_free(c->key);
    X509_free(c->ca);
    *c = (struct join_client){.dir.fd = -1};
}

/* ---- asking --------------------------------------------------------------------------------- */

static int print_request(const struct join_client *c, struct join_message *m,
                         struct join_bytes *out, struct pki_error *err) {
    uint8_t *der = NULL;
    size_t size = 0;
    int rc = m->kind == JOIN_LIST ? RDMAD_OK : pki_request_make(c->name, c->key, &der, &size, err);
    m->request = (struct join_blob){der, size};
    if (!rc)
        rc = join_message_print(m, out, err);
    OPENSSL_free(der);
    OPENSSL_cleanse(m->secret, sizeof(m->secret));
    return rc;
}

/* Whether a node may join with this directory. */
static int may_join(const struct pki_dir *dir, bool replace, struct pki_error *err) {
    if (pki_file_there(dir, PKI_CA_KEY))
        return pki_fail(err, RDMAD_E_EXISTS,
                        "%s has a CA (rdmactl cluster init ran here), and its node cannot join "
                        "another; name another directory by --identity",
                        dir->path);
    if (pki_file_there(dir, PKI_NODE_CERT) && !replace)
        return pki_fail(err, RDMAD_E_EXISTS,
                        "%s has an identity already, rdmactl cluster show tells whose; with "
                        "--replace its node joins anew",
                        dir->path);
    return RDMAD_OK;
}

int join_client_begin(const char *dir, const char *name, const struct pki_token *token,
                      bool replace, struct join_client *out, struct join_bytes *request,
                      struct pki_error *err) {
    struct join_message m = {.kind = JOIN_TOKEN};
    int lock = -1;
    *out = (struct join_client){.dir.fd = -1};
    if (!rdmad_name_ok(name))
        return pki_fail(err, RDMAD_E_NAME,
                        "\"%.64s\" is no name of a node: 1 to 63 of A-Z a-z 0-9 . _ - are allowed, "
                        "not beginning with a dot",
                        name);
    snprintf(out->name, sizeof(out->name), "%s", name);
    memcpy(m.id, token->id, sizeof(m.id));
    memcpy(m.secret, token->secret, sizeof(m.secret));
    memcpy(out->fingerprint, token->fingerprint, sizeof(out->fingerprint));
    int rc = pki_dir_make(dir, &out->dir, err);
    if (!rc)
        rc = pki_lock(&out->dir, &lock, err);
    if (!rc) {
        rc = may_join(&out->dir, replace, err);
        if (!rc)
            rc = pki_own_key(&out->dir, &out->key, err);
        pki_unlock(lock);
    }
    if (!rc)
        rc = print_request(out, &m, request, err);
    if (rc)
        join_client_fini(out);
    return rc;
}

/* The trusted certificate that signed this node's. */
static X509 *issuer_of(const struct pki_identity *id) {
    for (int i = 0; i < sk_X509_num(id->trust); i++) {
        X509 *ca = sk_X509_value(id->trust, i);
        if (X509_check_issued(ca, id->cert) == X509_V_OK &&
            X509_verify(id->cert, X509_get0_pubkey(ca)) == 1)
            return ca;
    }
    ERR_clear_error();
    return NULL;
}

int join_client_begin_renewal(const struct pki_identity *id, bool list_only,
                              struct join_client *out, struct join_bytes *request,
                              struct pki_error *err) {
    struct join_message m = {.kind = list_only ? JOIN_LIST : JOIN_RENEW};
    X509 *ca = issuer_of(id);
    *out = (struct join_client){.dir.fd = -1};
    if (!ca)
        return pki_fail(err, RDMAD_E_CONFIG,
                        "the certificate of %s is of no CA in trust/, so nobody is asked for the "
                        "next one; put it into %s/" PKI_NODE_CERT,
                        id->name, id->dir);
    int rc = pki_dir_open(id->dir, &out->dir, err);
    if (rc)
        return rc == PKI_NOT_THERE ? pki_fail(err, RDMAD_E_CONFIG, "%s is gone", id->dir) : rc;
    snprintf(out->name, sizeof(out->name), "%s", id->name);
    pki_fingerprint(ca, out->fingerprint);
    if (X509_up_ref(ca) == 1)
        out->ca = ca;
    if (EVP_PKEY_up_ref(id->key) == 1)
        out->key = id->key;
    rc = print_request(out, &m, request, err);
    if (rc)
        join_client_fini(out);
    return rc;
}

/* ---- judging -------------------------------------------------------------------------------- */

static X509 *cert_of(const struct join_blob *blob) {
    const unsigned char *at = blob->data;
    X509 *cert = blob->data ? d2i_X509(NULL, &at, (long)blob->size) : NULL;
    if (cert && at != blob->data + blob->size) {
        X509_free(cert);
        cert = NULL;
    }
    return cert;
}

/* No list is a good one, too: *out is NULL. */
static int list_of(const struct join_blob *blob, X509 *ca, X509_CRL **out, struct pki_error *err) {
    const unsigned char *at = blob->data;
    *out = NULL;
    if (!blob->size)
        return RDMAD_OK;
    X509_CRL *list = d2i_X509_CRL(NULL, &at, (long)blob->size);
    if (list && at == blob->data + blob->size &&
        !X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(ca)) &&
        X509_CRL_verify(list, X509_get0_pubkey(ca)) == 1) {
        *out = list;
        return RDMAD_OK;
    }
    X509_CRL_free(list);
    ERR_clear_error();
    return pki_fail(err, RDMAD_E_PROTOCOL,
                    "the reply's list of revoked certificates is not signed by the CA");
}

/* A certificate for our name and key, by that CA, and good now. */
static int judge_cert(const struct join_client *c, X509 *cert, X509 *ca, struct pki_error *err) {
    uint8_t fingerprint[PKI_FINGERPRINT_BYTES];
    char name[RDMAD_NAME_MAX + 1];
    if (!cert || !ca)
        return pki_fail(err, RDMAD_E_PROTOCOL, "the reply has no certificate that can be read");
    pki_fingerprint(ca, fingerprint);
    if (memcmp(fingerprint, c->fingerprint, sizeof(fingerprint)) != 0 || !pki_is_ca(ca))
        return pki_fail(err, RDMAD_E_PERM,
                        "the reply is of another CA than the one that was asked; nothing was kept");
    if (!pki_name_of(cert, name) || strcmp(name, c->name) != 0 ||
        EVP_PKEY_eq(X509_get0_pubkey(cert), c->key) != 1)
        return pki_fail(err, RDMAD_E_PROTOCOL,
                        "the reply has a certificate for another name or key than %s asked for",
                        c->name);
    struct pki_identity only = {.trust = sk_X509_new_null()};
    int rc = only.trust && sk_X509_push(only.trust, ca)
                 ? pki_check(&only, cert, NULL, err)
                 : pki_fail(err, RDMAD_E_NOMEM, "out of memory to judge a certificate");
    sk_X509_free(only.trust);
    return rc;
}

/* ---- keeping -------------------------------------------------------------------------------- */

/* One that is as it was is not written, for then the identity is loaded anew; and an older one,
 * of which somebody kept a copy, does not take back what was revoked since. */
static bool is_news(const X509_CRL *list, const X509_CRL *former) {
    return !former ||
           (X509_CRL_match(list, former) != 0 && pki_list_number(list) >= pki_list_number(former));
}

static int keep_list(const struct join_client *c, X509 *ca, X509_CRL *list, struct pki_error *err) {
    STACK_OF(X509_CRL) *others = NULL;
    X509_CRL *former = NULL;
    if (!list)
        return RDMAD_OK;
    int rc = pki_revoked_read(&c->dir, ca, &former, &others, err);
    if (!rc && is_news(list, former))
        rc = pki_revoked_write(&c->dir, list, others, err);
    sk_X509_CRL_pop_free(others, X509_CRL_free);
    X509_CRL_free(former);
    return rc;
}

static int keep_reply(const struct join_client *c, X509 *cert, X509 *ca, X509_CRL *list,
                      const char *address, struct pki_error *err) {
    int lock = -1, rc = pki_lock(&c->dir, &lock, err);
    if (rc)
        return rc;
    if (cert)
        rc = pki_own_trust(&c->dir, ca, err);
    if (!rc)
        rc = keep_list(c, ca, list, err);
    if (!rc && address)
        rc = pki_file_write(&c->dir, PKI_CA_ADDRESS, PKI_PUBLIC, address, strlen(address), err);
    if (!rc && cert)
        rc = pki_own_write_cert(&c->dir, PKI_NODE_CERT, cert, ca, err);
    pki_unlock(lock);
    return rc;
}

int join_client_finish(struct join_client *c, const uint8_t *reply, size_t size,
                       const char *address, struct pki_error *err) {
    struct join_message m = {0};
    X509 *cert = NULL, *ca = NULL;
    X509_CRL *list = NULL;
    int rc = join_message_parse(reply, size, &m, err);
    if (rc)
        return rc;
    if (m.kind == JOIN_REFUSED)
        return pki_fail(err, m.code, "%s", m.text);
    if (m.kind == JOIN_GRANTED) {
        cert = cert_of(&m.cert);
        ca = cert_of(&m.ca);
        rc = judge_cert(c, cert, ca, err);
    } else if (m.kind != JOIN_LISTED || !c->ca) {
        rc = pki_fail(err, RDMAD_E_PROTOCOL, "a reply of kind %u answers nothing that was asked",
                      (unsigned)m.kind);
    }
    X509 *by = ca ? ca : c->ca;
    if (!rc)
        rc = list_of(&m.list, by, &list, err);
    if (!rc)
        rc = keep_reply(c, cert, by, list, address, err);
    X509_free(cert);
    X509_free(ca);
    X509_CRL_free(list);
    ERR_clear_error();
    return rc;
}

int join_client_address(const char *path, char *buf, size_t size, struct pki_error *err) {
    struct pki_dir dir;
    char *text = NULL, host[RDMAD_HOST_MAX + 1];
    size_t length = 0;
    uint16_t port;
    int rc = pki_dir_open(path, &dir, err);
    if (rc)
        return rc;
    rc = pki_file_read(&dir, PKI_CA_ADDRESS, PKI_PUBLIC, &text, &length, err);
    pki_dir_close(&dir);
    if (rc)
        return rc;
    text[strcspn(text, "\n")] = '\0';
    const char *wrong = rdmad_hostport_parse(text, host, &port);
    if (wrong)
        rc = pki_fail(err, RDMAD_E_CONFIG, "%s/" PKI_CA_ADDRESS ": %s", path, wrong);
    else if (snprintf(buf, size, "%s", text) >= (int)size)
        rc = pki_fail(err, RDMAD_E_CONFIG, "%s/" PKI_CA_ADDRESS " is too long", path);
    free(text);
    return rc;
}
