/* SPDX-License-Identifier: MIT */
/*
 * channel_end.c - a channel ends by the program's will.
 */
#include "libclient/channel/channel.h"
#include "libclient/ring/submit.h"

static int channel_tell_close(struct rdmad_channel *c, bool abrupt) {
    struct rdmad_channel_close_req request = {.channel = c->handle, .abrupt = abrupt};
    return rdmad_control_tell(c->session, RDMAD_MSG_CHANNEL_CLOSE, &request, sizeof(request),
                              abrupt);
}

int rdmad_channel_close(rdmad_channel *c) {
    if (!c)
        return 0;
    rdmad_object_end(&c->object, RDMAD_KIND_CHANNEL, c->handle, __func__);
    rdmad_rings_taken(c->session); /* sends that were submitted come before the close */
    int rc = channel_tell_close(c, false);
    rdmad_channel_forget(c);
    return rc;
}

void rdmad_channel_abort(rdmad_channel *c) {
    if (!c)
        return;
    rdmad_object_end(&c->object, RDMAD_KIND_CHANNEL, c->handle, __func__);
    channel_tell_close(c, true);
    rdmad_channel_forget(c);
}
