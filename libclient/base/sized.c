/* SPDX-License-Identifier: MIT */
/*
 * sized.c - the one way in which structs cross between versions.
 */
#include "libclient/base/sized.h"
#include "libclient/base/error.h"
#include <rdmad/rdmad.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROWTH_MAX 4096u /* no struct will ever be as much larger than it is now */

/* For a struct that has not grown since version 0.1; one that has names its size of then. */
#define SIZED(what, INIT)                                                                  \
    const struct rdmad_sized rdmad_sized_##what = {"rdmad_" #what, "RDMAD_" #INIT "_INIT", \
                                                   sizeof(struct rdmad_##what),            \
                                                   sizeof(struct rdmad_##what)}
const struct rdmad_sized rdmad_sized_options = {"rdmad_options", "RDMAD_OPTIONS_INIT",
                                                offsetof(struct rdmad_options, call_timeout_ms),
                                                sizeof(struct rdmad_options)};
SIZED(lease_terms, LEASE_TERMS);
SIZED(service_terms, SERVICE_TERMS);
SIZED(session_info, SESSION_INFO);
SIZED(lease_info, LEASE_INFO);
SIZED(lease_audit, LEASE_AUDIT);
SIZED(channel_info, CHANNEL_INFO);
SIZED(channel_audit, CHANNEL_AUDIT);
const struct rdmad_sized rdmad_sized_incoming = {"rdmad_incoming", "RDMAD_INCOMING_INIT",
                                                 offsetof(struct rdmad_incoming, flags),
                                                 sizeof(struct rdmad_incoming)};
SIZED(event, EVENT);
SIZED(name, NAME);
SIZED(message, MESSAGE);

/* All of these structs begin with it. */
static size_t sized_size(const void *any) {
    size_t size;
    memcpy(&size, any, sizeof(size));
    return size;
}

static bool sized_possible(const struct rdmad_sized *what, size_t size) {
    return size >= what->first && size <= what->known + GROWTH_MAX;
}

static const char sentence[] =
    "%s.size is %zu where this librdmad %s knows %zu (and any from %zu): start from %s";

int rdmad_sized_check(const struct rdmad_session *s, const struct rdmad_sized *what,
                      const void *out) {
    if (!out)
        return rdmad_fail(s, RDMAD_E_INVAL, "there is no struct %s to be filled: it is NULL",
                          what->name);
    if (!sized_possible(what, sized_size(out)))
        return rdmad_fail(s, RDMAD_E_INVAL, sentence, what->name, sized_size(out), RDMAD_VERSION,
                          what->known, what->first, what->init);
    return 0;
}

void rdmad_sized_must(const struct rdmad_sized *what, const void *out, const char *call) {
    if (rdmad_sized_check(NULL, what, out) == 0)
        return;
    fprintf(stderr, "rdmad misuse: %s: %s\n", call, rdmad_last_error(NULL));
    abort();
}

void rdmad_sized_fill(const struct rdmad_sized *what, void *out, const void *full) {
    const size_t own = sizeof(size_t); /* the program's size stays */
    size_t size = sized_size(out), both = size < what->known ? size : what->known;
    memcpy((char *)out + own, (const char *)full + own, both - own);
    memset((char *)out + both, 0, size - both);
}

int rdmad_sized_read(const struct rdmad_session *s, const struct rdmad_sized *what, const void *in,
                     void *out) {
    const size_t own = sizeof(size_t);
    size_t size;

    if (!in)
        return 0;
    if (rdmad_sized_check(s, what, in))
        return RDMAD_E_INVAL;
    size = sized_size(in);
    for (size_t i = what->known; i < size; i++) {
        if (((const char *)in)[i])
            return rdmad_fail(s, RDMAD_E_INVAL,
                              "%s asks for something that this librdmad %s does not know (byte %zu "
                              "of %zu): leave it out, or install a newer one",
                              what->name, RDMAD_VERSION, i, size);
    }
    memcpy((char *)out + own, (const char *)in + own,
           (size < what->known ? size : what->known) - own);
    return 0;
}
