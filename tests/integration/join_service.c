/* SPDX-License-Identifier: MIT */
/*
 * join_service DIR: a node of a CA that does nothing but take those that join, one after the other.
 * Prints its port first, then a line for each: "NAME CODE TEXT". With it rdmactl cluster join is
 * tested against the service itself, without the daemon around it.
 */
#include "pki/context.h"
#include "pki/join_server.h"
#include <arpa/inet.h>
#include <openssl/err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void serve(SSL *ssl, const char *dir) {
    struct join_server server;
    struct join_outcome outcome = {0};
    struct join_bytes reply = {0};
    struct pki_peer peer;
    struct pki_error err = {0};
    uint8_t buf[1000];
    int n = 0, rc = JOIN_MORE;
    join_server_init(&server);
    if (SSL_accept(ssl) != 1)
        rc = pki_why(ssl, ERR_get_error(), &err);
    else if (pki_established(ssl, &peer, &err))
        rc = err.code;
    while (rc == JOIN_MORE && (n = SSL_read(ssl, buf, sizeof(buf))) > 0)
        rc = join_server_take(&server, buf, (size_t)n, &err);
    if (!rc) {
        X509 *shown = SSL_get1_peer_certificate(ssl);
        rc = join_server_answer(&server, dir, shown, (int64_t)time(NULL), &reply, &outcome);
        X509_free(shown);
    }
    if (!rc)
        (void)SSL_write(ssl, reply.data, (int)reply.size);
    printf("%s %d %s\n", outcome.name[0] ? outcome.name : "-", rc ? rc : outcome.code,
           rc ? err.text : outcome.text);
    fflush(stdout);
    join_bytes_free(&reply);
    join_server_fini(&server);
    ERR_clear_error();
}

int main(int argc, char **argv) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    struct pki_identity *id;
    struct pki_error err = {0};
    SSL_CTX *ctx;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (argc != 2 || pki_load(argv[1], &id, &err) || pki_server_context(id, &ctx, &err)) {
        fprintf(stderr, "join_service DIR: %s\n", err.text);
        return 1;
    }
    pki_identity_free(id);
    (void)signal(SIGPIPE, SIG_IGN);
    if (bind(listener, (struct sockaddr *)&at, size) || listen(listener, 64) ||
        getsockname(listener, (struct sockaddr *)&at, &size))
        return 1;
    printf("%u\n", (unsigned)ntohs(at.sin_port));
    fflush(stdout);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        struct timeval patience = {.tv_sec = 20};
        if (fd < 0)
            continue;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        SSL *ssl = SSL_new(ctx);
        if (ssl && SSL_set_fd(ssl, fd) == 1)
            serve(ssl, argv[1]);
        SSL_free(ssl);
        close(fd);
    }
}
