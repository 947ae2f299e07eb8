/* SPDX-License-Identifier: MIT */
/*
 * versions.h - which versions of a protocol somebody speaks: a range without holes.
 *
 * Two that meet use the highest that both speak (docs/ARCHITECTURE.md, "Versions").
 */
#ifndef RDMAD_COMMON_VERSIONS_H
#define RDMAD_COMMON_VERSIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct rdmad_versions {
    uint16_t lowest, highest;
};

/* Of the client socket, in this build: RDMAD_ABI_OLDEST to RDMAD_ABI_VERSION. */
extern const struct rdmad_versions rdmad_abi_versions;

static inline bool rdmad_versions_have(struct rdmad_versions v, uint16_t one) {
    return one >= v.lowest && one <= v.highest;
}

/* The highest that both speak; 0: there is none. */
static inline uint16_t rdmad_versions_common(struct rdmad_versions a, struct rdmad_versions b) {
    uint16_t highest = a.highest < b.highest ? a.highest : b.highest;
    uint16_t lowest = a.lowest > b.lowest ? a.lowest : b.lowest;
    return highest >= lowest ? highest : 0;
}

#define RDMAD_VERSIONS_TEXT 32u
/* "version 2", "versions 2 to 4" */
static inline const char *rdmad_versions_print(struct rdmad_versions v,
                                               char out[RDMAD_VERSIONS_TEXT]) {
    if (v.lowest == v.highest)
        snprintf(out, RDMAD_VERSIONS_TEXT, "version %u", v.highest);
    else
        snprintf(out, RDMAD_VERSIONS_TEXT, "versions %u to %u", v.lowest, v.highest);
    return out;
}

#endif
