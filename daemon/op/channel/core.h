/* SPDX-License-Identifier: MIT */
/*
 * core.h - what everything in a channel stands on: its number, its turn, its end.
 */
#ifndef RDMAD_OP_CHANNEL_CORE_H
#define RDMAD_OP_CHANNEL_CORE_H

#include "daemon/op/channel/channel.h"

void channels_add(struct op_channel *ch); /* to its worker's, by number */
void channels_remove(struct op_channel *ch);
struct op_channel *channel_find(const struct worker *w, uint64_t number);
static inline void channel_touch(struct op_channel *ch) { /* it has something to do */
    if (list_empty(&ch->run_node) && ch->session)
        list_append(&ch->worker->channels->run, &ch->run_node);
}
static inline void channel_anew(struct op_channel *ch) { /* either end has */
    if (list_empty(&ch->anew_node) && ch->session)
        list_append(&ch->worker->channels->anew, &ch->anew_node);
}
static inline void channel_off_lane(struct op_channel *ch) { /* it has no way by it any more */
    list_remove(&ch->lane_node);
    list_remove(&ch->full_node);
    list_remove(&ch->anew_node);
    ch->lane = NULL;
}
bool channel_may_end(struct op_channel *ch); /* ends_may; if not, it gets another turn then */
void channel_op_end(struct op_channel *ch, struct op *op, const struct op_result *result);
/* The other end is gone: it said so, or its daemon lies, or its peer is lost (why is NULL if the
 * control thread knows). The ops end in the channel's next turn. */
void channel_closed(struct op_channel *ch, int code, const char *why);
void channel_lost(struct op_channel *ch, int code, const char *why);

#endif
