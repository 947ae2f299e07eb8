/* SPDX-License-Identifier: MIT */
/*
 * metrics_at.h - where metrics are answered, as metrics.listen says: a port of loopback, the socket
 * of the runtime directory ("unix"), both in any order with a comma between them, or nowhere ("").
 */
#ifndef RDMAD_CONFIG_METRICS_AT_H
#define RDMAD_CONFIG_METRICS_AT_H

#include "common/uri.h"
#include <stdbool.h>
#include <stdint.h>

struct metrics_at {
    bool local;                    /* metrics.sock */
    char host[RDMAD_HOST_MAX + 1]; /* an address; "": no port */
    uint16_t port;                 /* 0: any free one */
};

/* NULL, or what is wrong; then out is not to be used. */
const char *metrics_at_parse(const char *text, struct metrics_at *out);

#endif
