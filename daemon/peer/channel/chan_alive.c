/* SPDX-License-Identifier: MIT */
/*
 * chan_alive.c - keep-alive between the programs of a channel, from daemon to daemon.
 *
 * A question is answered at once with what is known, so a peer that asks without pause makes us
 * hold nothing, and the program is looked at no more often than alive.h says. An answer to what was
 * not asked is as good as any: it is of a channel with that very peer, whose daemon could lie in
 * any case.
 */
#include "daemon/peer/channel/chan_alive.h"
#include "daemon/peer/channel/chan.h"
#include "daemon/state/alive.h"
#include "daemon/state/keepalive.h"

void chan_take_alive(struct peer *p, const struct peer_msg *msg) {
    const struct peer_chan_alive *m = &msg->chan_alive;
    const struct chan *c = chan_by_number(p, m->ref);
    if (!c || (c->in != p && c->out != p) || c->stage != CHAN_LIVE)
        return;
    if (m->answer)
        keepalive_told(c->channel, m->silent_ns);
    else
        chan_send_alive(p, c->other, alive_silent_ns(c->channel->session));
}
