/* SPDX-License-Identifier: MIT */
/*
 * rest.h - for how long the library asks for what the next daemon could not give back at once, and
 * how often. All times are since it was asked for first.
 *
 * A daemon that answers BUSY knows for how long an owner is waited for (peer.return_ms), so it is
 * asked for as long as it says so; but no longer than any daemon can be told to wait, for it may
 * lie.
 */
#ifndef RDMAD_LIBCLIENT_REST_H
#define RDMAD_LIBCLIENT_REST_H

#include <stdbool.h>
#include <stdint.h>

#define REST_BEFORE_NS UINT64_C(500000000)     /* until the session is opened without it */
#define REST_FIRST_NS UINT64_C(2000000000)     /* the same if each was not asked for once by then */
#define REST_PATIENCE_NS UINT64_C(10000000000) /* and what is not waited for is given up */
#define REST_AWAITED_NS UINT64_C(600000000000) /* the longest peer.return_ms that there is */
#define REST_ROUND_NS UINT64_C(500000000) /* of an open session, before others have their turn */
#define REST_TRY_NS UINT64_C(500000000)   /* of each question to a daemon that may be silent, */
#define REST_AT_ONCE 32u                  /* of which so many are asked at a time */
#define REST_EVERY_NS UINT64_C(20000000)  /* at first */
#define REST_EVERY_MOST_NS UINT64_C(250000000)

/* Whether it is given up. awaited: the daemon has said BUSY last. */
static inline bool rest_is_over(uint64_t since_ns, bool awaited) {
    return since_ns > (awaited ? REST_AWAITED_NS : REST_PATIENCE_NS);
}

/* Until it is asked for again: the longer it has lasted, the longer. */
static inline uint64_t rest_pause_ns(uint64_t since_ns) {
    uint64_t pause_ns = since_ns / 16;
    if (pause_ns > REST_EVERY_MOST_NS)
        return REST_EVERY_MOST_NS;
    return pause_ns < REST_EVERY_NS ? REST_EVERY_NS : pause_ns;
}

#endif
