/* SPDX-License-Identifier: MIT */
/*
 * init.h - `cluster init`: a CA and the identity of the node that has it.
 */
#ifndef RDMAD_PKI_INIT_H
#define RDMAD_PKI_INIT_H

#include "pki/error.h"
#include <stdint.h>

struct pki_init {
    const char *path;    /* of the identity directory, which is made if need be */
    const char *name;    /* of this node */
    const char *address; /* HOST:PORT at which nodes that join find this one's daemon */
    unsigned days;       /* that this node's certificate is good for, until it is renewed */
    int64_t now;         /* seconds since 1970 */
};

/* Writes node.crt last, so there is a whole identity or none; one that was broken off goes on with
 * the CA that it has made. RDMAD_E_EXISTS: there is an identity already, which stays. */
int pki_init(const struct pki_init *init, struct pki_error *err);

#endif
