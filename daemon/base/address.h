/* SPDX-License-Identifier: MIT */
/*
 * address.h - IP addresses as numbers, so that every spelling of one is the same.
 */
#ifndef RDMAD_BASE_ADDRESS_H
#define RDMAD_BASE_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>

/* IPv4 as v4-mapped IPv6, so that one comparison does. False: text is no IP address, and *out says
 * nothing. */
bool address_parse(const char *text, struct in6_addr *out);

#endif
