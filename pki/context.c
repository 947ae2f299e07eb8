/* SPDX-License-Identifier: MIT */
/*
 * context.c - everything that is not allowed is refused inside the handshake, before a byte of ours
 * is read; pki_established asks again what the protocol promised.
 */
#include "pki/context.h"
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

#define CERTIFICATES_MAX 32768 /* bytes of certificates that a peer may show */
#define DEPTH_MAX 4            /* CAs between a certificate and what is trusted */

/* ---- judging certificates ------------------------------------------------------------------- */

/* A list of revoked certificates is asked for only where there is one: that of one CA must not shut
 * out the nodes of another. And one from the future, of a CA whose clock is fast, is used all the
 * same: what it revokes is revoked, and others must not be shut out, for no better list could be
 * fetched then. */
static bool forgive(X509_STORE_CTX *ctx) {
    int error = X509_STORE_CTX_get_error(ctx);
    if (error != X509_V_ERR_UNABLE_TO_GET_CRL && error != X509_V_ERR_CRL_NOT_YET_VALID)
        return false;
    X509_STORE_CTX_set_error(ctx, X509_V_OK);
    return true;
}

/* Called for each certificate of the chain, good ones too. */
static int judge(int good, X509_STORE_CTX *ctx) {
    char name[RDMAD_NAME_MAX + 1];
    X509 *cert = X509_STORE_CTX_get_current_cert(ctx);
    SSL *ssl = X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
    if (!good && forgive(ctx))
        return 1;
    if (good && X509_STORE_CTX_get_error_depth(ctx) == 0 && !(cert && pki_name_of(cert, name))) {
        X509_STORE_CTX_set_error(ctx, X509_V_ERR_APPLICATION_VERIFICATION);
        good = 0;
    }
    if (!good)
        pki_note_verdict(ssl, X509_STORE_CTX_get_error(ctx), cert);
    return good;
}

/* What was made when the identity was loaded, and goes with it, or one of its own. */
static X509_STORE *store_of(const struct pki_identity *id, struct pki_error *err) {
    if (!id->store)
        return pki_store_make(id, err);
    X509_STORE_up_ref(id->store);
    return id->store;
}

static int64_t earliest_end(const STACK_OF(X509) * certs) {
    int64_t earliest = INT64_MAX;
    for (int i = 0; i < sk_X509_num(certs); i++) {
        int64_t end = pki_seconds(X509_get0_notAfter(sk_X509_value(certs, i)));
        earliest = end < earliest ? end : earliest;
    }
    return earliest;
}

int pki_check(const struct pki_identity *id, X509 *cert, STACK_OF(X509) * chain,
              struct pki_error *err) {
    int64_t until;
    return pki_check_until(id, cert, chain, &until, err);
}

int pki_check_until(const struct pki_identity *id, X509 *cert, STACK_OF(X509) * chain,
                    int64_t *until, struct pki_error *err) {
    X509_STORE *store = store_of(id, err);
    X509_STORE_CTX *ctx = store ? X509_STORE_CTX_new() : NULL;
    int rc = RDMAD_OK;
    if (!store)
        return RDMAD_E_NOMEM;
    if (!ctx || X509_STORE_CTX_init(ctx, store, cert, chain) != 1) {
        rc = pki_fail_ssl(err, RDMAD_E_NOMEM, "cannot judge a certificate");
    } else {
        X509_STORE_CTX_set_depth(ctx, DEPTH_MAX);
        X509_STORE_CTX_set_verify_cb(ctx, judge);
        if (X509_verify_cert(ctx) != 1)
            rc = pki_why_verdict(X509_STORE_CTX_get_error(ctx),
                                 X509_STORE_CTX_get_current_cert(ctx), err);
        else
            *until = earliest_end(X509_STORE_CTX_get0_chain(ctx));
        ERR_clear_error();
    }
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    return rc;
}

/* ---- agreeing on the protocol --------------------------------------------------------------- */

/* With their length in front, as ALPN has them. */
static const unsigned char alpn_peer[] = "\x0c" PKI_ALPN_PEER;
static const unsigned char alpn_join[] = "\x0c" PKI_ALPN_JOIN;
#define ALPN_SIZE (sizeof(alpn_peer) - 1)
_Static_assert(sizeof(PKI_ALPN_PEER) - 1 == 0x0c && sizeof(alpn_join) == sizeof(alpn_peer), "ALPN");

static bool alpn_is(const unsigned char *name, unsigned length, const unsigned char *ours) {
    return length == ours[0] && !memcmp(name, ours + 1, length);
}

