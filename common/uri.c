/* SPDX-License-Identifier: MIT */
/*
 * uri.c - lease URIs.
 *
 * One pass over the text with a cursor; each piece of the grammar has a function that takes its
 * piece or returns the sentence that says what is wrong with it. There is one spelling of every
 * lease, but for the case of the key's digits and of the host: no leading zeros, no other query
 * parameters, nothing percent-encoded.
 */
#include "common/uri.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
}

bool rdmad_name_ok(const char *name) {
    size_t n = 0;

    while (is_word(name[n]) && n <= RDMAD_NAME_MAX)
        n++;
    return name[n] == '\0' && n >= 1 && n <= RDMAD_NAME_MAX && name[0] != '.' &&
           strcmp(name, "lease") != 0;
}

/* Takes a decimal number without leading zeros, at most max. Returns false if there is none. */
static bool uri_number(const char **at, uint64_t max, uint64_t *out) {
    const char *p = *at;
    uint64_t value = 0;

    if (!is_digit(*p) || (*p == '0' && is_digit(p[1])))
        return false;
    for (; is_digit(*p); p++) {
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value) || value > max)
            return false;
    }
    *at = p;
    *out = value;
    return true;
}

/* Whether text is an IPv6 address, perhaps with a zone as in fe80::1%eth0. */
static bool is_ipv6(const char *text) {
    char address[INET6_ADDRSTRLEN];
    struct in6_addr ignored;
    size_t n = strcspn(text, "%");

    if (n >= sizeof(address))
        return false;
    memcpy(address, text, n);
    address[n] = '\0';
    if (text[n] == '%' && text[n + 1] == '\0')
        return false;
    for (const char *zone = text + n + (text[n] == '%'); *zone; zone++) {
        if (!is_word(*zone))
            return false;
    }
    return inet_pton(AF_INET6, address, &ignored) == 1;
}

/* Takes "[V6]" or a host name or IPv4 address. */
static const char *uri_host(const char **at, char host[RDMAD_HOST_MAX + 1]) {
    const char *p = *at;
    bool bracket = *p == '[';
    size_t n = 0;

    if (bracket)
        n = strcspn(++p, "]");
    else
        while (is_word(p[n]))
            n++;
    if (n == 0)
        return "the host is missing or has a character that no host name has";
    if (n > RDMAD_HOST_MAX)
        return "the host is longer than 255 characters";
    memcpy(host, p, n);
    host[n] = '\0';
    p += n;
    if (bracket) {
        if (*p++ != ']')
            return "the bracket around the IPv6 address is not closed";
        if (!is_ipv6(host))
            return "between the brackets is no IPv6 address";
    }
    *at = p;
    return NULL;
}

static const char *uri_hostport(const char **at, char host[RDMAD_HOST_MAX + 1], uint16_t *port) {
    const char *why = uri_host(at, host);
    uint64_t number;

    if (why)
        return why;
    if (**at != ':')
        return "the port is missing: write HOST:PORT, an IPv6 address in brackets";
    ++*at;
    if (!uri_number(at, UINT16_MAX, &number))
        return "the port is no number from 0 to 65535";
    *port = (uint16_t)number;
    return NULL;
}

const char *rdmad_hostport_parse(const char *text, char host[RDMAD_HOST_MAX + 1], uint16_t *port) {
    char h[RDMAD_HOST_MAX + 1];
    uint16_t number;
    const char *why = uri_hostport(&text, h, &number);

    if (why)
        return why;
    if (*text)
        return "something follows the port (an IPv6 address goes in brackets)";
    memcpy(host, h, strlen(h) + 1);
    *port = number;
    return NULL;
}

static int hex_value(char c) {
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Takes what follows "lease/": the number and the key. */
static const char *uri_lease(const char *p, struct rdmad_uri *out) {
    static const char query[] = "?key=";

    if (!uri_number(&p, UINT64_MAX, &out->lease) || out->lease == 0)
        return "the lease number is missing, 0, too large or has leading zeros";
    if (strncmp(p, query, sizeof(query) - 1) != 0)
        return "the lease's key is missing: ?key= and 32 hex digits";
    p += sizeof(query) - 1;
    for (size_t i = 0; i < RDMAD_KEY_BYTES; i++) {
        int high = hex_value(p[0]);
        int low = high < 0 ? -1 : hex_value(p[1]);
        if (low < 0)
            return "the lease's key is not 32 hex digits";
        out->key[i] = (uint8_t)(high << 4 | low);
        p += 2;
    }
    return *p ? "something follows the lease's key" : NULL;
}

static const char *uri_parse(const char *p, struct rdmad_uri *out) {
    static const char scheme[] = "rdmad://", lease[] = "lease/";

    if (strnlen(p, RDMAD_URI_MAX + 1) > RDMAD_URI_MAX)
        return "the URI is longer than 511 characters";
    if (strncmp(p, scheme, sizeof(scheme) - 1) != 0)
        return "the URI does not start with rdmad://";
    p += sizeof(scheme) - 1;
    if (*p != '/') {
        const char *why = uri_hostport(&p, out->host, &out->port);
        if (why)
            return why;
        if (out->port == 0)
            return "no daemon listens on port 0";
    }
    if (*p++ != '/')
        return "after the port must come /lease/ID?key=... or /NAME";
    if (strncmp(p, lease, sizeof(lease) - 1) == 0)
        return uri_lease(p + sizeof(lease) - 1, out);
    if (!rdmad_name_ok(p))
        return "the name is not 1 to 63 of A-Z a-z 0-9 . _ -, or starts with a dot, or is the "
               "word lease alone";
    memcpy(out->name, p, strlen(p) + 1);
    return NULL;
}

const char *rdmad_uri_parse(const char *text, struct rdmad_uri *out) {
    struct rdmad_uri u;
    const char *why;

    memset(&u, 0, sizeof(u));
    why = uri_parse(text, &u);
    if (!why)
        *out = u;
    return why;
}

int rdmad_uri_print(const struct rdmad_uri *u, char *buf, size_t size) {
    char where[RDMAD_HOST_MAX + 16] = "", key[2 * RDMAD_KEY_BYTES + 1];
    bool v6 = strchr(u->host, ':') != NULL;
    int n;

    if (u->host[0])
        snprintf(where, sizeof(where), "%s%s%s:%u", v6 ? "[" : "", u->host, v6 ? "]" : "",
                 (unsigned)u->port);
    if (u->name[0]) {
        n = snprintf(buf, size, "rdmad://%s/%s", where, u->name);
    } else {
        for (size_t i = 0; i < RDMAD_KEY_BYTES; i++)
            snprintf(key + 2 * i, 3, "%02x", u->key[i]);
        n = snprintf(buf, size, "rdmad://%s/lease/%llu?key=%s", where, (unsigned long long)u->lease,
                     key);
    }
    return n < 0 || (size_t)n >= size ? RDMAD_E_LENGTH : n;
}

const char *rdmad_hostport_print(const char *host, uint16_t port, char *buf, size_t size) {
    bool v6 = strchr(host, ':') != NULL;
    snprintf(buf, size, "%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "", port);
    return buf;
}
