/* SPDX-License-Identifier: MIT */
#include "pki/join_server.h"
#include "pki/ca.h"
#include "pki/issued.h"
#include "pki/sign.h"
#include <stdio.h>
#include <string.h>

#define CSR_MAX 8192u

void join_server_init(struct join_server *s) {
    join_inbox_init(&s->inbox, JOIN_REQUEST_MAX);
}

void join_server_fini(struct join_server *s) {
    join_inbox_fini(&s->inbox);
}

int join_server_take(struct join_server *s, const void *bytes, size_t size, struct pki_error *err) {
    return join_inbox_take(&s->inbox, bytes, size, err);
}

/* ---- replies -------------------------------------------------------------------------------- */

/* What is wrong with the CA's own files or machine is for its log. */
static bool is_ours_to_know(int code) {
    switch (code) {
    case RDMAD_E_SYSTEM:
    case RDMAD_E_CONFIG:
    case RDMAD_E_NOMEM:
    case RDMAD_E_BUSY:
    case RDMAD_E_INTERNAL:
        return true;
    default:
        return false;
    }
}

static int answer_refused(const struct pki_error *why, struct join_bytes *reply,
                          struct join_outcome *outcome) {
    struct join_message m = {.kind = JOIN_REFUSED, .code = why->code};
    snprintf(m.text, sizeof(m.text), "%s",
             is_ours_to_know(why->code) ? "the node of the CA cannot do that now; its log says why"
                                        : why->text);
    outcome->code = why->code;
    outcome->ours = is_ours_to_know(why->code);
    snprintf(outcome->text, sizeof(outcome->text), "%s", why->text);
    return join_message_print(&m, reply, NULL);
}

/* DER of the CA's list; *list.data is to be freed by OPENSSL_free. */
static int list_der(struct pki_ca *ca, struct join_blob *out, struct pki_error *err) {
    STACK_OF(X509_CRL) *others = NULL;
    X509_CRL *list = NULL;
    unsigned char *der = NULL;
    int rc = pki_revoked_read(&ca->dir, ca->cert, &list, &others, err);
    int size = list ? i2d_X509_CRL(list, &der) : 0;
    if (!rc && size < 0)
        rc = pki_fail_ssl(err, RDMAD_E_NOMEM, "out of memory for the list of revoked ones");
    *out = (struct join_blob){der, rc ? 0 : (size_t)size};
    sk_X509_CRL_pop_free(others, X509_CRL_free);
    X509_CRL_free(list);
    return rc;
}

