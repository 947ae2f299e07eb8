/* SPDX-License-Identifier: MIT */
/*
 * tls_pair.c - OpenSSL by itself: one process writes to another over loopback by SSL_write and
 * SSL_read, TLS 1.3 with AES-128-GCM, blocking sockets, one connection.
 *
 *     bench_tls_pair BYTES SECONDS
 *
 * Prints one line: GB/s as the receiver saw them. The session is set up by a key that both have,
 * so there are no certificates; records are the same as with them.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char cubic[] = "cubic";

static void must(int good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "bench_tls_pair: %s\n", what);
    exit(1);
}

static SSL_SESSION *session(SSL *ssl) {
    static const unsigned char key[32] = {1}, id[] = {0x13, 0x01};
    SSL_SESSION *s = SSL_SESSION_new();
    must(s && SSL_SESSION_set1_master_key(s, key, sizeof key) &&
             SSL_SESSION_set_cipher(s, SSL_CIPHER_find(ssl, id)) &&
             SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION),
         "no session");
    return s;
}

static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *size,
                   SSL_SESSION **out) {
    (void)md;
    *id = (const unsigned char *)"bench";
    *size = 5;
    *out = session(ssl);
    return 1;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t size, SSL_SESSION **out) {
    (void)id, (void)size;
    *out = session(ssl);
    return 1;
}

static SSL *on(int fd) {
    int one = 1;
    SSL_CTX *c = SSL_CTX_new(TLS_method());
    must(c && SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) &&
             SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256"),
         "no context");
    SSL_CTX_set_psk_use_session_callback(c, use_key);
    SSL_CTX_set_psk_find_session_callback(c, find_key);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cubic, sizeof cubic - 1);
    SSL *ssl = SSL_new(c);
    must(ssl && SSL_set_fd(ssl, fd), "no connection");
    return ssl;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Until it is killed. */
static void write_all(const struct sockaddr_in *to, int bytes) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char *from = calloc(1, (size_t)bytes);
    must(fd >= 0 && from && !connect(fd, (const struct sockaddr *)to, sizeof *to), "no connection");
    SSL *ssl = on(fd);
    must(SSL_connect(ssl) == 1, "no handshake");
    while (SSL_write(ssl, from, bytes) == bytes)
        ;
    exit(0);
}

static double read_all(int listener, int bytes, double seconds) {
    int fd = accept(listener, NULL, NULL);
    char *to = malloc((size_t)bytes);
    must(fd >= 0 && to, "no connection");
    SSL *ssl = on(fd);
    must(SSL_accept(ssl) == 1, "no handshake");
    uint64_t all = 0;
    double warm = now() + seconds / 10, end = warm + seconds, at;
    while ((at = now()) < end) {
        int n = SSL_read(ssl, to, bytes);
        must(n > 0, "the stream ended");
        all = at < warm ? 0 : all + (uint64_t)n;
    }
    return (double)all / (at - warm) / 1e9;
}

int main(int argc, char **argv) {
    must(argc == 3, "usage: bench_tls_pair BYTES SECONDS");
    int bytes = atoi(argv[1]);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    must(bytes > 0 && listener >= 0 && !bind(listener, (struct sockaddr *)&a, sizeof a) &&
             !listen(listener, 1) && !getsockname(listener, (struct sockaddr *)&a, &size),
         "no listener");
    signal(SIGPIPE, SIG_IGN);
    pid_t writer = fork();
    must(writer >= 0, "no process");
    if (writer == 0)
        write_all(&a, bytes);
    double rate = read_all(listener, bytes, atof(argv[2]));
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    printf("%.4f\n", rate);
    return 0;
}
