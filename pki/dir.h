/* SPDX-License-Identifier: MIT */
/*
 * dir.h - the identity directory and those in it: opened, made, listed and locked with care.
 *
 * A directory belongs to root or to its user, who is the process's own, or, for root, whoever owns
 * it. Nobody else may write to it. What root writes for that user belongs to the user. So what
 * others can put there is refused, and a daemon that is not root can use what root has made for it.
 */
#ifndef RDMAD_PKI_DIR_H
#define RDMAD_PKI_DIR_H

#include "pki/error.h"
#include <stdbool.h>
#include <sys/types.h>

#define PKI_PATH_MAX 1024u /* of the directory's path, with the final NUL */

/* The file or directory is not there. Not an RDMAD_E_*: often that is no error. */
#define PKI_NOT_THERE 1

/* Names in the directory. */
#define PKI_NODE_CERT "node.crt"
#define PKI_NODE_KEY "node.key"
#define PKI_TRUST "trust"
#define PKI_REVOKED "revoked.crl"
#define PKI_CA_CERT "ca.crt"
#define PKI_CA_KEY "ca.key"
#define PKI_CA_ADDRESS "ca.address"
#define PKI_TOKENS "tokens"
#define PKI_ISSUED "issued"

struct pki_dir {
    int fd;
    uid_t owner; /* of what is written */
    gid_t group;
    char path[PKI_PATH_MAX]; /* for sentences */
};

/* Where the identity is when no setting says it: identity/ beside that configuration, or, where
 * that is directly in a directory called etc, in rdmad/identity/ there. config NULL or "": in
 * /etc/rdmad/identity. */
const char *pki_default_dir(const char *config, char buf[PKI_PATH_MAX]);

/* Opens the directory and checks it. 0, PKI_NOT_THERE or RDMAD_E_*. */
int pki_dir_open(const char *path, struct pki_dir *out, struct pki_error *err);
/* Makes it first if it is not there, mode 0700, for the user `rdmad` if root does so and there is
 * that user, with the directories above it (0755). */
int pki_dir_make(const char *path, struct pki_dir *out, struct pki_error *err);
/* The same for a directory in one that is open. make: with mode 0700, or 0755 if open_to_all. */
int pki_dir_enter(const struct pki_dir *in, const char *name, struct pki_dir *out,
                  struct pki_error *err);
int pki_dir_enter_or_make(const struct pki_dir *in, const char *name, bool open_to_all,
                          struct pki_dir *out, struct pki_error *err);
void pki_dir_close(struct pki_dir *dir);
/* What names it has lasts over a crash when this returns 0. */
int pki_dir_flush(const struct pki_dir *dir, struct pki_error *err);

/* The names in the directory that do not begin with a dot and end in suffix, at most max (more:
 * RDMAD_E_LIMIT), in order of name; the caller frees them with pki_names_free. */
struct pki_names {
    unsigned count;
    char **names;
};
int pki_names_read(const struct pki_dir *dir, const char *suffix, unsigned max,
                   struct pki_names *out, struct pki_error *err);
void pki_names_free(struct pki_names *names);

/* Who holds it is the only one that changes what the CA has given out. Waits at most PKI_LOCK_MS
 * for another holder: then RDMAD_E_BUSY. Returns a descriptor in *lock; pki_unlock closes it. */
#define PKI_LOCK_MS 5000u
int pki_lock(const struct pki_dir *dir, int *lock, struct pki_error *err);
void pki_unlock(int lock);

#endif
