/* SPDX-License-Identifier: MIT */
/*
 * user_id.h - who counts as one user: a uid, together with the tenant by whose socket it came.
 *
 * Containers share uids (0 and 1000 above all), so a uid alone is nobody there. Whatever is shared
 * out among users, or limited for each, goes by this: the same uid by another socket is another
 * user. A tenant is told by its number, which lasts as long as the process; what lasts longer goes
 * by its name.
 */
#ifndef RDMAD_BASE_USER_ID_H
#define RDMAD_BASE_USER_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct user_id {
    uid_t uid;
    uint32_t tenant; /* the number of its socket; 0: the daemon's own */
};

static inline bool user_id_same(struct user_id a, struct user_id b) {
    return a.uid == b.uid && a.tenant == b.tenant;
}

/* The same as one number. Those near UINT64_MAX are no user's. */
static inline uint64_t user_id_number(struct user_id u) {
    return (uint64_t)u.tenant << 32 | u.uid;
}

#endif
