/* SPDX-License-Identifier: MIT */
/*
 * Handshakes and records are those of TLS 1.3: OpenSSL at the other end understands ours, and we
 * understand its, whoever dials, with both suites, through changes of keys. And nothing but the key
 * of the offer is proof.
 */
#include "daemon/fabric/tcp/handshake.h"
#include "tests/unit/tcp_pair.h"
#include <openssl/ssl.h>
#include <openssl/x509.h>

static const uint8_t secret[HANDSHAKE_KEY_BYTES] = {1, 2, 3};

static SSL_SESSION *session_of(SSL *ssl) {
    static const unsigned char id[] = {0x13, 0x01};
    SSL_SESSION *s = SSL_SESSION_new();
    cr_assert(s && SSL_SESSION_set1_master_key(s, secret, sizeof secret) &&
              SSL_SESSION_set_cipher(s, SSL_CIPHER_find(ssl, id)) &&
              SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION));
    return s;
}

static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *size,
                   SSL_SESSION **out) {
    (void)md;
    *id = (const unsigned char *)"rdmad data connection";
    *size = strlen("rdmad data connection");
    *out = session_of(ssl);
    return 1;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t size, SSL_SESSION **out) {
    (void)id, (void)size;
    *out = session_of(ssl);
    return 1;
}

