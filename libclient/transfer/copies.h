/* SPDX-License-Identifier: MIT */
/*
 * copies.h - a session's small pool, for transfers of memory that is in no pool.
 */
#ifndef RDMAD_LIBCLIENT_COPIES_H
#define RDMAD_LIBCLIENT_COPIES_H

struct rdmad_copies;
struct rdmad_session;

int rdmad_copies_new(struct rdmad_session *s);
void rdmad_copies_free(struct rdmad_copies *c);

#endif
