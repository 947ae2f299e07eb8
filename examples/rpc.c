/* SPDX-License-Identifier: MIT */
/*
 * rpc - request and response on a channel.
 *
 *   rpc serve NAME       answers whoever connects to NAME: the request in capitals
 *   rpc call URI TEXT    asks URI (rdmad://HOST:PORT/NAME) and prints the answer
 *
 * The immediate value of a request comes back with its response, so a client with several under way
 * knows which is which. Each client has a thread of its own in the server, with blocking calls; one
 * that is slow to take its answers slows nobody else. examples/echo_epoll.c serves from one thread.
 */
#include <ctype.h>
#include <err.h>
#include <pthread.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 65536 };

static rdmad_session *session;
static rdmad_pool *pool;

static void *serve_one(void *channel) {
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    char *text = rdmad_alloc(pool, MOST);

    while (text && rdmad_recv(channel, text, MOST, -1, &m) == 0) {
        for (size_t i = 0; i < m.length; i++)
            text[i] = (char)toupper((unsigned char)text[i]);
        if (rdmad_send_imm(channel, text, m.length, m.imm))
            break;
    }
    rdmad_channel_close(channel);
    rdmad_free(pool, text);
    return NULL;
}

static void serve(const char *name) {
    rdmad_service *service;
    rdmad_channel *channel;
    pthread_t thread;

    if (rdmad_listen(session, name, NULL, &service))
        errx(1, "%s", rdmad_last_error(session));
    printf("%s\n", rdmad_service_uri(service));
    fflush(stdout);
    while (rdmad_accept(service, NULL, -1, &channel) == 0) {
        if (pthread_create(&thread, NULL, serve_one, channel))
            rdmad_channel_abort(channel);
        else
            pthread_detach(thread);
    }
    errx(1, "%s", rdmad_last_error(session));
}

static void call(const char *uri, const char *text) {
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    rdmad_channel *channel;
    char *buf = rdmad_alloc(pool, MOST);
    size_t length = (size_t)snprintf(buf, MOST, "%s", text);

    if (length >= MOST)
        errx(2, "a request has less than %d bytes", MOST);
    if (rdmad_connect(session, uri, RDMAD_CHANNEL_RELIABLE, 0, &channel) ||
        rdmad_send_imm(channel, buf, length, 7) || rdmad_recv(channel, buf, MOST, 5000, &m))
        errx(1, "%s", rdmad_last_error(session));
    if (m.imm != 7)
        errx(1, "this answers another request");
    printf("%.*s\n", (int)m.length, buf);
    rdmad_channel_close(channel);
}

int main(int argc, char **argv) {
    if (rdmad_open(NULL, &session) || rdmad_pool_create(session, 16 << 20, 0, &pool))
        errx(1, "%s", rdmad_last_error(NULL));
    if (argc == 3 && !strcmp(argv[1], "serve"))
        serve(argv[2]);
    else if (argc == 4 && !strcmp(argv[1], "call"))
        call(argv[2], argv[3]);
    else
        errx(2, "usage: rpc serve NAME | rpc call URI TEXT");
    rdmad_close(session);
    return 0;
}
