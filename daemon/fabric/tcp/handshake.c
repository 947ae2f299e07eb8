/* SPDX-License-Identifier: MIT */
/*
 * handshake.c - OpenSSL between two memory buffers, as far as the end of the handshake.
 *
 * OpenSSL tells the secrets of the two directions by the callback that it has for key logs. It
 * reads a record at a time, so what came behind the handshake is still in its input when that is
 * over. No session tickets, no early data, no dummy records for middleboxes: nothing but the
 * handshake itself crosses the wire.
 *
 * Every call of OpenSSL that fails, for memory or else, ends the handshake, and nothing more.
 */
#include "daemon/fabric/tcp/handshake.h"
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#define AES_128_GCM_ID 0x03001301u
#define CHACHA20_ID 0x03001303u

static const char identity[] = "rdmad data connection";

struct handshake {
    SSL *ssl;
    size_t taken;
    const char *why;
    uint8_t key[HANDSHAKE_KEY_BYTES];
    struct handshake_keys keys;
    unsigned secrets; /* bits: of the dialler, of the acceptor */
};

/* ---- what OpenSSL asks, and tells -------------------------------------------------------- */

static struct handshake *handshake_of(const SSL *ssl) {
    return SSL_get_app_data(ssl);
}

/* The key, as OpenSSL wants it. Any cipher of the same hash can be used with it. */
static SSL_SESSION *session_of(SSL *ssl) {
    static const uint8_t wanted[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
    const struct handshake *h = handshake_of(ssl);
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, wanted);
    SSL_SESSION *s = cipher ? SSL_SESSION_new() : NULL;
    if (s && SSL_SESSION_set1_master_key(s, h->key, sizeof h->key) == 1 &&
        SSL_SESSION_set_cipher(s, cipher) == 1 &&
        SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION) == 1)
        return s;
    SSL_SESSION_free(s);
    return NULL;
}

static int dialler_key(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *size,
                       SSL_SESSION **out) {
    (void)md;
    *id = (const unsigned char *)identity;
    *size = sizeof identity - 1;
    *out = session_of(ssl);
    return *out != NULL;
}

