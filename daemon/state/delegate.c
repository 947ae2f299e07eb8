/* SPDX-License-Identifier: MIT */
/*
 * delegate.c - leases made of leases: what a lessee may hand on to others.
 *
 * A child is an ordinary lease of its parent's owner, pool and scope, found by its own number and
 * secret; that it ends with its parent is lease.c's business. It counts against its owner's limit
 * (limits.leases_per_session), so how many one granted lease can become is bounded:
 * LEASE_CHILDREN_MAX below it, LEASE_DEPTH_MAX deep.
 */
#include "daemon/state/delegate.h"
#include "daemon/base/clock.h"
#include "daemon/state/origin.h"
#include "daemon/state/part_told.h"
#include <inttypes.h>
#include <string.h>

static int check_part(const struct lease *l, const struct lease_part *part, uint32_t rights,
                      struct error *err) {
    uint64_t length = l->terms.length;
    if (!(l->terms.rights & RDMAD_RIGHT_DELEGATE))
        return error_set(err, RDMAD_E_DELEGATE,
                         "lease %" PRIu64 " was granted without RDMAD_RIGHT_DELEGATE: ask its "
                         "owner for a lease that may be handed on",
                         l->id);
    if (part->length == 0 || part->offset > length || part->length > length - part->offset)
        return error_set(err, RDMAD_E_RANGE,
                         "offset %" PRIu64 " and length %" PRIu64 " are no part of lease %" PRIu64
                         " of %" PRIu64 " bytes",
                         part->offset, part->length, l->id, length);
    if (rights & ~l->terms.rights)
        return error_set(err, RDMAD_E_RIGHTS,
                         "rights 0x%" PRIx32 " were asked of lease %" PRIu64
                         ", which has 0x%" PRIx32 ": a part of it cannot have more",
                         rights, l->id, l->terms.rights);
    if (!(rights & ~RDMAD_RIGHT_DELEGATE))
        return error_set(err, RDMAD_E_RIGHTS,
                         "a part of lease %" PRIu64 " must have the right to read, write or "
                         "atomics",
                         l->id);
    if ((rights & RDMAD_RIGHT_ATOMIC) && part->offset % 8)
        return error_set(err, RDMAD_E_ALIGN,
                         "a part for atomics begins at a multiple of 8 of its lease, not at "
                         "%" PRIu64,
                         part->offset);
    return part->ttl_ns ? 0 : error_set(err, RDMAD_E_INVAL, "a lease's ttl must be at least 1 ns");
}

static int check_room(const struct lease *l, const struct lease *root, struct error *err) {
    if (root->descendants >= LEASE_CHILDREN_MAX)
        return error_set(err, RDMAD_E_LIMIT,
                         "%u leases were made of lease %" PRIu64 " and live, at most %u at a time; "
                         "wait until some have ended",
                         root->descendants, root->id, LEASE_CHILDREN_MAX);
    if (l->depth >= LEASE_DEPTH_MAX)
        return error_set(err, RDMAD_E_LIMIT,
                         "lease %" PRIu64 " was handed on %u times, at most %u times in a row are "
                         "allowed",
                         l->id, l->depth, LEASE_DEPTH_MAX);
    return 0;
}

/* again NULL: it is a new one. */
static int part_make(struct lease *l, const struct lease_part *part,
                     const struct lease_again *again, struct lease **out, struct error *err) {
    uint32_t rights = part->rights ? part->rights : l->terms.rights & ~RDMAD_RIGHT_DELEGATE;
    uint64_t left = clock_left(state_now(l->state), l->deadline_ns);
    const struct lease *root = lease_root(l);
    int rc;

    if (l->stage != LEASE_LIVE || !left)
        return lease_ended_error(l->id, l->stage == LEASE_LIVE ? RDMAD_E_LEASE_EXPIRED : l->reason,
                                 0, err);
    if (l->owner->closing) /* it is about to end */
        return lease_ended_error(l->id, RDMAD_E_LEASE_ORPHANED, 0, err);
    if ((rc = check_part(l, part, rights, err)) || (rc = check_room(l, root, err)))
        return rc;
    struct lease_terms terms = {
        .offset = l->terms.offset + part->offset,
        .length = part->length,
        .ttl_ns = part->ttl_ns < left ? part->ttl_ns : left,
        .rights = rights,
        .scope = l->terms.scope,
        .scope_uid = l->terms.scope_uid,
        .max_attaches = part->max_attaches,
    };
    memcpy(terms.scope_peer, l->terms.scope_peer, sizeof(terms.scope_peer));
    const struct lease_again cut = {.id = again ? again->id : 0, .left_ns = terms.ttl_ns};
    rc = lease_make(l->pool, &terms, again ? &cut : NULL, out, err);
    if (rc)
        return rc;
    (*out)->parent = l;
    (*out)->depth = l->depth + 1;
    list_append(&l->children, &(*out)->sibling);
    for (struct lease *above = l; above; above = above->parent)
        above->descendants++;
    part_tell(*out);
    return 0;
}

int lease_delegate(struct lease *l, const struct lease_part *part, struct lease **out,
                   struct error *err) {
    return part_make(l, part, NULL, out, err);
}

/* ---- at a later life of the daemon --------------------------------------------------------- */

/* The lease below which it comes back. Only one that is published can have got another number. */
static struct lease *part_parent(const struct session *s, const struct rdmad_part *part,
                                 uint64_t parent, struct error *err) {
    struct lease *l = lease_by_id(s->state->leases, parent);
    if (!l || l->owner != s)
        error_set(err, RDMAD_E_NO_LEASE, "this session has granted no lease %" PRIu64, parent);
    else if ((l->id != part->parent && !l->terms.name[0]) || l->pool->handle != part->pool)
        error_set(err, RDMAD_E_NO_LEASE, "lease %" PRIu64 " is no part of lease %" PRIu64,
                  part->lease, parent);
    else
        return l;
    return NULL;
}

int lease_delegate_again(struct session *s, const struct rdmad_part *part, uint64_t parent,
                         struct lease **out, struct error *err) {
    uint8_t proof[RDMAD_RESUME_SECRET_BYTES];
    const struct lease_again again = {.id = part->lease};
    origin_part_proof(s, part, proof);
    if (!origin_same_key(proof, part->proof, sizeof(proof)))
        return error_set(err, RDMAD_E_NO_LEASE,
                         "no lease %" PRIu64 " was made of this session's on such terms",
                         part->lease);
    struct lease *l = part_parent(s, part, parent, err);
    if (!l)
        return err->code;
    uint64_t left = clock_left(state_now(s->state), part->deadline_ns);
    if (!left)
        return lease_ended_error(part->lease, RDMAD_E_LEASE_EXPIRED, 0, err);
    if (part->offset < l->terms.offset)
        return error_set(err, RDMAD_E_RANGE, "lease %" PRIu64 " begins before lease %" PRIu64,
                         part->lease, l->id);
    const struct lease_part same = {.offset = part->offset - l->terms.offset,
                                    .length = part->length,
                                    .ttl_ns = left,
                                    .rights = part->rights,
                                    .max_attaches = part->max_attaches};
    return part_make(l, &same, &again, out, err);
}
