/* SPDX-License-Identifier: MIT */
/*
 * metrics_at.c - one place after the other, each once.
 */
#include "daemon/config/metrics_at.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define PLACE_MAX 64u

/* An address, not a name: nothing is looked up for it. */
static bool is_loopback(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static const char *metrics_place_parse(const char *place, struct metrics_at *out) {
    if (!strcmp(place, "unix")) {
        if (out->local)
            return "has unix twice";
        out->local = true;
        return NULL;
    }
    if (*out->host)
        return "has two ports; there can be one, and unix beside it";
    const char *wrong = rdmad_hostport_parse(place, out->host, &out->port);
    if (wrong)
        return wrong;
    return is_loopback(out->host)
               ? NULL
               : "must be an address of loopback and a port, or unix, or both with a comma between "
                 "them";
}

const char *metrics_at_parse(const char *text, struct metrics_at *out) {
    const char *wrong = NULL;
    *out = (struct metrics_at){0};
    if (!*text)
        return NULL;
    for (bool more = true; more && !wrong;) {
        char place[PLACE_MAX];
        size_t n = strcspn(text, ",");
        if (n >= sizeof(place))
            return "is too long for an address of loopback and a port";
        snprintf(place, sizeof(place), "%.*s", (int)n, text);
        wrong = metrics_place_parse(place, out);
        more = text[n] == ',';
        text += n + more;
        text += more && *text == ' ';
    }
    return wrong;
}