static int answer_granted(struct pki_ca *ca, const X509 *cert, struct join_bytes *reply,
                          struct pki_error *err) {
    struct join_message m = {.kind = JOIN_GRANTED};
    unsigned char *leaf = NULL, *issuer = NULL;
    int leaf_size = i2d_X509(cert, &leaf), issuer_size = i2d_X509(ca->cert, &issuer);
    int rc = leaf_size > 0 && issuer_size > 0
                 ? list_der(ca, &m.list, err)
                 : pki_fail_ssl(err, RDMAD_E_NOMEM, "out of memory for a certificate");
    if (!rc) {
        m.cert = (struct join_blob){leaf, (size_t)leaf_size};
        m.ca = (struct join_blob){issuer, (size_t)issuer_size};
        rc = join_message_print(&m, reply, err);
    }
    OPENSSL_free(leaf);
    OPENSSL_free(issuer);
    OPENSSL_free((void *)m.list.data);
    return rc;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* The token is judged first, so nobody without one learns which names there are; it is taken before
 * the certificate is signed, so no crash leaves both. */
static int answer_token(struct pki_ca *ca, const struct pki_token *token, const char *name,
                        EVP_PKEY *key, int64_t now, X509 **out, bool *taken,
                        struct pki_error *err) {
    struct pki_token_terms terms;
    int rc = pki_token_check(&ca->dir, token, now, &terms, err);
    if (!rc)
        rc = pki_ca_name_free(ca, name, key, now, err);
    if (!rc)
        rc = pki_token_take(&ca->dir, token, err);
    *taken = !rc;
    if (rc)
        return rc;
    struct pki_grant granted = {.name = name, .days = terms.days};
    return pki_ca_issue(ca, &granted, key, now, out, err);
}

static struct pki_token token_of(const struct join_message *m, const struct pki_ca *ca) {
    struct pki_token token;
    memcpy(token.id, m->id, sizeof(token.id));
    memcpy(token.secret, m->secret, sizeof(token.secret));
    pki_fingerprint(ca->cert, token.fingerprint);
    return token;
}

static int answer_renewal(struct pki_ca *ca, const X509 *shown, const char *name, EVP_PKEY *key,
                          int64_t now, X509 **out, struct pki_error *err) {
    char theirs[RDMAD_NAME_MAX + 1];
    if (!shown || !pki_name_of(shown, theirs))
        return pki_fail(err, RDMAD_E_PERM,
                        "only a node that shows its certificate gets the next one; join with a "
                        "token");
    if (strcmp(theirs, name) != 0)
        return pki_fail(err, RDMAD_E_PERM, "%s asks for a certificate of %s", theirs, name);
    return pki_ca_renew(ca, shown, key, now, out, err);
}

/* A token, or a certificate to renew. */
static int answer_request(struct pki_ca *ca, const struct join_message *m, const X509 *shown,
                          int64_t now, struct join_bytes *reply, struct join_outcome *outcome,
                          struct pki_error *err) {
    EVP_PKEY *key = NULL;
    X509 *cert = NULL;
    if (m->request.size > CSR_MAX)
        return pki_fail(err, RDMAD_E_LENGTH,
                        "the request for a certificate has %zu bytes, at most %u are taken",
                        m->request.size, CSR_MAX);
    int rc = pki_request_read(m->request.data, m->request.size, outcome->name, &key, err);
    if (rc)
        return rc;
    struct pki_token token = token_of(m, ca);
    bool taken = false;
    rc = m->kind == JOIN_TOKEN
             ? answer_token(ca, &token, outcome->name, key, now, &cert, &taken, err)
             : answer_renewal(ca, shown, outcome->name, key, now, &cert, err);
    if (!rc) {
        outcome->not_after = pki_seconds(X509_get0_notAfter(cert));
        rc = answer_granted(ca, cert, reply, err);
    }
    if (taken && !rc)
        pki_token_used(&ca->dir, &token);
    else if (taken)
        pki_token_give_back(&ca->dir, &token);
    OPENSSL_cleanse(&token, sizeof(token));
    X509_free(cert);
    EVP_PKEY_free(key);
    return rc;
}

static int answer_crl(struct pki_ca *ca, const X509 *shown, struct join_bytes *reply,
                      struct join_outcome *outcome, struct pki_error *err) {
    struct join_message m = {.kind = JOIN_LISTED};
    if (!shown || !pki_name_of(shown, outcome->name))
        return pki_fail(err, RDMAD_E_PERM, "only nodes get the list of revoked certificates");
    int rc = list_der(ca, &m.list, err);
    if (!rc)
        rc = join_message_print(&m, reply, err);
    OPENSSL_free((void *)m.list.data);
    return rc;
}

int join_server_answer(const struct join_server *s, const char *dir, const X509 *shown, int64_t now,
                       struct join_bytes *reply, struct join_outcome *outcome) {
    struct join_message m = {0};
    struct pki_error err = {0};
    struct pki_ca ca;
    *outcome = (struct join_outcome){0};
    *reply = (struct join_bytes){0};
    int rc = join_message_parse(s->inbox.data, s->inbox.used, &m, &err);
    if (!rc && m.kind != JOIN_TOKEN && m.kind != JOIN_RENEW && m.kind != JOIN_LIST)
        rc = pki_fail(&err, RDMAD_E_TYPE, "a message of kind %u is no request", (unsigned)m.kind);
    if (rc)
        return answer_refused(&err, reply, outcome);
    outcome->asked = m.kind;
    rc = pki_ca_open(dir, &ca, &err);
    if (rc == PKI_NOT_THERE)
        rc = pki_fail(&err, RDMAD_E_CONFIG, "%s has no CA: rdmactl cluster init has not run here",
                      dir);
    else if (!rc) {
        rc = m.kind == JOIN_LIST ? answer_crl(&ca, shown, reply, outcome, &err)
                                 : answer_request(&ca, &m, shown, now, reply, outcome, &err);
        pki_ca_close(&ca);
    }
    OPENSSL_cleanse(m.secret, sizeof(m.secret));
    if (!rc)
        return RDMAD_OK;
    join_bytes_free(reply);
    return answer_refused(&err, reply, outcome);
}
