/* SPDX-License-Identifier: MIT */
/*
 * uri.h - lease URIs, parsed and printed.
 *
 *   rdmad://HOST:PORT/lease/ID?key=32 hex digits    a lease by number and secret
 *   rdmad://HOST:PORT/NAME                          a published lease
 *   rdmad:///...                                    either, on the same daemon
 *
 * HOST is a name, an IPv4 address or an IPv6 address in brackets, perhaps with a zone. Nothing here
 * resolves or allocates.
 */
#ifndef RDMAD_COMMON_URI_H
#define RDMAD_COMMON_URI_H

#include <rdmad/abi.h>
#include <stdbool.h>

#define RDMAD_HOST_MAX 255u

struct rdmad_uri {
    char host[RDMAD_HOST_MAX + 1]; /* "" : the same daemon; brackets removed */
    uint16_t port;                 /* 0 with an empty host */
    uint64_t lease;                /* 0: by name */
    uint8_t key[RDMAD_KEY_BYTES];
    char name[RDMAD_NAME_MAX + 1]; /* "" : by number */
};

/* Returns NULL and fills *out, or a static sentence that says what is wrong with text. */
const char *rdmad_uri_parse(const char *text, struct rdmad_uri *out);

/* Prints u; returns the length, or RDMAD_E_LENGTH when it does not fit in size bytes. */
int rdmad_uri_print(const struct rdmad_uri *u, char *buf, size_t size);

/* Whether name may be published: 1 to RDMAD_NAME_MAX of [A-Za-z0-9._-], not starting with '.'.
 * The word "lease" is taken. */
bool rdmad_name_ok(const char *name);

/* Splits "HOST:PORT" or "[V6]:PORT". Returns NULL or a sentence. Port 0 is allowed, for those who
 * listen and let the kernel choose; a URI refuses it. */
const char *rdmad_hostport_parse(const char *text, char host[RDMAD_HOST_MAX + 1], uint16_t *port);
/* The other way; IPv6 addresses get their brackets. Returns buf. */
const char *rdmad_hostport_print(const char *host, uint16_t port, char *buf, size_t size);

#endif
