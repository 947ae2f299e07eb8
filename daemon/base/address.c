/* SPDX-License-Identifier: MIT */
#include "daemon/base/address.h"
#include "daemon/base/upper_fd.h"
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void from_v4(const struct in_addr *v4, uint8_t out[16]) {
    memset(out, 0, 10);
    out[10] = out[11] = 0xff;
    memcpy(out + 12, v4, 4);
}

bool address_parse(const char *text, struct in6_addr *out) {
    struct in_addr v4;
    if (inet_pton(AF_INET6, text, out) == 1)
        return true;
    if (inet_pton(AF_INET, text, &v4) != 1)
        return false;
    from_v4(&v4, out->s6_addr);
    return true;
}

bool address_of_sockaddr(const struct sockaddr *sa, uint8_t out[16]) {
    if (sa->sa_family == AF_INET6) {
        memcpy(out, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
        return true;
    }
    if (sa->sa_family != AF_INET)
        return false;
    from_v4(&((const struct sockaddr_in *)sa)->sin_addr, out);
    return true;
}

bool address_is_loopback(const struct sockaddr *sa) {
    struct in6_addr ip;
    if (!address_of_sockaddr(sa, ip.s6_addr))
        return false;
    return IN6_IS_ADDR_LOOPBACK(&ip) || (IN6_IS_ADDR_V4MAPPED(&ip) && ip.s6_addr[12] == 127);
}

unsigned address_look_up(const char *host, uint8_t (*out)[16], unsigned max) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    unsigned n = 0;
    if (!*host || getaddrinfo(host, NULL, &hints, &found))
        return 0;
    for (const struct addrinfo *a = found; a && n < max; a = a->ai_next)
        n += address_of_sockaddr(a->ai_addr, out[n]);
    freeaddrinfo(found);
    return n;
}

static socklen_t size_of(int family) {
    return family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

/* Binding to what no interface has: 0 or -1. */
static int allow_any(int fd, int family) {
    int one = 1;
    return family == AF_INET6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(one))
                              : setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &one, sizeof(one));
}

static int bind_one(const struct addrinfo *a, bool any) {
    int one = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
        (any && allow_any(fd, a->ai_family)) || bind(fd, a->ai_addr, a->ai_addrlen)) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return upper_fd(fd);
}

int address_bind(const struct addrinfo *all) {
    int fd = -1, failed = EADDRNOTAVAIL;
    for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
        fd = bind_one(a, false);
        if (fd < 0 && errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT)
            failed = errno;
    }
    if (fd < 0 && failed == EADDRNOTAVAIL)
        for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next)
            fd = bind_one(a, true);
    else if (fd < 0)
        errno = failed;
    return fd;
}

bool address_is_here(const struct sockaddr *sa) {
    struct sockaddr_storage at = {0};
    memcpy(&at, sa, size_of(sa->sa_family));
    /* Any port: a datagram socket's are not in our listener's way. */
    if (sa->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)&at)->sin6_port = 0;
    else
        ((struct sockaddr_in *)&at)->sin_port = 0;
    int fd = socket(sa->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno != EAFNOSUPPORT;
    bool here =
        bind(fd, (struct sockaddr *)&at, size_of(sa->sa_family)) == 0 || errno != EADDRNOTAVAIL;
    close(fd);
    return here;
}

static struct in6_addr source_of(struct in6_addr address) {
    if (!IN6_IS_ADDR_V4MAPPED(&address) && !IN6_IS_ADDR_LINKLOCAL(&address) &&
        !IN6_IS_ADDR_LOOPBACK(&address))
        memset(&address.s6_addr[8], 0, 8);
    return address;
}

struct in6_addr address_source(const char *text) {
    const struct in6_addr none = {0};
    struct in6_addr address;
    return address_parse(text, &address) ? source_of(address) : none;
}

struct in6_addr address_source_of(const struct sockaddr *sa) {
    const struct in6_addr none = {0};
    struct in6_addr address;
    return address_of_sockaddr(sa, address.s6_addr) ? source_of(address) : none;
}
