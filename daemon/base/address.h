/* SPDX-License-Identifier: MIT */
/*
 * address.h - IP addresses as numbers, so that every spelling of one is the same; and binding to
 * one, which need not be there yet.
 */
#ifndef RDMAD_BASE_ADDRESS_H
#define RDMAD_BASE_ADDRESS_H

#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>

/* IPv4 as v4-mapped IPv6, so that one comparison does. False: text is no IP address, and *out says
 * nothing. */
bool address_parse(const char *text, struct in6_addr *out);
/* The same for a socket's address. False: it is neither IPv4 nor IPv6. */
bool address_of_sockaddr(const struct sockaddr *sa, uint8_t out[16]);

/* A TCP socket bound to the first of the addresses that can be bound. If none can be only because
 * no interface has it yet (a network that comes up later, an address that moves between machines),
 * the first is bound all the same: the socket is reached as soon as an interface has it. -1: errno.
 */
int address_bind(const struct addrinfo *all);
/* Whether it reaches this host alone, from this host. */
bool address_is_loopback(const struct sockaddr *sa);
/* Whether an interface has it now, or it is every address. */
bool address_is_here(const struct sockaddr *sa);

/* The addresses that a host's name or number stands for, as address_parse has them; at most max. It
 * asks the system's resolver, which may take as long as its nameservers: only to be called at the
 * start, and on threads that may hang (base/resolve.h). */
unsigned address_look_up(const char *host, uint8_t (*out)[16], unsigned max);

/* What is taken for one host: an IPv4 address, or the /64 network of an IPv6 address, since a host
 * has all of it. Zeros if text is no address. */
struct in6_addr address_source(const char *text);
/* The same of a socket's address. Zeros if it is neither IPv4 nor IPv6. */
struct in6_addr address_source_of(const struct sockaddr *sa);

#endif
