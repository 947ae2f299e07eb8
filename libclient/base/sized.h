/* SPDX-License-Identifier: MIT */
/*
 * sized.h - structs of the interface that may grow: between a program and a library of different
 * versions, the size that comes first in each says how much both know.
 *
 * What the program gives: an older program's is shorter, and what it lacks stays as its INIT has
 * it; a newer one's is longer, and is taken as long as it asks for nothing that is not known here
 * (what is beyond is zero). What the library fills: as much as both know; the rest of a newer
 * program's struct is zero, and no byte beyond an older one's is touched. Fields are only ever
 * appended.
 *
 * A size that no version can have means that the struct was not initialized, and is refused before
 * anything is done.
 */
#ifndef RDMAD_LIBCLIENT_SIZED_H
#define RDMAD_LIBCLIENT_SIZED_H

#include <stddef.h>

struct rdmad_session;

struct rdmad_sized {
    const char *name;
    const char *init;
    size_t first; /* its size in the first version */
    size_t known; /* here */
};

extern const struct rdmad_sized rdmad_sized_options, rdmad_sized_lease_terms,
    rdmad_sized_service_terms, rdmad_sized_session_info, rdmad_sized_lease_info,
    rdmad_sized_lease_audit, rdmad_sized_channel_info, rdmad_sized_channel_audit,
    rdmad_sized_incoming, rdmad_sized_event, rdmad_sized_name, rdmad_sized_message;

/* out holds the defaults, and is of the size known here. in may be NULL: all default. */
int rdmad_sized_read(const struct rdmad_session *s, const struct rdmad_sized *what, const void *in,
                     void *out);
/* RDMAD_E_INVAL with a sentence when out cannot be filled. */
int rdmad_sized_check(const struct rdmad_session *s, const struct rdmad_sized *what,
                      const void *out);
/* The same for calls that return nothing: ends the program. */
void rdmad_sized_must(const struct rdmad_sized *what, const void *out, const char *call);
/* out was checked; full is of the size known here. */
void rdmad_sized_fill(const struct rdmad_sized *what, void *out, const void *full);

#endif
