/* SPDX-License-Identifier: MIT */
/*
 * tls.c - OpenSSL between two buffers in memory.
 *
 * It does not go through libevent's bufferevent_openssl: that shakes hands whenever the socket is
 * readable, on the loop's thread, reads as much as there is, and cannot be told to wait.
 */
#include "daemon/peer/control/tls.h"
#include "pki/reason.h"
#include <assert.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdlib.h>

#define EMPTY_RECORDS_MAX 32u /* one after the other, without a byte for us */

struct tls {
    SSL *ssl;
    BIO *in, *out; /* of ssl */
    unsigned empty;
};

struct tls *tls_new(struct ssl_ctx_st *context, bool accepts) {
    struct tls *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->ssl = SSL_new(context);
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    if (!t->ssl || !t->in || !t->out) {
        BIO_free(t->in);
        BIO_free(t->out);
        SSL_free(t->ssl);
        free(t);
        return NULL;
    }
    BIO_set_mem_eof_return(t->in, -1);
    BIO_set_mem_eof_return(t->out, -1);
    SSL_set_bio(t->ssl, t->in, t->out);
    if (accepts)
        SSL_set_accept_state(t->ssl);
    else
        SSL_set_connect_state(t->ssl);
    return t;
}

void tls_free(struct tls *t) {
    if (!t)
        return;
    SSL_free(t->ssl); /* and both buffers */
    free(t);
}

struct ssl_st *tls_ssl(struct tls *t) {
    return t->ssl;
}

size_t tls_record_length(const uint8_t head[TLS_RECORD_HEAD]) {
    size_t length = (size_t)(head[3] << 8 | head[4]);
    bool is_record = head[0] >= SSL3_RT_CHANGE_CIPHER_SPEC && head[0] <= SSL3_RT_APPLICATION_DATA &&
                     head[1] == SSL3_VERSION_MAJOR;
    return is_record && length <= TLS_RECORD_MAX - TLS_RECORD_HEAD ? TLS_RECORD_HEAD + length : 0;
}

/* ---- what went wrong ----------------------------------------------------------------------- */

/* A word of the audit log for how the other end's certificate was judged. */
static const char *tls_cause(long verdict) {
    switch (verdict) {
    case X509_V_OK:
        return "tls.handshake";
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "tls.expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "tls.not_yet_valid";
    case X509_V_ERR_CERT_REVOKED:
        return "tls.revoked";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        return "tls.unknown_ca";
    default:
        return "tls.certificate";
    }
}

static void tls_failed(const struct tls *t, struct tls_failure *out) {
    struct pki_error why;
    pki_why(t->ssl, ERR_get_error(), &why);
    error_set(&out->why, why.code, "%s", why.text);
    out->cause = tls_cause(SSL_get_verify_result(t->ssl));
}

/* ---- the handshake ------------------------------------------------------------------------- */

static enum tls_step tls_go_on(struct tls *t, struct tls_failure *failure) {
    ERR_clear_error();
    int rc = SSL_do_handshake(t->ssl);
    if (rc == 1)
        return TLS_OPEN;
    if (SSL_get_error(t->ssl, rc) == SSL_ERROR_WANT_READ)
        return TLS_WAITS;
    tls_failed(t, failure);
    ERR_clear_error();
    return TLS_BROKEN;
}

static bool tls_feed(struct tls *t, const uint8_t *record, size_t length) {
    return BIO_write(t->in, record, (int)length) == (int)length;
}

enum tls_step tls_shake(struct tls *t, const uint8_t *in, size_t size, size_t *used,
                        struct tls_failure *failure) {
    enum tls_step step = TLS_WAITS;
    *used = 0;
    if (!SSL_is_server(t->ssl) && SSL_in_before(t->ssl))
        step = tls_go_on(t, failure);
    while (step == TLS_WAITS && size - *used >= TLS_RECORD_HEAD) {
        size_t length = tls_record_length(in + *used);
        if (!length) {
            failure->cause = "tls.garbage";
            error_set(&failure->why, RDMAD_E_PROTOCOL, "what it sends is not TLS");
            return TLS_BROKEN;
        }
        if (size - *used < length)
            break;
        if (!tls_feed(t, in + *used, length)) {
            failure->cause = "tls.memory";
            error_set(&failure->why, RDMAD_E_NOMEM, "out of memory for the handshake");
            return TLS_BROKEN;
        }
        *used += length;
        step = tls_go_on(t, failure);
    }
    return step;
}

/* ---- records ------------------------------------------------------------------------------- */

int tls_open_record(struct tls *t, const uint8_t *record, size_t length,
                    uint8_t plain[TLS_PLAIN_MAX], size_t *size, struct error *err) {
    struct tls_failure failure;
    *size = 0;
    ERR_clear_error();
    if (!tls_feed(t, record, length))
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a record");
    int rc = SSL_read(t->ssl, plain, TLS_PLAIN_MAX);
    if (rc > 0) {
        *size = (size_t)rc;
        t->empty = 0;
        return 0;
    }
    switch (SSL_get_error(t->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        if (++t->empty <= EMPTY_RECORDS_MAX)
            return 0;
        return error_set(err, RDMAD_E_PROTOCOL, "it sends records with nothing in them");
    case SSL_ERROR_ZERO_RETURN:
        return error_set(err, RDMAD_E_PEER_LOST, "it has ended the TLS connection");
    default:
        tls_failed(t, &failure);
        ERR_clear_error();
        *err = failure.why;
        return err->code;
    }
}

bool tls_seal(struct tls *t, const void *data, size_t size) {
    assert(size && size <= TLS_PLAIN_MAX);
    ERR_clear_error();
    return SSL_write(t->ssl, data, (int)size) == (int)size;
}

size_t tls_output(struct tls *t, uint8_t *out, size_t max) {
    int n = BIO_read(t->out, out, (int)max);
    return n > 0 ? (size_t)n : 0;
}