/* Without the extension OpenSSL would not ask us, and go on without a protocol. */
static int hello_has_alpn(SSL *ssl, int *alert, void *arg) {
    const unsigned char *data;
    size_t size;
    (void)arg;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &data,
                                  &size) == 1)
        return SSL_CLIENT_HELLO_SUCCESS;
    pki_note(ssl, RDMAD_E_PROTOCOL, "the peer is no rdmad: it asks for none of rdmad's protocols");
    *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
    return SSL_CLIENT_HELLO_ERROR;
}

/* arg: NULL where there is no CA. The first of the client's that we speak. */
static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_length,
                           const unsigned char *in, unsigned size, void *arg) {
    bool asked = false;
    for (unsigned at = 0; at < size && in[at] < size - at; at += 1u + in[at]) {
        const unsigned char *name = in + at + 1;
        bool join = alpn_is(name, in[at], alpn_join);
        asked |= join;
        if (!alpn_is(name, in[at], alpn_peer) && !(join && arg))
            continue;
        /* Nobody but who joins is let in without a certificate. */
        if (join)
            SSL_set_verify(ssl, SSL_VERIFY_PEER, judge);
        *out = name;
        *out_length = in[at];
        return SSL_TLSEXT_ERR_OK;
    }
    pki_note(ssl, RDMAD_E_PROTOCOL,
             asked
                 ? "the peer wants to join, and this is not the node where rdmactl cluster init ran"
                 : "the peer is no rdmad: it asks for none of rdmad's protocols");
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* ---- contexts ------------------------------------------------------------------------------- */

static SSL_CTX *context_make(const SSL_METHOD *method) {
    SSL_CTX *ctx = SSL_CTX_new(method);
    if (ctx && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
        SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
        SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                      "TLS_CHACHA20_POLY1305_SHA256") == 1 &&
        SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384") == 1 &&
        SSL_CTX_set_num_tickets(ctx, 0) == 1 && SSL_CTX_set_max_early_data(ctx, 0) == 1 &&
        SSL_CTX_set_recv_max_early_data(ctx, 0) == 1) {
        SSL_CTX_set_options(ctx,
                            SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_security_level(ctx, 2);
        SSL_CTX_set_mode(ctx, SSL_MODE_NO_AUTO_CHAIN);
        SSL_CTX_set_verify_depth(ctx, DEPTH_MAX);
        SSL_CTX_set_max_cert_list(ctx, CERTIFICATES_MAX);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, judge);
        return ctx;
    }
    SSL_CTX_free(ctx);
    return NULL;
}

/* With the identity's certificate, key and trust. */
static int context_of(const struct pki_identity *id, const SSL_METHOD *method, SSL_CTX **out,
                      struct pki_error *err) {
    X509_STORE *store = store_of(id, err);
    if (!store)
        return RDMAD_E_NOMEM;
    SSL_CTX *ctx = context_make(method);
    if (ctx)
        SSL_CTX_set_cert_store(ctx, store);
    else
        X509_STORE_free(store);
    if (ctx && SSL_CTX_use_cert_and_key(ctx, id->cert, id->key, id->chain, 1) == 1) {
        *out = ctx;
        return RDMAD_OK;
    }
    SSL_CTX_free(ctx);
    return pki_fail_ssl(err, RDMAD_E_CONFIG, "TLS cannot use the certificate and key of %s",
                        id->dir);
}

int pki_server_context(const struct pki_identity *id, SSL_CTX **out, struct pki_error *err) {
    static const char joins[] = "joins";
    int rc = context_of(id, TLS_server_method(), out, err);
    if (rc)
        return rc;
    SSL_CTX_set_client_hello_cb(*out, hello_has_alpn, NULL);
    SSL_CTX_set_alpn_select_cb(*out, select_protocol, id->is_ca ? (void *)joins : NULL);
    return RDMAD_OK;
}

static int offer_protocol(SSL_CTX *ctx, enum pki_protocol protocol, SSL_CTX **out,
                          struct pki_error *err) {
    if (!SSL_CTX_set_alpn_protos(ctx, protocol == PKI_JOIN ? alpn_join : alpn_peer, ALPN_SIZE)) {
        *out = ctx;
        return RDMAD_OK;
    }
    SSL_CTX_free(ctx);
    return pki_fail_ssl(err, RDMAD_E_NOMEM, "out of memory for TLS");
}

