/* SPDX-License-Identifier: MIT */
/*
 * rights.c - the policy for a peer's name, asked and told.
 *
 * A name is proven by a certificate or it is "": what a peer in clear calls itself gives it no
 * right, and takes none away.
 */
#include "daemon/peer/connect/rights.h"
#include "daemon/base/audit.h"
#include "daemon/peer/connect/self.h"
#include "daemon/peer/peer.h"
#include <inttypes.h>
#include <string.h>

static const char *rights_name(const struct peer *p) {
    return p->secured ? p->certificate.name : "";
}

/* For sentences. */
static const char *rights_called(const struct peer *p) {
    return p->secured ? p->certificate.name : "a peer that proves no name";
}

static const struct peer_policy *rights_policy(const struct peer *p) {
    return policy_peer(p->peers->state->policy, rights_name(p));
}

static bool rights_is_self(const struct peer *p) {
    return p->is_self || self_other_end(p);
}

struct lessee rights_lessee(const struct peer *p) {
    return (struct lessee){.peer = p->id, .address = p->ip, .node = rights_name(p)};
}

static int rights_refuse(struct peer *p, const char *cause, const struct error *why) {
    char text[PEER_TEXT];
    p->told = true;
    AUDIT(REFUSED, cause, audit_peer(rights_name(p), p->address), audit_object("peer", p->id),
          ("%s: %s", peer_text(p, text), why->text));
    return why->code;
}

int rights_to_connect(struct peer *p, struct error *err) {
    const char *here = p->peers->state->node_name;
    const struct peer_policy *policy = rights_policy(p);
    if (rights_is_self(p) || (p->outgoing ? policy->dialled : policy->dials))
        return 0;
    if (p->outgoing)
        error_set(err, RDMAD_E_PERM,
                  "the policy of %.64s does not let %.64s be dialled (key \"dialled\")", here,
                  rights_called(p));
    else
        error_set(err, RDMAD_E_PERM,
                  "the policy of %.64s does not let %.64s connect to it (key \"dials\")", here,
                  rights_called(p));
    p->audited = true;
    return rights_refuse(p, p->outgoing ? "policy.dialled" : "policy.dials", err);
}

int rights_to_attach(struct peer *p, struct error *err) {
    if (rights_policy(p)->attach || rights_is_self(p))
        return 0;
    error_set(err, RDMAD_E_PERM,
              "the policy of %.64s does not let clients of %.64s attach to leases, connect to "
              "services or request memory (key \"attach\")",
              p->peers->state->node_name, rights_called(p));
    return rights_refuse(p, "policy.attach", err);
}

int rights_to_name(struct peer *p, const char *name, struct error *err) {
    if (!name[0] || policy_prefixes_admit(&rights_policy(p)->names, name) || rights_is_self(p))
        return 0;
    error_set(err, RDMAD_E_PERM,
              "the policy of %.64s does not let clients of %.64s use the name \"%.64s\" (key "
              "\"names\")",
              p->peers->state->node_name, rights_called(p), name);
    return rights_refuse(p, "policy.names", err);
}

const struct policy_prefixes *rights_to_see(const struct peer *p) {
    return &rights_policy(p)->names;
}

/* ---- how much ------------------------------------------------------------------------------ */

/* Also of connections of which only that is left. */
void rights_use(const struct peers *ps, const char *name, struct peer_use *out) {
    *out = (struct peer_use){0};
    list_for_each (node, &ps->all) {
        const struct peer *q = list_entry(node, struct peer, node);
        if (q->outgoing || strcmp(name, rights_name(q)) != 0)
            continue;
        out->connections += q->stage == PEER_UP && !q->ending;
        out->attaches += q->attaches;
        out->notifications += q->notifications;
        out->channels += q->channels;
        out->registered_bytes += q->opened_bytes;
    }
}

static struct peer_use rights_used(const struct peer *p) {
    struct peer_use use;
    rights_use(p->peers, rights_name(p), &use);
    return use;
}

static int rights_too_many(struct peer *p, const char *cause, const char *key, uint64_t used,
                           uint64_t more, const char *what, uint64_t max, struct error *err) {
    if ((used <= max && more <= max - used) || rights_is_self(p))
        return 0;
    error_set(err, RDMAD_E_LIMIT,
              "%.64s has %" PRIu64 " %s %.64s and asks for %" PRIu64
              " more; its policy there allows %" PRIu64 " (key \"%s\")",
              rights_called(p), used, what, p->peers->state->node_name, more, max, key);
    return rights_refuse(p, cause, err);
}

int rights_to_open(struct peer *p, uint64_t bytes, struct error *err) {
    uint64_t max = rights_policy(p)->registered_bytes;
    if (max == UINT64_MAX)
        return 0;
    return rights_too_many(p, "policy.registered_bytes", "registered_bytes",
                           rights_used(p).registered_bytes, bytes, "bytes opened at", max, err);
}

int rights_to_place(struct peer *p, struct error *err) {
    uint64_t max = rights_policy(p)->connections;
    if (max == UINT64_MAX)
        return 0;
    int rc = rights_too_many(p, "policy.connections", "connections", rights_used(p).connections, 1,
                             "connections to", max, err);
    p->audited |= rc != 0;
    return rc;
}

int rights_to_hold(struct peer *p, struct error *err) {
    uint64_t max = rights_policy(p)->attaches;
    if (max == UINT64_MAX)
        return 0;
    return rights_too_many(p, "policy.attaches", "attaches", rights_used(p).attaches, 1,
                           "leases attached at", max, err);
}

int rights_to_notify(struct peer *p, struct error *err) {
    uint64_t max = rights_policy(p)->notifications;
    if (max == UINT64_MAX)
        return 0;
    return rights_too_many(p, "policy.notifications", "notifications", rights_used(p).notifications,
                           RDMAD_NOTIFY_DEPTH, "notifications that may wait at", max, err);
}

int rights_to_channel(struct peer *p, struct error *err) {
    uint64_t max = rights_policy(p)->channels;
    if (max == UINT64_MAX)
        return 0;
    return rights_too_many(p, "policy.channels", "channels", rights_used(p).channels, 1,
                           "channels with", max, err);
}
