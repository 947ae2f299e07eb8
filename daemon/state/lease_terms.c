/* SPDX-License-Identifier: MIT */
/*
 * lease_terms.c - what may be granted: each term that is not possible has a sentence of its own.
 */
#include "daemon/state/lease_terms.h"
#include "common/uri.h"
#include "daemon/base/clock.h"
#include "daemon/state/pool.h"
#include <inttypes.h>
#include <stdio.h>

static int check_ttl(const struct state *st, uint64_t ttl_ns, struct error *err) {
    uint64_t max_ms = st->config->lease_max_ttl_ms;
    if (ttl_ns == 0)
        return error_set(err, RDMAD_E_INVAL, "a lease's ttl must be at least 1 ns");
    if (ttl_ns / NSEC_PER_MSEC >= max_ms && ttl_ns > max_ms * NSEC_PER_MSEC)
        return error_set(err, RDMAD_E_LIMIT,
                         "a ttl of %" PRIu64 " ms was asked, lease.max_ttl_ms is %" PRIu64
                         "; ask for less and renew",
                         ttl_ns / NSEC_PER_MSEC, max_ms);
    return 0;
}

struct scope lease_scope(const struct lease_terms *t) {
    bool walled = t->name[0] || t->scope == RDMAD_SCOPE_UID;
    return (struct scope){.kind = t->scope,
                          .uid = t->scope_uid,
                          .peer = t->scope_peer,
                          .tenant = walled ? t->tenant : SCOPE_TENANTS_ALL};
}

static const char *rights_words(uint32_t rights) {
    static const char *const words[] = {
        [RDMAD_RIGHT_READ] = "to read",
        [RDMAD_RIGHT_WRITE] = "to write",
        [RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE] = "to read and write",
        [RDMAD_RIGHT_ATOMIC] = "for atomics",
        [RDMAD_RIGHT_READ | RDMAD_RIGHT_ATOMIC] = "to read and for atomics",
        [RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC] = "to write and for atomics",
        [RDMAD_RIGHTS_DEFAULT | RDMAD_RIGHT_ATOMIC] = "to read and write and for atomics",
    };
    const char *found = words[rights & (RDMAD_RIGHTS_DEFAULT | RDMAD_RIGHT_ATOMIC)];
    return found ? found : "for nothing";
}

const char *lease_words(const struct lease_terms *t, char words[LEASE_WORDS]) {
    char uid[16];
    snprintf(uid, sizeof(uid), "uid %" PRIu32, t->scope_uid);
    snprintf(words, LEASE_WORDS, "%s%s, for %s%s%s%s%s", rights_words(t->rights),
             t->rights & RDMAD_RIGHT_DELEGATE ? " and to hand on" : "",
             t->scope == RDMAD_SCOPE_UID    ? uid
             : t->scope == RDMAD_SCOPE_PEER ? "the node "
                                            : "anybody",
             t->scope == RDMAD_SCOPE_PEER ? t->scope_peer : "", t->name[0] ? ", named \"" : "",
             t->name, t->name[0] ? "\"" : "");
    return words;
}

/* Renewals cost, and not only the owner may cause them. */
static int lease_check_flags(uint32_t flags, uint64_t ttl_ns, struct error *err) {
    if (flags & ~RDMAD_LEASE_FLAGS)
        return error_set(err, RDMAD_E_RESERVED, "unknown lease flags 0x%" PRIx32,
                         flags & ~RDMAD_LEASE_FLAGS);
    if (flags && ttl_ns < LEASE_KEEP_TTL_MIN_NS)
        return error_set(err, RDMAD_E_INVAL,
                         "a lease that is kept alive, or that its lessees may renew, has a ttl of "
                         "at least %u ms; %" PRIu64 " ms were asked",
                         (unsigned)(LEASE_KEEP_TTL_MIN_NS / NSEC_PER_MSEC), ttl_ns / NSEC_PER_MSEC);
    return 0;
}

int lease_check_ttl(const struct state *st, uint32_t flags, uint64_t ttl_ns, struct error *err) {
    int rc = check_ttl(st, ttl_ns, err);
    return rc ? rc : lease_check_flags(flags, ttl_ns, err);
}

static int lease_check_rights(const struct lease_terms *t, struct error *err) {
    if ((t->rights & ~RDMAD_RIGHTS_ALL) || !(t->rights & ~RDMAD_RIGHT_DELEGATE))
        return error_set(err, RDMAD_E_INVAL,
                         "rights 0x%" PRIx32 " are not read (1), write (2) or atomic (4), perhaps "
                         "with delegate (8)",
                         t->rights);
    if ((t->rights & RDMAD_RIGHT_ATOMIC) && t->offset % 8)
        return error_set(err, RDMAD_E_ALIGN,
                         "a lease for atomics begins at a multiple of 8 of its pool, not at "
                         "%" PRIu64,
                         t->offset);
    return 0;
}

int lease_check_terms(const struct pool *pool, const struct lease_terms *t, struct error *err) {
    struct scope scope = lease_scope(t);
    int rc;
    if (!pool_covers(pool, t->offset, t->length))
        return error_set(err, RDMAD_E_RANGE,
                         "offset %" PRIu64 " and length %" PRIu64 " lie outside pool %" PRIu64
                         " of %zu bytes",
                         t->offset, t->length, pool->handle, pool->bytes);
    if ((rc = lease_check_rights(t, err)) || (rc = scope_validate(&scope, err)))
        return rc;
    if (t->name[0] && !rdmad_name_ok(t->name))
        return error_set(err, RDMAD_E_NAME,
                         "\"%s\" cannot be published: a name is 1 to %u of A-Z a-z 0-9 . _ -, does "
                         "not start with a dot and is not \"lease\"",
                         t->name, RDMAD_NAME_MAX);
    return lease_check_ttl(pool->session->state, t->flags, t->ttl_ns, err);
}

int lease_check_scope(const struct lease *l, const struct lessee *who, struct error *err) {
    struct scope scope = lease_scope(&l->terms);
    char what[32];
    snprintf(what, sizeof(what), "lease %" PRIu64, l->id);
    return scope_check(&scope, what, who, err);
}
