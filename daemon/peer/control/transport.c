/* SPDX-License-Identifier: MIT */
/*
 * transport.c - sockets of peers.
 *
 * Messages are small and waited for, so no delay; an incoming peer that holds nothing is never
 * pinged by us, so the kernel's keepalive finds out when its host is gone.
 */
#include "daemon/peer/control/transport.h"
#include <event2/buffer.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_AT_ONCE (16u * 1024u) /* so that one busy peer does not starve the others */

static void transport_set(int fd, int level, int option, int value) {
    /* Each only improves matters; a socket without it still works. */
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

struct bufferevent *transport_new(struct event_base *base, int fd) {
    transport_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    transport_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    transport_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
    transport_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
    transport_set(fd, IPPROTO_TCP, TCP_KEEPCNT, 6);

    struct bufferevent *bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!bev) {
        close(fd);
        return NULL;
    }
    /* Not by a watermark: libevent 2.1 does not look whether it had memory for that. */
    bufferevent_set_max_single_read(bev, READ_AT_ONCE);
    return bev;
}

void transport_close(struct bufferevent *bev) {
    struct evbuffer *output = bufferevent_get_output(bev);
    bufferevent_disable(bev, EV_READ | EV_WRITE);
    evbuffer_unfreeze(output, 1); /* bufferevents keep it frozen but for their own writes */
    if (evbuffer_get_length(output))
        (void)evbuffer_write(output, bufferevent_getfd(bev));
    bufferevent_free(bev);
}
