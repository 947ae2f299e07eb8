/* SPDX-License-Identifier: MIT */
/*
 * agree.c - what two daemons have in common: a version of their protocol, and a fabric.
 *
 * The dialler's HELLO says which versions it speaks, the acceptor chooses, and its HELLO is of that
 * version. Where there is none in common it says BYE with both ranges.
 *
 * Each says in its HELLO which fabrics it offers, the best first, and why there are no more of
 * them. Both take the first of their own that the other offers, too. As every daemon puts verbs
 * before tcp, that is the same one. It holds for as long as the connection: a link that breaks is
 * made anew by the same fabric, never by a lesser one.
 *
 * A lesser fabric than our best is not taken in silence: the log has a warning with the peer's
 * reason, and peer show has it, too. A peer with none in common is refused, in words that both
 * sides log: who offers what and why, and what to change where.
 */
#include "daemon/peer/connect/agree.h"
#include "daemon/base/log.h"
#include "daemon/peer/control/conn.h"
#include <stdio.h>
#include <string.h>

bool agree_on_version(struct peer *p, const struct peer_hello *theirs) {
    const struct rdmad_versions ours = peer_versions;
    uint16_t head = p->heard_version, newest = theirs->newest > head ? theirs->newest : head;
    struct rdmad_versions they = {head, newest};
    char here[RDMAD_VERSIONS_TEXT], there[RDMAD_VERSIONS_TEXT];
    uint16_t common = rdmad_versions_common(ours, they);
    if (p->outgoing && head != newest)
        common = 0; /* it has not chosen */
    if (common) {
        p->version = common;
        return true;
    }
    peer_refuse(p, RDMAD_E_VERSION,
                "%.64s at %s speaks %s of the peers' protocol, %.64s %s: update the older of the "
                "two daemons",
                theirs->node, p->address, rdmad_versions_print(they, there),
                p->peers->state->node_name, rdmad_versions_print(ours, here));
    return false;
}

void agree_offer(const struct peers *ps, struct peer_hello *hello) {
    const struct fabric_ops *ops;
    for (unsigned i = 0; (ops = plane_fabric(ps->state->plane, i)); i++)
        snprintf(hello->fabrics[i], sizeof(hello->fabrics[i]), "%s", ops->name);
    snprintf(hello->why_no_more, sizeof(hello->why_no_more), "%.*s",
             (int)sizeof(hello->why_no_more) - 1, ps->state->fabric_why_no_more);
}

static bool agree_is_offered(const struct peer_hello *hello, const char *name) {
    for (unsigned i = 0; i < PEER_FABRICS_MAX; i++)
        if (strcmp(hello->fabrics[i], name) == 0)
            return true;
    return false;
}

static const char *agree_list(const struct peer_hello *hello, char out[40]) {
    if (hello->fabrics[1][0])
        snprintf(out, 40, "%s and %s", hello->fabrics[0], hello->fabrics[1]);
    else
        snprintf(out, 40, "only %s", hello->fabrics[0]);
    return out;
}

/* What to change so that the two have tcp in common; "": nothing so simple. */
static void agree_advise(const struct peer *p, const struct peer_hello *ours,
                         const struct peer_hello *theirs, char out[160]) {
    const char *here = p->peers->state->node_name, *there = p->name;
    bool it_has_tcp = agree_is_offered(theirs, "tcp"), we_have_tcp = agree_is_offered(ours, "tcp");
    if (it_has_tcp == we_have_tcp)
        snprintf(out, 160, "set \"fabric\" alike on both");
    else
        snprintf(out, 160,
                 "have %.32s use RDMA, or let %.32s fall back to tcp (peer.fallback_tcp, and no "
                 "require_rdma)",
                 it_has_tcp ? there : here, it_has_tcp ? here : there);
}

static void agree_refuse(struct peer *p, const struct peer_hello *theirs) {
    struct peer_hello ours = {0};
    char what_they[40], what_we[40], advice[160];
    agree_offer(p->peers, &ours);
    agree_advise(p, &ours, theirs, advice);
    peer_refuse(p, RDMAD_E_FABRIC, "%.32s at %s offers %s%s%.60s, %.32s %s%s%.60s: %s", p->name,
                p->address, agree_list(theirs, what_they), theirs->why_no_more[0] ? ": " : "",
                theirs->why_no_more, p->peers->state->node_name, agree_list(&ours, what_we),
                ours.why_no_more[0] ? ": " : "", ours.why_no_more, advice);
}

/* Not the best of ours. */
static void agree_warn(struct peer *p, const struct peer_hello *theirs, const char *best,
                       const char *agreed) {
    char text[PEER_TEXT];
    snprintf(p->fabric_why, sizeof(p->fabric_why), "it does not offer %s%s%s", best,
             theirs->why_no_more[0] ? ": " : "", theirs->why_no_more);
    LOG_LIMITED_OF(
        peer_log(p), WARNING,
        ("%s: agreed on %s instead of %s: %s", peer_text(p, text), agreed, best, p->fabric_why),
        FIELD_U64("PEER", p->id), FIELD_STR("FABRIC", agreed));
}

bool agree_on(struct peer *p, const struct peer_hello *theirs) {
    const struct plane *plane = p->peers->state->plane;
    const struct fabric_ops *ops;
    for (unsigned i = 0; (ops = plane_fabric(plane, i)); i++) {
        if (!agree_is_offered(theirs, ops->name))
            continue;
        p->fabric = i;
        if (i > 0)
            agree_warn(p, theirs, plane_fabric(plane, 0)->name, ops->name);
        return true;
    }
    agree_refuse(p, theirs);
    return false;
}
