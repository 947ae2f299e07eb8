/* SPDX-License-Identifier: MIT */
/*
 * making.h - a ring is asked of the daemon for one that is to be made anew, without waiting for the
 * answer. For the completing side of that ring.
 */
#ifndef RDMAD_LIBCLIENT_MAKING_H
#define RDMAD_LIBCLIENT_MAKING_H

#include "libclient/ring/ring.h"
#include <rdmad/wire.h>

struct rdmad_ring_made {
    struct rdmad_ring_create_rep reply;
    int fds[RDMAD_RING_FDS]; /* whose it is: closes them */
    uint32_t resumes;        /* of the session: which daemon made it */
    bool lacks_fds;          /* the answer is an error: it is made, and has to be ended again */
};

/* Asks, unless the daemon was asked already. Returns its answer; as long as there is none
 * RDMAD_E_AGAIN, and then rdmad_making_waits. It waits for the one that was asked just now, for
 * some milliseconds, and for no other. */
int rdmad_making_ask(struct rdmad_ring *r, struct rdmad_ring_made *out);
/* Whether the daemon was asked, and has not answered as far as anybody has seen. */
bool rdmad_making_waits(const struct rdmad_ring *r);
/* Whether it has answered, by the deadline. */
bool rdmad_making_is_answered(struct rdmad_ring *r, uint64_t deadline_ns);
uint64_t rdmad_making_since_ns(const struct rdmad_ring *r);
/* The ring's end: what was asked for is ended, for which the answer is waited for, as of a call. */
void rdmad_making_end(struct rdmad_ring *r);
void rdmad_making_in_child(struct rdmad_ring *r);

/* The daemon that made it is not to keep what nobody has. */
void rdmad_making_undo(struct rdmad_session *s, const struct rdmad_ring_made *made);

#endif
