/* SPDX-License-Identifier: MIT */
/*
 * unsent.c - the kernel did not take the descriptors of an answer: what the answer tells of is
 * given back, and then the request fails.
 */
#include "daemon/serve/unsent.h"
#include "daemon/base/log.h"
#include "daemon/serve/later.h"
#include "daemon/state/pool.h"
#include "daemon/state/ring_object.h"
#include "daemon/state/session_end.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct undoing {
    struct request *later;
    struct error why;
};

static void undone(void *arg, const struct error *result) {
    struct undoing *u = arg;
    (void)result;
    later_reply(u->later, &u->why, NULL, 0);
    free(u);
}

/* What the answer's body begins with is the handle of what was made. */
_Static_assert(offsetof(struct rdmad_ring_create_rep, ring) == 0 &&
                   offsetof(struct rdmad_pool_create_rep, pool) == 0,
               "an answer begins with the handle");

static int undo(struct session *s, uint16_t type, uint64_t handle, struct undoing *u) {
    struct error none;
    if (type == RDMAD_MSG_RING_CREATE)
        return ring_object_destroy(s, handle, undone, u, &none);
    return pool_destroy(s, handle, undone, u, &none);
}

static const char *descriptors_name(uint16_t type) {
    switch (type) {
    case RDMAD_MSG_RING_CREATE:
        return "ring's descriptors";
    case RDMAD_MSG_POOL_CREATE:
        return "pool's descriptor";
    default:
        assert(type == RDMAD_MSG_LIFELINE);
        return "daemon's lifeline";
    }
}

void serve_unsent(struct session *s, const void *answer, size_t size, const char *why) {
    struct rdmad_msg_header h;
    uint64_t handle;
    struct error err;
    assert(size >= sizeof(h));
    memcpy(&h, answer, sizeof(h));
    struct request rq = {.session = s, .type = (uint16_t)(h.type & ~RDMAD_MSG_REPLY), .seq = h.seq};
    error_set(&err, RDMAD_E_LIMIT, "the %s cannot be passed on: %s; try again later",
              descriptors_name(rq.type), why);
    LOG_LIMITED_OF(log_of_user(session_user_id(s)), WARNING,
                   ("session %llu: %s", (unsigned long long)s->id, err.text));
    if (rq.type == RDMAD_MSG_LIFELINE) { /* nothing was made for it */
        s->has_lifeline = false;
        serve_fail(&rq, &err);
        return;
    }
    assert(size >= sizeof(h) + sizeof(handle));
    memcpy(&handle, (const char *)answer + sizeof(h), sizeof(handle));
    struct undoing *u = malloc(sizeof(*u));
    struct request *later = u ? later_new(&rq) : NULL;
    if (!later) {
        free(u);
        session_close(s, &err); /* with all that it has */
        return;
    }
    *u = (struct undoing){later, err};
    int rc = undo(s, rq.type, handle, u);
    if (rc == RDMAD_E_HANDLE) {
        undone(u, NULL); /* its client has ended it already */
    } else if (rc) {
        session_close(s, &err);
        later_free(later);
        free(u);
    }
}
