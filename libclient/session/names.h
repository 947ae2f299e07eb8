/* SPDX-License-Identifier: MIT */
/*
 * names.h - what is published, here or on another daemon.
 */
#ifndef RDMAD_LIBCLIENT_NAMES_H
#define RDMAD_LIBCLIENT_NAMES_H

#include <rdmad/rdmad.h>
#include <rdmad/wire.h>

/* As the program sees it. */
void rdmad_name_from(const struct rdmad_name_entry *from, struct rdmad_name *to);

/* Whose names, and which of them, into a request. */
int rdmad_names_scope(struct rdmad_session *s, const char *where, const char *prefix,
                      char to_where[RDMAD_URI_MAX + 1], char to_prefix[RDMAD_NAME_MAX + 1]);

#endif
