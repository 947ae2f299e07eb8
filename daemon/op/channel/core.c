/* SPDX-License-Identifier: MIT */
/*
 * core.c - a worker's channels: one is found by its number, gets a turn, is over.
 */
#include "daemon/op/channel/core.h"
#include "daemon/op/engine/ends.h"
#include "daemon/op/engine/life.h"
#include <assert.h>

void channels_add(struct op_channel *ch) {
    int rc = ids_add(&ch->worker->channels->by_number, &ch->number_node, ch->number);
    assert(!rc); /* no number is given out twice */
    (void)rc;
}

void channels_remove(struct op_channel *ch) {
    ids_remove(&ch->worker->channels->by_number, &ch->number_node);
}

struct op_channel *channel_find(const struct worker *w, uint64_t number) {
    struct id_node *node = ids_find(&w->channels->by_number, number);
    return node ? container_of(node, struct op_channel, number_node) : NULL;
}

bool channel_may_end(struct op_channel *ch) {
    struct op_session *s = ch->session;
    if (ends_may(s))
        return true;
    if (list_empty(&ch->unended_node))
        list_append(&s->unended, &ch->unended_node);
    if (list_empty(&s->unended_node))
        list_append(&ch->worker->channels->unended, &s->unended_node);
    return false;
}

void channel_op_end(struct op_channel *ch, struct op *op, const struct op_result *result) {
    assert(ch->ops > 0);
    ch->ops--;
    channel_touch(ch);
    op_end(ch->worker, op, result);
}

/* Notes how the other end ended. Tells the control thread, unless this end was already being ended.
 */
static void other_ended(struct op_channel *ch, int code, const char *why) {
    struct channel_end *end = &ch->end;
    assert(code && channel_over(ch) && !end->other_reason);
    end->other_reason = code;
    end->other_first = !channel_ending(ch);
    channel_touch(ch);
    if (!why || !end->other_first)
        return;
    error_set(&end->closed_why, code, "channel %lu: %s", (unsigned long)ch->number, why);
    mailbox_post(ch->worker->control, &end->closed_mail, end->closed_event);
}

void channel_closed(struct op_channel *ch, int code, const char *why) {
    assert(ch->end.other == OTHER_THERE);
    ch->end.other = OTHER_CLOSED;
    other_ended(ch, code, why);
}

void channel_lost(struct op_channel *ch, int code, const char *why) {
    if (channel_over(ch))
        return;
    ch->end.other = OTHER_LOST;
    other_ended(ch, code, why);
}
