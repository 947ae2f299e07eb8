/* SPDX-License-Identifier: MIT */
/*
 * dial_back.c - which address a daemon dials because a peer asked it to.
 *
 * A channel needs a connection in each direction, so the daemon that connects to a service names
 * the address where it listens. A peer could name any address, and we must not connect to hosts of
 * its choice. So we dial the address that its connection comes from, at the port that it names:
 * answers reach it there, or it would not be connected. Or we dial one that we are connected to by
 * our own choice. A daemon that listens on one address also dials from it (dial.c), so this is
 * enough on hosts with several addresses, too. Where addresses are translated on the way, or the
 * families differ, peer.dial_named allows the rest.
 *
 * Whom we dial takes a place of the user who accepts, and a peer could name a thousand ports at its
 * address, or that in a thousand ways. A daemon names the same as long as it lives: the first that
 * was dialled is the peer's.
 */
#include "daemon/peer/connect/dial_back.h"
#include "daemon/base/address.h"
#include "daemon/base/log.h"
#include "daemon/peer/connect/dial.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Without the interface of a link-local one. */
static bool dial_back_parse(const char *text, struct in6_addr *out) {
    char plain[INET6_ADDRSTRLEN];
    size_t n = strcspn(text, "%");
    if (n >= sizeof(plain))
        return false;
    memcpy(plain, text, n);
    plain[n] = '\0';
    return address_parse(plain, out);
}

static bool dial_back_same(const char *a, const char *b) {
    struct in6_addr x, y;
    return dial_back_parse(a, &x) && dial_back_parse(b, &y) && memcmp(&x, &y, sizeof(x)) == 0;
}

static int dial_back_refuse(const struct peer *p, const struct error *why) {
    LOG_LIMITED_OF(peer_log(p), NOTICE, ("a channel is refused: %s", why->text),
                   FIELD_U64("PEER", p->id));
    return why->code;
}

int dial_back_check(const struct peer *p, const char *host, uint16_t port, struct error *err) {
    struct peers *ps = p->peers;
    if (p->back_port && (p->back_port != port || strcasecmp(p->back_host, host) != 0)) {
        error_set(err, RDMAD_E_PERM,
                  "%.40s was dialled back at \"%.64s\" port %u before and names \"%.64s\" port %u "
                  "now: a daemon listens at one place",
                  p->name, p->back_host, p->back_port, host, port);
        return dial_back_refuse(p, err);
    }
    if (!host[0] || dial_back_same(host, p->ip) || ps->state->config->peer_dial_named ||
        peers_find_dialled(ps, host, port))
        return 0;
    error_set(
        err, RDMAD_E_PERM,
        "%.40s connects from %s and names %.64s to be dialled back, which %.40s does not: let "
        "it listen on the address that it connects from, or set peer.dial_named there",
        p->name, p->ip, host, ps->state->node_name);
    return dial_back_refuse(p, err);
}

int dial_back(struct peer *p, const char *host, uint16_t port, struct user_id user,
              struct peer **out, struct error *err) {
    int rc = dial_back_check(p, host, port, err);
    if (!rc)
        rc = peer_dial(p->peers, host[0] ? host : p->ip, port, user, out, err);
    if (rc)
        return rc;
    snprintf(p->back_host, sizeof(p->back_host), "%s", host);
    p->back_port = port;
    return 0;
}
