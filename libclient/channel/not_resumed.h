/* SPDX-License-Identifier: MIT */
/*
 * not_resumed.h - what the next daemon does not take back of a service or a channel, told once.
 *
 * It is a member of the object that it is about. All with the session's lock.
 */
#ifndef RDMAD_LIBCLIENT_NOT_RESUMED_H
#define RDMAD_LIBCLIENT_NOT_RESUMED_H

#include "libclient/base/session.h"
#include "libclient/control/event_queue.h"

struct rdmad_not_resumed {
    struct rdmad_event_source source; /* NOT_RESUMED */
    rdmad_service *service;           /* of which it is a member; or */
    rdmad_channel *channel;
    void *const *user; /* its user's */
    int reason;        /* 0: there is nothing to tell */
    char text[RDMAD_TEXT_MAX + 1];
};

/* what ("service x") has not come back, for that reason, which rdmad_error_said says in words. The
 * object it is a member of is filled in. */
void rdmad_not_resumed_tell(struct rdmad_session *s, struct rdmad_not_resumed *n, int reason,
                            const char *what);

#endif
