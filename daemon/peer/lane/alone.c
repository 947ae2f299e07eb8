/* SPDX-License-Identifier: MIT */
/*
 * alone.c - "1000,1001", or "*" for everybody, as setting_check_uids lets it be.
 */
#include "daemon/peer/lane/alone.h"
#include <stdio.h>
#include <string.h>

bool lane_is_alone(const struct session *s) {
    const char *uids = s->state->config->peer_private_links;
    char number[16];
    if (!strcmp(uids, "*"))
        return true;
    size_t n = (size_t)snprintf(number, sizeof(number), "%u", (unsigned)s->uid);
    for (;;) {
        uids += strspn(uids, ", ");
        size_t length = strcspn(uids, ", ");
        if (length == 0)
            return false;
        if (length == n && !memcmp(uids, number, n))
            return true;
        uids += length;
    }
}
