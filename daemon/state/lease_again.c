/* SPDX-License-Identifier: MIT */
/*
 * lease_again.c - a lease that was granted at an earlier life of the daemon comes back.
 *
 * The owner shows the lease's secret, which nobody has kept, but which is made of the session's
 * origin and the lease's number (origin.h). A lessee knows it as well, but is another session. The
 * terms are judged as those of a new one.
 */
#include "daemon/state/lease.h"
#include "daemon/state/lease_terms.h"
#include "daemon/state/origin.h"
#include <inttypes.h>

int lease_grant_again(struct pool *pool, const struct lease_terms *terms,
                      const struct lease_again *again, struct lease **out, struct error *err) {
    uint8_t key[RDMAD_KEY_BYTES];
    int rc = lease_check_terms(pool, terms, err);
    if (rc)
        return rc;
    origin_lease_key(pool->session, again->id, key);
    if (!origin_same_key(key, again->key, sizeof(key)))
        return error_set(err, RDMAD_E_NO_LEASE,
                         "this session has granted no lease %" PRIu64 " with this key", again->id);
    if (!again->left_ns)
        return lease_ended_error(again->id, RDMAD_E_LEASE_EXPIRED, 0, err);
    if (again->left_ns > terms->ttl_ns)
        return error_set(err, RDMAD_E_RANGE,
                         "lease %" PRIu64 " cannot have more time left than its whole ttl",
                         again->id);
    return lease_put(pool, terms, again, out, err);
}
