/* SPDX-License-Identifier: MIT */
/*
 * manager_socket.c - a datagram, from a socket of its own: what is left in one that is closed
 * arrives all the same.
 */
#include "daemon/manager_socket.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A path, or "@" and an abstract name. Returns its length; 0: nobody wants to hear anything. */
static socklen_t manager_address(struct sockaddr_un *at) {
    const char *name = getenv("NOTIFY_SOCKET");
    size_t length = name ? strlen(name) : 0;
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (length < 2 || length >= sizeof(at->sun_path) || (name[0] != '/' && name[0] != '@'))
        return 0;
    memcpy(at->sun_path, name, length);
    if (name[0] == '@')
        at->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

bool manager_socket_send(const char *text) {
    struct sockaddr_un at;
    socklen_t length = manager_address(&at);
    if (!length)
        return true;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    ssize_t sent = sendto(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
                          (const struct sockaddr *)&at, length);
    bool later = sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM);
    close(fd);
    return !later;
}
