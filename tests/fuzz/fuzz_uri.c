/* SPDX-License-Identifier: MIT */
/* Whatever parses must print and parse to the same lease again. */
#include "common/uri.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[1024], printed[RDMAD_URI_MAX + 1], host[RDMAD_HOST_MAX + 1];
    struct rdmad_uri u, again;
    uint16_t port;

    if (size >= sizeof(text))
        return -1;
    memcpy(text, data, size);
    text[size] = '\0';
    (void)rdmad_hostport_parse(text, host, &port);
    if (rdmad_uri_parse(text, &u) == NULL &&
        (rdmad_uri_print(&u, printed, sizeof(printed)) < 0 || rdmad_uri_parse(printed, &again) ||
         memcmp(&u, &again, sizeof(u)) != 0))
        abort();
    return 0;
}
