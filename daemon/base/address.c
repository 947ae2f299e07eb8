/* SPDX-License-Identifier: MIT */
#include "daemon/base/address.h"
#include <arpa/inet.h>
#include <string.h>

bool address_parse(const char *text, struct in6_addr *out) {
    struct in_addr v4;
    if (inet_pton(AF_INET6, text, out) == 1)
        return true;
    if (inet_pton(AF_INET, text, &v4) != 1)
        return false;
    memset(out, 0, sizeof(*out));
    out->s6_addr[10] = out->s6_addr[11] = 0xff;
    memcpy(&out->s6_addr[12], &v4, sizeof(v4));
    return true;
}
