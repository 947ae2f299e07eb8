/* SPDX-License-Identifier: MIT */
/*
 * identity.h - the certificate by which other daemons know this one, and whom it trusts: loaded at
 * the start, and again when its files have changed or somebody asks for it.
 *
 * What is loaded replaces what was there as a whole, or not at all: files that cannot be used leave
 * the old identity in its place, and the log says why, once; they are tried again. An identity that
 * is gone from the disk stays until the daemon ends, since without one it would talk in clear. The
 * files are looked at every IDENTITY_LOOK_NS: a fixed number of stat calls. What happens to
 * connections then is peer/'s.
 *
 * It warns, in the log and wherever it is shown, an hour after the certificate's renewal was due
 * (pki_renewal_time), but not before thirty days are left; and again at seven days and at one.
 */
#ifndef RDMAD_STATE_IDENTITY_H
#define RDMAD_STATE_IDENTITY_H

#include "daemon/base/error.h"
#include "daemon/state/state.h"

#define IDENTITY_LOOK_NS (5 * NSEC_PER_SEC)
#define IDENTITY_AGAIN_NS (60 * NSEC_PER_SEC) /* for files that are wrong and have not changed */

struct identity;
struct pki_identity; /* pki/identity.h */
struct ssl_ctx_st;

/* dir: where it is, if there is one. changed is called after another was loaded. On success
 * st->identity is set, also where there is none yet; it is the caller's to free. */
int identity_start(struct state *st, const char *dir, void (*changed)(struct state *st),
                   struct error *err);
void identity_stop(struct state *st);

/* Reads it again, if the files are not those that were read last or if forced. */
int identity_reload(struct state *st, bool forced, struct error *err);

/* NULL: this node has none. It stays the identity's, until another is loaded. */
const struct pki_identity *identity_of(const struct state *st);
/* Another number for each that is loaded. */
uint64_t identity_number(const struct state *st);
/* The SSL_CTX for connections that we accept, or dial; likewise. */
struct ssl_ctx_st *identity_tls(const struct state *st, bool accepts);

/* What whoever operates this node should know: that the certificate expires soon, or that the files
 * there are not used; "" if there is nothing. */
const char *identity_warning(const struct state *st, char buf[RDMAD_TEXT_MAX + 1]);
const char *identity_dir(const struct state *st); /* "": none is configured (tests) */

#endif
