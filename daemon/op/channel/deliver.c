/* SPDX-License-Identifier: MIT */
/*
 * deliver.c - what the other end says.
 *
 * A message that could not be true ends the channel: the other end's daemon breaks the protocol.
 * Everything else is noted, and done in the channel's turn.
 */
#include "daemon/op/channel/deliver.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/channel/landing.h"
#include "daemon/op/channel/receives.h"
#include "daemon/op/channel/sends.h"
#include "daemon/op/channel/weak.h"
#include <assert.h>
#include <stdio.h>

static void protocol_broken(struct op_channel *ch, const char *what) {
    char why[160];
    snprintf(why, sizeof(why), "the other end's daemon breaks the protocol: %s", what);
    channel_lost(ch, RDMAD_E_PROTOCOL, why);
}

static void fin(struct op_channel *ch, const struct channel_message *m) {
    if (m->flags & CHANNEL_FLAG_ABRUPT)
        channel_closed(ch, RDMAD_E_CANCELED, "the other end closed it abruptly");
    else
        channel_closed(ch, RDMAD_E_CLOSED, "the other end closed it");
}

void channel_deliver(struct op_channel *ch, const struct channel_message *m) {
    assert(ch->session);
    if (channel_over(ch) || ch->end.fin == FIN_TOLD)
        return;
    const char *wrong = sends_state(ch, &m->state);
    if (!wrong)
        receives_heard(ch, m->state.heard);
    if (!wrong && (m->type == CHANNEL_DATA || m->type == CHANNEL_OFFER))
        wrong = receive_message(ch, m);
    if (wrong) {
        protocol_broken(ch, wrong);
        return;
    }
    if (m->type == CHANNEL_KEY) {
        receive_key(ch, m);
    } else if (m->type == CHANNEL_WITHDRAW) {
        receive_withdraw(ch, m);
    } else if (m->type == CHANNEL_FIN) {
        fin(ch, m);
    }
}

static void deliver_weak(struct op_channel *ch, const struct channel_message *m) {
    const char *wrong = weak_receive(ch, m);
    if (wrong)
        protocol_broken(ch, wrong);
    else if (m->type == CHANNEL_TOTAL)
        fin(ch, m);
}

static void deliver_reliable(struct op_channel *ch, const struct channel_message *m) {
    if (channel_has_state(m->type))
        channel_deliver(ch, m);
    else
        protocol_broken(ch, "a message of a channel without acknowledgements");
}

/* Whether m is void: whatever came by a link that is not the other end's last one will be sent
 * again. */
static bool void_now(struct op_channel *ch, const struct channel_message *m, uint64_t number) {
    if (m->type != CHANNEL_SYNC)
        return number != ch->via;
    if ((int32_t)(m->state.epoch - ch->sync.peer_epoch) <= 0)
        return true;
    ch->sync.peer_epoch = m->state.epoch;
    ch->via = number;
    ch->due.state = true;
    channel_anew(ch); /* by the same link, too: what crossed this is of an epoch gone by */
    landings_void(ch);
    return false;
}

void channel_deliver_link(struct op_channel *ch, uint64_t number, const struct channel_message *m,
                          const char *wrong) {
    if (wrong)
        protocol_broken(ch, wrong);
    else if (channel_weak(ch))
        deliver_weak(ch, m);
    else if (!void_now(ch, m, number))
        deliver_reliable(ch, m);
    channel_touch(ch);
}
