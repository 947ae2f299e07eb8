/* SPDX-License-Identifier: MIT */
/*
 * scope.h - for whom a lease or a service is.
 *
 * Whoever comes is known by what the kernel says: the uid of a session's socket, the address of a
 * peer's; and a peer by the name that its certificate proves, too. Addresses are compared as
 * numbers, so that every spelling of one is the same.
 *
 * What has a name is for sessions of the same tenant (session.h) only, and for peers. So is what is
 * for a uid. What has no name is for whoever was given the URI with its secret.
 */
#ifndef RDMAD_STATE_SCOPE_H
#define RDMAD_STATE_SCOPE_H

#include "daemon/base/error.h"
#include <rdmad/abi.h>
#include <stdbool.h>
#include <stdint.h>

struct session;

/* Whoever attaches or connects: a session of this daemon, or a peer at an address. */
struct lessee {
    struct session
        *session; /* NULL: a peer. With peer set, too: a session of ours that comes by the device */
    uint64_t peer;       /* 0: a session */
    const char *address; /* the peer's IP address as its socket tells it */
    const char *node; /* the peer's name as its certificate proves it; NULL or "": it proves none */
};

struct scope {
    uint32_t kind; /* enum rdmad_scope */
    uint32_t uid;
    const char *peer; /* lives as long as whatever the scope is of */
    uint32_t tenant;  /* the owner's; SCOPE_TENANTS_ALL: for sessions of all */
};
#define SCOPE_TENANTS_ALL UINT32_MAX

/* Checks a scope as asked for. */
int scope_validate(const struct scope *scope, struct error *err);
/* Whether the scope admits who. what names the object in the error ("lease 7"). */
int scope_check(const struct scope *scope, const char *what, const struct lessee *who,
                struct error *err);
bool scope_admits(const struct scope *scope, const struct lessee *who);

/* Whether a session sees that there is such a thing at all. */
bool scope_shows(const struct scope *scope, const struct session *s);

/* Whom a scope admits, in a form that can be compared as bytes: scopes of one class admit the same.
 */
struct scope_class {
    uint32_t kind, uid, tenant;
    uint8_t address[16];
    char node[RDMAD_NAME_MAX + 1];
};
struct scope_class scope_class(const struct scope *scope);
/* The classes that admit who; returns how many. */
#define SCOPE_CLASSES 3u
unsigned scope_classes(const struct lessee *who, struct scope_class out[SCOPE_CLASSES]);

#endif
