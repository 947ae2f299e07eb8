/* SPDX-License-Identifier: MIT */
/* Every spelling of an address is the same sixteen bytes. */
#include "daemon/base/address.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t v4_of_ten[16] = {[10] = 0xff, [11] = 0xff, 10, 77, 0, 1};

Test(address, ipv4_is_v4_mapped_in_text_and_in_a_sockets_address) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = 7};
    uint8_t out[16];
    struct in6_addr parsed;
    memset(out, 0x55, sizeof(out));
    memset(&parsed, 0x55, sizeof(parsed));
    inet_pton(AF_INET, "10.77.0.1", &at.sin_addr);
    cr_assert(address_of_sockaddr((struct sockaddr *)&at, out));
    cr_assert_arr_eq(out, v4_of_ten, 16);
    cr_assert(address_parse("10.77.0.1", &parsed));
    cr_assert_arr_eq(parsed.s6_addr, v4_of_ten, 16);
    cr_assert(address_parse("::ffff:10.77.0.1", &parsed));
    cr_assert_arr_eq(parsed.s6_addr, v4_of_ten, 16);
}

Test(address, ipv6_is_as_it_is) {
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = 7};
    uint8_t out[16];
    struct in6_addr parsed;
    inet_pton(AF_INET6, "2001:db8::7", &at.sin6_addr);
    cr_assert(address_of_sockaddr((struct sockaddr *)&at, out));
    cr_assert_arr_eq(out, at.sin6_addr.s6_addr, 16);
    cr_assert(address_parse("2001:db8:0::7", &parsed));
    cr_assert_arr_eq(out, parsed.s6_addr, 16);
}

Test(address, what_is_neither_is_none) {
    const struct sockaddr at = {.sa_family = AF_UNIX};
    uint8_t out[16];
    struct in6_addr parsed;
    cr_assert_not(address_of_sockaddr(&at, out));
    cr_assert_not(address_parse("localhost", &parsed));
    cr_assert_not(address_parse("", &parsed));
}
