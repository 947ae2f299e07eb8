/* SPDX-License-Identifier: MIT */
/*
 * greeting.c - sentences.
 */
#include "daemon/greeting.h"
#include "common/uri.h"
#include "daemon/base/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/log.h"
#include "daemon/fabric/fabric.h"
#include "daemon/handover.h"
#include "daemon/manager.h"
#include "daemon/peer/peer.h"
#include "daemon/plane/plane.h"
#include "daemon/state/identity.h"
#include <stdio.h>

static void greet_fabrics(const struct state *st) {
    if (plane_fabric(st->plane, 0) != &fabric_verbs) {
        LOG(NOTICE, ("fabric tcp: RDMA over TCP, no RDMA hardware used: %s", st->fabric_why),
            FIELD_STR("FABRIC", "tcp"));
        return;
    }
    LOG(NOTICE, ("fabric verbs: %s", st->fabric_why), FIELD_STR("FABRIC", "verbs"));
    if (plane_fabric(st->plane, 1))
        LOG(NOTICE, ("peers that have no verbs are reached over tcp; peer.fallback_tcp or "
                     "require_rdma forbids it"));
    else
        LOG(NOTICE, ("peers that have no verbs are refused: %s", st->fabric_why_no_more));
}

void greeting_log(const struct state *st) {
    const struct config *c = st->config;
    LOG(NOTICE, ("rdmad " RDMAD_VERSION " serves clients at %s/rdmad.sock", c->runtime_dir));
    EVENT("daemon", "started", audit_nobody(), audit_nothing(),
          ("rdmad " RDMAD_VERSION " started, its life %llu, over %s: %s",
           (unsigned long long)st->life.number, plane_fabric(st->plane, 0)->name, st->fabric_why));
    greet_fabrics(st);
    char at[RDMAD_HOST_MAX + 10];
    rdmad_hostport_print(st->listen_host, st->listen_port, at, sizeof(at));
    if (identity_of(st))
        LOG(NOTICE, ("peers reach this daemon at %s, by TLS, as %s", at, st->node_name));
    else
        LOG(NOTICE,
            ("peers reach this daemon at %s, by plain TCP: not authenticated, not encrypted", at));
    if (!identity_of(st) && c->peer_insecure)
        LOG(WARNING, ("peer.insecure: whoever reaches %s can be a peer, and read and change what "
                      "peers say; rdmactl cluster init or join gives this node an identity",
                      at));
}

void greeting_manager(const struct state *st, struct manager *m) {
    char status[400];
    char at[RDMAD_HOST_MAX + 10];
    const struct fabric_ops *other = plane_fabric(st->plane, 1);
    snprintf(status, sizeof(status), "fabric %s%s%s, peers at %s%s",
             plane_fabric(st->plane, 0)->name, other ? " and, for peers without it, " : "",
             other ? other->name : "",
             rdmad_hostport_print(st->listen_host, st->listen_port, at, sizeof(at)),
             peers_are_reachable(st->peers) ? "" : ", an address that no interface has");
    manager_ready(m, status);
}

void greeting_upgraded(struct state *st, const struct handover *before) {
    struct state_upgraded *u = &st->upgraded;
    if (!before->times)
        return;
    *u = (struct state_upgraded){.times = before->times,
                                 .pause_ns = clock_now_ns() - before->began_ns};
    snprintf(u->from, sizeof(u->from), "%s", before->from);
    EVENT("daemon", "upgraded", audit_nobody(), audit_nothing(),
          ("upgraded from rdmad %s: clients waited for %llu ms", u->from,
           (unsigned long long)(u->pause_ns / NSEC_PER_MSEC)));
    LOG(NOTICE, ("upgraded from rdmad %s: clients waited for %llu ms", u->from,
                 (unsigned long long)(u->pause_ns / NSEC_PER_MSEC)));
}