static int acceptor_key(SSL *ssl, const unsigned char *id, size_t size, SSL_SESSION **out) {
    bool ours = size == sizeof identity - 1 && memcmp(id, identity, size) == 0;
    *out = ours ? session_of(ssl) : NULL;
    return !ours || *out != NULL;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool secret_get(uint8_t to[RECORD_SECRET_BYTES], const char *text) {
    if (strlen(text) != (size_t)2 * RECORD_SECRET_BYTES)
        return false;
    for (unsigned i = 0; i < RECORD_SECRET_BYTES; i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        to[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* "LABEL random secret" */
static void take_secret(const SSL *ssl, const char *line) {
    static const char dialler[] = "CLIENT_TRAFFIC_SECRET_0 ",
                      acceptor[] = "SERVER_TRAFFIC_SECRET_0 ";
    struct handshake *h = handshake_of(ssl);
    const char *secret = strrchr(line, ' ');
    if (!secret)
        return;
    if (!strncmp(line, dialler, sizeof dialler - 1) && secret_get(h->keys.dialler, secret + 1))
        h->secrets |= 1;
    if (!strncmp(line, acceptor, sizeof acceptor - 1) && secret_get(h->keys.acceptor, secret + 1))
        h->secrets |= 2;
}

/* ---- of an instance ---------------------------------------------------------------------- */

enum aead_suite handshake_suite(void) {
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("aes"))
        return AEAD_CHACHA20_POLY1305;
#endif
    return AEAD_AES_128_GCM;
}

static const char *suites(void) {
    return handshake_suite() == AEAD_AES_128_GCM
               ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
               : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
}

int handshakes_open(struct ssl_ctx_st **out, struct error *err) {
    SSL_CTX *c = SSL_CTX_new(TLS_method());
    if (!c || SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(c, suites()) != 1 || SSL_CTX_set1_groups_list(c, "X25519") != 1 ||
        SSL_CTX_set_num_tickets(c, 0) != 1) {
        SSL_CTX_free(c);
        const char *why = ERR_reason_error_string(ERR_peek_last_error());
        ERR_clear_error();
        return error_set(err, RDMAD_E_NOMEM, "OpenSSL cannot encrypt data connections: %s",
                         why ? why : "no memory");
    }
    SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_clear_options(c, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_psk_use_session_callback(c, dialler_key);
    SSL_CTX_set_psk_find_session_callback(c, acceptor_key);
    SSL_CTX_set_keylog_callback(c, take_secret);
    *out = c;
    return 0;
}

void handshakes_close(struct ssl_ctx_st *context) {
    SSL_CTX_free(context);
}

/* ---- of a connection --------------------------------------------------------------------- */

static bool buffers_add(SSL *ssl) {
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    if (!in || !out) {
        BIO_free(in);
        BIO_free(out);
        return false;
    }
    BIO_set_mem_eof_return(in, -1); /* empty is not the end */
    SSL_set_bio(ssl, in, out);
    return true;
}

struct handshake *handshake_new(struct ssl_ctx_st *context, bool dials,
                                const uint8_t key[HANDSHAKE_KEY_BYTES]) {
    struct handshake *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    memcpy(h->key, key, sizeof h->key);
    h->ssl = SSL_new(context);
    if (!h->ssl || SSL_set_app_data(h->ssl, h) != 1 || !buffers_add(h->ssl)) {
        ERR_clear_error();
        handshake_free(h);
        return NULL;
    }
    if (dials) {
        SSL_set_connect_state(h->ssl);
        SSL_set_verify(h->ssl, SSL_VERIFY_PEER, NULL); /* no certificate is good: none is trusted */
    } else {
        SSL_set_accept_state(h->ssl);
    }
    return h;
}

void handshake_free(struct handshake *h) {
    if (!h)
        return;
    SSL_free(h->ssl);
    explicit_bzero(h, sizeof *h);
    free(h);
}

static enum handshake_state failed(struct handshake *h, const char *why) {
    h->why = why;
    return HANDSHAKE_FAILED;
}

static enum handshake_state done(struct handshake *h) {
    const SSL_CIPHER *cipher = SSL_get_current_cipher(h->ssl);
    uint32_t id = cipher ? SSL_CIPHER_get_id(cipher) : 0;
    if (id != AES_128_GCM_ID && id != CHACHA20_ID)
        return failed(h, "an unknown cipher was chosen");
    if (h->secrets != 3 || SSL_has_pending(h->ssl))
        return failed(h, "OpenSSL did not tell its secrets");
    if (!SSL_session_reused(h->ssl))
        return failed(h, "it did not prove that it has the key of the offer");
    h->keys.suite = id == AES_128_GCM_ID ? AEAD_AES_128_GCM : AEAD_CHACHA20_POLY1305;
    return HANDSHAKE_DONE;
}

enum handshake_state handshake_step(struct handshake *h, const uint8_t *in, size_t n) {
    h->taken += n;
    if (h->taken > HANDSHAKE_MAX)
        return failed(h, "its handshake has no end");
    ERR_clear_error();
    if (n > 0 && BIO_write(SSL_get_rbio(h->ssl), in, (int)n) != (int)n)
        return failed(h, "no memory for its handshake");
    int rc = SSL_do_handshake(h->ssl);
    if (rc == 1)
        return done(h);
    if (SSL_get_error(h->ssl, rc) == SSL_ERROR_WANT_READ)
        return HANDSHAKE_GOES_ON;
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return failed(h, why ? why : "OpenSSL gives no reason");
}

size_t handshake_take(struct handshake *h, uint8_t to[HANDSHAKE_SEND]) {
    int n = BIO_read(SSL_get_wbio(h->ssl), to, (int)HANDSHAKE_SEND);
    return n > 0 ? (size_t)n : 0;
}

const char *handshake_why(const struct handshake *h) {
    return h->why;
}

size_t handshake_result(struct handshake *h, struct handshake_keys *keys,
                        uint8_t rest[HANDSHAKE_READ]) {
    *keys = h->keys;
    int n = BIO_read(SSL_get_rbio(h->ssl), rest, (int)HANDSHAKE_READ);
    return n > 0 ? (size_t)n : 0;
}