int pki_client_context(const struct pki_identity *id, enum pki_protocol protocol, SSL_CTX **out,
                       struct pki_error *err) {
    SSL_CTX *ctx;
    int rc = context_of(id, TLS_client_method(), &ctx, err);
    return rc ? rc : offer_protocol(ctx, protocol, out, err);
}

/* ---- strangers ------------------------------------------------------------------------------ */

/* Of what the server shows, the certificate with the fingerprint is all that is trusted. */
static int judge_by_fingerprint(X509_STORE_CTX *ctx, void *fingerprint) {
    STACK_OF(X509) *shown = X509_STORE_CTX_get0_untrusted(ctx);
    STACK_OF(X509) *trusted = sk_X509_new_null();
    SSL *ssl = X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
    uint8_t bytes[PKI_FINGERPRINT_BYTES];
    int good = 0;
    for (int i = 0; trusted && i < sk_X509_num(shown) && !sk_X509_num(trusted); i++) {
        pki_fingerprint(sk_X509_value(shown, i), bytes);
        if (!memcmp(bytes, fingerprint, sizeof(bytes)) && pki_is_ca(sk_X509_value(shown, i)))
            sk_X509_push(trusted, sk_X509_value(shown, i));
    }
    if (trusted && sk_X509_num(trusted)) {
        X509_STORE_CTX_set0_trusted_stack(ctx, trusted);
        good = X509_verify_cert(ctx) == 1;
        X509_STORE_CTX_set0_trusted_stack(ctx, NULL);
    } else {
        X509_STORE_CTX_set_error(ctx, X509_V_ERR_CERT_UNTRUSTED);
        pki_note(ssl, RDMAD_E_PERM,
                 "the daemon there does not belong to the CA that the token names: the token is of "
                 "another cluster, or somebody stands between; nothing was sent");
    }
    if (good && !pki_serves_joins(X509_STORE_CTX_get0_cert(ctx))) {
        X509_STORE_CTX_set_error(ctx, X509_V_ERR_CERT_REJECTED);
        pki_note(ssl, RDMAD_E_PERM,
                 "the daemon there is a node of the cluster, but not the one that takes tokens; "
                 "nothing was sent");
        good = 0;
    }
    sk_X509_free(trusted);
    return good;
}

int pki_stranger_context(const uint8_t *fingerprint, SSL_CTX **out, struct pki_error *err) {
    SSL_CTX *ctx = context_make(TLS_client_method());
    if (!ctx)
        return pki_fail_ssl(err, RDMAD_E_NOMEM, "out of memory for TLS");
    SSL_CTX_set_cert_verify_callback(ctx, judge_by_fingerprint, (void *)fingerprint);
    return offer_protocol(ctx, PKI_JOIN, out, err);
}

/* ---- when the handshake is done -------------------------------------------------------------- */

int pki_established(const SSL *ssl, struct pki_peer *out, struct pki_error *err) {
    const unsigned char *alpn = NULL;
    unsigned length = 0;
    *out = (struct pki_peer){.protocol = PKI_PEER};
    SSL_get0_alpn_selected(ssl, &alpn, &length);
    if (!SSL_is_init_finished(ssl) || SSL_version(ssl) != TLS1_3_VERSION)
        return pki_fail(err, RDMAD_E_PROTOCOL, "no TLS 1.3 connection was made");
    if (SSL_session_reused(ssl))
        return pki_fail(err, RDMAD_E_PROTOCOL, "the peer resumes a session; there are none");
    if (alpn_is(alpn, length, alpn_join))
        out->protocol = PKI_JOIN;
    else if (!alpn_is(alpn, length, alpn_peer))
        return pki_fail(err, RDMAD_E_PROTOCOL, "the peer agreed to none of rdmad's protocols");
    X509 *cert = SSL_get0_peer_certificate(ssl);
    if (!cert && out->protocol == PKI_JOIN && SSL_is_server(ssl))
        return RDMAD_OK;
    if (!cert)
        return pki_fail(err, RDMAD_E_PERM, "the peer has shown no certificate");
    if (SSL_get_verify_result(ssl) != X509_V_OK)
        return pki_why_verdict((int)SSL_get_verify_result(ssl), cert, err);
    if (!pki_name_of(cert, out->name))
        return pki_why_verdict(X509_V_ERR_APPLICATION_VERIFICATION, cert, err);
    out->not_after = pki_seconds(X509_get0_notAfter(cert));
    out->until = earliest_end(SSL_get0_verified_chain(ssl));
    if (out->until > out->not_after)
        out->until = out->not_after;
    out->serves_joins = pki_serves_joins(cert);
    return RDMAD_OK;
}
