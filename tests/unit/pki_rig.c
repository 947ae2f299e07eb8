/* SPDX-License-Identifier: MIT */
#include "tests/unit/pki_rig.h"
#include "pki/files.h"
#include "pki/init.h"
#include "pki/issued.h"
#include "pki/key.h"
#include "pki/own.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char rig_root[RIG_PATH - 64];

static int remove_one(const char *path, const struct stat *is, int type, struct FTW *at) {
    (void)is, (void)type, (void)at;
    return remove(path);
}

static void remove_root(void) {
    nftw(rig_root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *rig_path(char out[RIG_PATH], const char *name) {
    if (!rig_root[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(rig_root, sizeof(rig_root), "%.150s/rdmad-pki.XXXXXX", tmp ? tmp : "/tmp");
        cr_assert_not_null(mkdtemp(rig_root));
        atexit(remove_root);
    }
    snprintf(out, RIG_PATH, "%s/%s", rig_root, name);
    return out;
}

int64_t rig_now(void) {
    return (int64_t)time(NULL);
}

void rig_init(char dir[RIG_PATH], const char *name) {
    struct pki_error err;
    struct pki_init init = {.path = dir,
                            .name = name,
                            .address = "127.0.0.1:7471",
                            .days = PKI_NODE_DAYS,
                            .now = rig_now()};
    char unique[80];
    static unsigned made;
    snprintf(unique, sizeof(unique), "ca%u", ++made);
    rig_path(dir, unique);
    cr_assert_eq(pki_init(&init, &err), 0, "%s", err.text);
}

static void node_dir(char dir[RIG_PATH], const char *name, struct pki_dir *out) {
    struct pki_error err;
    char unique[80];
    static unsigned made;
    snprintf(unique, sizeof(unique), "%.40s%u", name, ++made);
    cr_assert_eq(pki_dir_make(rig_path(dir, unique), out, &err), 0, "%s", err.text);
}

static void fill_terms(struct pki_terms *terms) {
    if (!terms->not_before)
        terms->not_before = rig_now() - PKI_EARLY_S;
    if (!terms->not_after)
        terms->not_after = rig_now() + 86400;
}

static void make(char dir[RIG_PATH], struct pki_terms terms, X509 *issuer, EVP_PKEY *issuer_key) {
    struct pki_error err;
    struct pki_dir at;
    EVP_PKEY *key;
    X509 *cert;
    fill_terms(&terms);
    node_dir(dir, "node", &at);
    cr_assert_eq(pki_own_key(&at, &key, &err), 0, "%s", err.text);
    cr_assert_eq(pki_cert_sign(&terms, key, issuer, issuer ? issuer_key : key, &cert, &err), 0,
                 "%s", err.text);
    cr_assert_eq(pki_own_write_cert(&at, PKI_NODE_CERT, cert, issuer, &err), 0, "%s", err.text);
    if (issuer)
        cr_assert_eq(pki_own_trust(&at, issuer, &err), 0, "%s", err.text);
    X509_free(cert);
    EVP_PKEY_free(key);
    pki_dir_close(&at);
}

void rig_node(char dir[RIG_PATH], const char *ca_dir, struct pki_terms terms) {
    struct pki_error err;
    struct pki_ca ca;
    cr_assert_eq(pki_ca_open(ca_dir, &ca, &err), 0, "%s", err.text);
    make(dir, terms, ca.cert, ca.key);
    X509 *cert = rig_leaf(dir);
    cr_assert_eq(pki_issued_add(&ca.dir, ca.cert, terms.name, cert, rig_now(), &err), 0, "%s",
                 err.text);
    X509_free(cert);
    pki_ca_close(&ca);
}

void rig_single(char dir[RIG_PATH], struct pki_terms terms) {
    make(dir, terms, NULL, NULL);
}

void rig_write(const char *dir, const char *file, const char *text, unsigned mode) {
    char path[2 * RIG_PATH];
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s", path);
    cr_assert_eq(fchmod(fd, mode), 0);
    close(fd);
}

void rig_copy(const char *from_dir, const char *from, const char *to_dir, const char *to) {
    char path[2 * RIG_PATH], text[PKI_FILE_MAX + 1];
    snprintf(path, sizeof(path), "%s/%s", from_dir, from);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, PKI_FILE_MAX);
    cr_assert(n >= 0, "%s", path);
    close(fd);
    text[n] = '\0';
    rig_write(to_dir, to, text, 0644);
}

void rig_trust(const char *who, const char *whom) {
    char trust[2 * RIG_PATH];
    static unsigned made;
    char file[32];
    snprintf(trust, sizeof(trust), "%s/trust", who);
    snprintf(file, sizeof(file), "peer%u.crt", ++made);
    (void)mkdir(trust, 0755);
    rig_copy(whom, PKI_NODE_CERT, trust, file);
}

X509 *rig_leaf(const char *dir) {
    struct pki_error err;
    struct pki_dir at;
    X509 *cert;
    cr_assert_eq(pki_dir_open(dir, &at, &err), 0, "%s", err.text);
    cr_assert_eq(pki_own_read_cert(&at, &cert, &err), 0, "%s", err.text);
    pki_dir_close(&at);
    return cert;
}

void rig_spoil_key(uint8_t *der, size_t size) {
    static const uint8_t ec[] = {0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01};
    uint8_t *type = memmem(der, size, ec, sizeof(ec));
    cr_assert_not_null(type);
    type[sizeof(ec) - 1] ^= 0x40;
}

void rig_revoke(const char *ca_dir, const char *name) {
    struct pki_error err;
    struct pki_ca ca;
    unsigned count;
    cr_assert_eq(pki_ca_open(ca_dir, &ca, &err), 0, "%s", err.text);
    cr_assert_eq(pki_ca_revoke(&ca, name, rig_now(), &count, &err), 0, "%s", err.text);
    cr_assert(count >= 1);
    pki_ca_close(&ca);
}

struct pki_identity *rig_load(const char *dir) {
    struct pki_error err = {0};
    struct pki_identity *id = NULL;
    cr_assert_eq(pki_load(dir, &id, &err), 0, "%s: %s", dir, err.text);
    return id;
}

SSL_CTX *rig_server(const char *dir) {
    struct pki_error err;
    struct pki_identity *id = rig_load(dir);
    SSL_CTX *ctx;
    cr_assert_eq(pki_server_context(id, &ctx, &err), 0, "%s", err.text);
    pki_identity_free(id);
    return ctx;
}

SSL_CTX *rig_client(const char *dir, enum pki_protocol protocol) {
    struct pki_error err;
    struct pki_identity *id = rig_load(dir);
    SSL_CTX *ctx;
    cr_assert_eq(pki_client_context(id, protocol, &ctx, &err), 0, "%s", err.text);
    pki_identity_free(id);
    return ctx;
}

/* ---- handshakes ----------------------------------------------------------------------------- */

/* One step; true if the end may do more when the other has. */
static bool step(struct rig_end *end) {
    if (end->done || end->why.code)
        return false;
    ERR_clear_error();
    int n = SSL_do_handshake(end->ssl);
    if (n == 1) {
        end->done = true;
        pki_established(end->ssl, &end->peer, &end->why);
        return true;
    }
    int kind = SSL_get_error(end->ssl, n);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return true;
    pki_why(end->ssl, ERR_get_error(), &end->why);
    ERR_clear_error();
    return true;
}

/* A client of TLS 1.3 is done before the server has judged it: it learns that by reading. */
static void listen_once(struct rig_end *end) {
    char byte;
    if (!end->done || end->why.code)
        return;
    ERR_clear_error();
    int n = SSL_read(end->ssl, &byte, 1);
    if (n <= 0 && SSL_get_error(end->ssl, n) != SSL_ERROR_WANT_READ)
        pki_why(end->ssl, ERR_get_error(), &end->why);
    ERR_clear_error();
}

void rig_shake(SSL_CTX *client_ctx, SSL_CTX *server_ctx, struct rig_end *client,
               struct rig_end *server) {
    BIO *a, *b;
    *client = (struct rig_end){.ssl = SSL_new(client_ctx)};
    *server = (struct rig_end){.ssl = SSL_new(server_ctx)};
    cr_assert(client->ssl && server->ssl);
    cr_assert_eq(BIO_new_bio_pair(&a, 65536, &b, 65536), 1);
    SSL_set_bio(client->ssl, a, a);
    SSL_set_bio(server->ssl, b, b);
    SSL_set_connect_state(client->ssl);
    SSL_set_accept_state(server->ssl);
    for (unsigned i = 0; i < 10; i++) {
        step(client);
        step(server);
    }
    listen_once(client);
    SSL_CTX_free(client_ctx);
    SSL_CTX_free(server_ctx);
}

void rig_end_free(struct rig_end *client, struct rig_end *server) {
    SSL_free(client->ssl);
    SSL_free(server->ssl);
}