/* OpenSSL's own end of a connection, over buffers. */
static SSL *openssl_end(bool dials, const char *suite) {
    SSL_CTX *c = SSL_CTX_new(TLS_method());
    cr_assert(c && SSL_CTX_set_ciphersuites(c, suite) && SSL_CTX_set_num_tickets(c, 0));
    SSL_CTX_set_psk_use_session_callback(c, use_key);
    SSL_CTX_set_psk_find_session_callback(c, find_key);
    SSL_CTX_clear_options(c, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
    SSL *ssl = SSL_new(c);
    SSL_CTX_free(c);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    cr_assert(ssl && in && out);
    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(ssl, in, out);
    if (dials)
        SSL_set_connect_state(ssl);
    else
        SSL_set_accept_state(ssl);
    return ssl;
}

/* The handshake of ours with OpenSSL's end; our keys of both directions. */
static void shake(SSL *ssl, bool we_dial, struct record_keys *in, struct record_keys *out) {
    struct ssl_ctx_st *context;
    struct handshake_keys keys;
    uint8_t bytes[HANDSHAKE_SEND];
    cr_assert_eq(handshakes_open(&context, NULL), 0);
    struct handshake *h = handshake_new(context, we_dial, secret);
    enum handshake_state state = we_dial ? handshake_step(h, NULL, 0) : HANDSHAKE_GOES_ON;
    for (unsigned i = 0; i < 4; i++) {
        size_t n = handshake_take(h, bytes);
        if (n > 0)
            BIO_write(SSL_get_rbio(ssl), bytes, (int)n);
        SSL_do_handshake(ssl);
        int come = BIO_read(SSL_get_wbio(ssl), bytes, sizeof bytes);
        if (come > 0)
            state = handshake_step(h, bytes, (size_t)come);
    }
    cr_assert(state == HANDSHAKE_DONE && SSL_is_init_finished(ssl), "%s", handshake_why(h));
    cr_assert_eq(handshake_result(h, &keys, bytes), 0);
    cr_assert(record_keys_init(in, keys.suite, we_dial ? keys.acceptor : keys.dialler, false) &&
              record_keys_init(out, keys.suite, we_dial ? keys.dialler : keys.acceptor, true));
    handshake_free(h);
    handshakes_close(context);
}

static void to_openssl(SSL *ssl, struct record_keys *out, uint32_t n) {
    static uint8_t record[RECORD_MAX], got[RECORD_CONTENT_MAX], said[RECORD_CONTENT_MAX];
    random_fill(said, n, n);
    memcpy(record + RECORD_HEADER, said, n);
    uint32_t size = record_seal(out, RECORD_DATA, record, n);
    cr_assert_eq(BIO_write(SSL_get_rbio(ssl), record, (int)size), (int)size);
    cr_assert_eq(SSL_read(ssl, got, sizeof got), (int)n);
    cr_assert_arr_eq(got, said, n);
}

static void from_openssl(SSL *ssl, struct record_keys *in, uint32_t n, enum record_type wanted) {
    static uint8_t record[RECORD_MAX], got[RECORD_INNER_MAX], said[RECORD_CONTENT_MAX];
    enum record_type type;
    const char *wrong;
    random_fill(said, n, n);
    if (wanted == RECORD_DATA)
        cr_assert_eq(SSL_write(ssl, said, (int)n), (int)n);
    cr_assert_eq(BIO_read(SSL_get_wbio(ssl), record, RECORD_HEADER), RECORD_HEADER);
    uint32_t size = record_size(record, RECORD_HEADER, &wrong);
    cr_assert_null(wrong);
    cr_assert_eq(BIO_read(SSL_get_wbio(ssl), record + RECORD_HEADER, (int)(size - RECORD_HEADER)),
                 (int)(size - RECORD_HEADER));
    cr_assert_eq(record_open(in, record, size, got, &type), n);
    cr_assert_eq(type, wanted);
    if (wanted == RECORD_DATA)
        cr_assert_arr_eq(got, said, n);
}

Test(tcp_records, openssl_understands_our_records_and_we_understand_its) {
    static const char *const suites[] = {"TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"};
    static const uint8_t update[] = {24, 0, 0, 1, 0};
    for (unsigned i = 0; i < 4; i++) {
        struct record_keys in, out;
        uint8_t record[RECORD_HEADER + sizeof update + 1 + RECORD_TAG];
        SSL *ssl = openssl_end(i % 2, suites[i / 2]);
        shake(ssl, !(i % 2), &in, &out);
        cr_assert_eq(in.suite, i / 2 ? AEAD_CHACHA20_POLY1305 : AEAD_AES_128_GCM);
        for (unsigned life = 0; life < 3; life++) {
            for (uint32_t n = 1; n <= RECORD_CONTENT_MAX; n *= 4) {
                to_openssl(ssl, &out, n);
                from_openssl(ssl, &in, n, RECORD_DATA);
            }
            /* Both take new keys. */
            memcpy(record + RECORD_HEADER, update, sizeof update);
            cr_assert_eq(record_seal(&out, RECORD_HANDSHAKE, record, sizeof update), sizeof record);
            cr_assert_eq(BIO_write(SSL_get_rbio(ssl), record, sizeof record), sizeof record);
            cr_assert(record_keys_next(&out));
            cr_assert_eq(SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
            cr_assert_eq(SSL_do_handshake(ssl), 1);
            from_openssl(ssl, &in, sizeof update, RECORD_HANDSHAKE);
            cr_assert(record_keys_next(&in));
        }
        record_keys_fini(&in);
        record_keys_fini(&out);
        SSL_free(ssl);
    }
}

/* Somebody between the two, who has no key and answers with a certificate of his own. */
Test(tcp_records, a_certificate_is_no_key) {
    struct ssl_ctx_st *context;
    uint8_t bytes[HANDSHAKE_SEND], answer[8192];
    cr_assert_eq(handshakes_open(&context, NULL), 0);
    struct handshake *h = handshake_new(context, true, secret);
    SSL *ssl = openssl_end(false, "TLS_AES_128_GCM_SHA256");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    cr_assert(key && x && X509_gmtime_adj(X509_getm_notBefore(x), -60) &&
              X509_gmtime_adj(X509_getm_notAfter(x), 3600) && X509_set_pubkey(x, key) &&
              X509_sign(x, key, EVP_sha256()));
    cr_assert(SSL_use_certificate(ssl, x) && SSL_use_PrivateKey(ssl, key));
    SSL_set_psk_find_session_callback(ssl, NULL);
    cr_assert_eq(handshake_step(h, NULL, 0), HANDSHAKE_GOES_ON);
    size_t n = handshake_take(h, bytes);
    BIO_write(SSL_get_rbio(ssl), bytes, (int)n);
    SSL_do_handshake(ssl);
    int come = BIO_read(SSL_get_wbio(ssl), answer, sizeof answer);
    cr_assert_gt(come, 300, "it does not answer with a certificate");
    enum handshake_state state = HANDSHAKE_GOES_ON;
    for (int at = 0; at < come && state == HANDSHAKE_GOES_ON; at += (int)HANDSHAKE_READ)
        state = handshake_step(h, answer + at,
                               (size_t)(come - at) < HANDSHAKE_READ ? (size_t)(come - at)
                                                                    : HANDSHAKE_READ);
    cr_assert_eq(state, HANDSHAKE_FAILED);
    cr_assert_not_null(strstr(handshake_why(h), "certificate"), "%s", handshake_why(h));
    handshake_free(h);
    handshakes_close(context);
    SSL_free(ssl);
    X509_free(x);
    EVP_PKEY_free(key);
}
