/* SPDX-License-Identifier: MIT */
/*
 * redial.c - whether what was lost with a connection to a peer may come back with the next one.
 */
#include "daemon/peer/connect/redial.h"
#include "daemon/config/config.h"

bool redial_may_mend(int code) {
    switch (code) {
    case RDMAD_E_NO_LEASE:
    case RDMAD_E_NOMEM:
    case RDMAD_E_LIMIT:
    case RDMAD_E_BUSY:
    case RDMAD_E_AGAIN:
    case RDMAD_E_TIMEOUT:
    case RDMAD_E_SHUTDOWN:
    case RDMAD_E_PEER_LOST:
        return true;
    default:
        return false;
    }
}

bool redial_is_worth(const struct peer *p, int why) {
    const struct state *st = p->peers->state;
    if (p->peers->stopping || !st->config->peer_return_ms)
        return false;
    return why == RDMAD_E_UNREACHABLE || redial_may_mend(why);
}
