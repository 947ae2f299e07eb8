/* SPDX-License-Identifier: MIT */
/*
 * sized.h - structs of the interface that may grow: between a program and a library of different
 * versions, the size that comes first in each says how much both know.
 *
 * Structs that the program gives: an older program's is shorter, and the fields that it lacks have
 * the values of INIT; a newer one's is longer, and is accepted if the fields that are not known
 * here are zero. Structs that the library fills: the fields that both know are filled; the rest of
 * a newer program's struct is zero, and no byte beyond an older one's is touched. Fields are only
 * ever appended.
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

/* Reads in over out, which holds the defaults and has the size known here. in NULL: all defaults.
 */
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
