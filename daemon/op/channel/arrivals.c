/* SPDX-License-Identifier: MIT */
/*
 * arrivals.c - number seq is in place seq modulo the places, of which there are at least as many.
 *
 * A few places are in the channel. More are allocated while so many messages wait, and given back
 * when none does: else all channels of a user would keep what each has needed once.
 */
#include "daemon/op/channel/arrivals.h"
#include <stdlib.h>
#include <string.h>

static struct op_arrival **arrival_place(struct channel_in *in, uint64_t seq) {
    return in->place ? &in->place[seq & (in->places - 1)] : &in->few[seq & (CHANNEL_FEW - 1)];
}

static bool places_grow(struct channel_in *in) {
    uint32_t places = in->place ? 2 * in->places : 2 * CHANNEL_FEW;
    struct op_arrival **place = calloc(places, sizeof(struct op_arrival *));
    if (!place)
        return false;
    memset(in->few, 0, sizeof(in->few));
    free(in->place);
    in->place = place;
    in->places = places;
    list_for_each (pos, &in->arrivals) {
        struct op_arrival *a = list_entry(pos, struct op_arrival, node);
        *arrival_place(in, a->seq) = a;
    }
    return true;
}

struct op_arrival *arrival_new(struct op_channel *ch, uint64_t seq) {
    if (*arrival_place(&ch->in, seq) && !places_grow(&ch->in))
        return NULL;
    assert(!*arrival_place(&ch->in, seq));
    return slab_get(&ch->worker->channels->arrivals);
}

void arrival_unused(struct op_channel *ch, struct op_arrival *a) {
    slab_put(&ch->worker->channels->arrivals, a);
}

void arrival_keep(struct op_arrival *a) {
    struct channel_in *in = &a->channel->in;
    list_init(&a->node);
    list_init(&a->attention_node);
    list_append(&in->arrivals, &a->node);
    *arrival_place(in, a->seq) = a;
}

void arrival_drop(struct op_arrival *a) {
    struct op_channel *ch = a->channel;
    list_remove(&a->node);
    list_remove(&a->attention_node);
    *arrival_place(&ch->in, a->seq) = NULL;
    arrival_unused(ch, a);
    if (ch->in.place && list_empty(&ch->in.arrivals)) {
        free(ch->in.place);
        ch->in.place = NULL;
    }
}

struct op_arrival *arrival_find(struct op_channel *ch, uint64_t seq) {
    struct op_arrival *a = *arrival_place(&ch->in, seq);
    return a && a->seq == seq ? a : NULL;
}
