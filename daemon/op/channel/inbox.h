/* SPDX-License-Identifier: MIT */
/*
 * inbox.h - messages within one daemon, from one end of a channel to the other.
 *
 * A message is put into the other end's inbox and waits there for that end's turn, whichever worker
 * it lives on: no end runs on the other's stack. Messages stay in order. The payload is a pointer
 * into the sender's buffer.
 */
#ifndef RDMAD_OP_CHANNEL_INBOX_H
#define RDMAD_OP_CHANNEL_INBOX_H

#include "daemon/op/channel/channel.h"
#include <stdlib.h>

struct channel_letter {
    union {
        struct list node;            /* in an inbox */
        struct mail mail;            /* on its way to another worker */
        struct channel_letter *next; /* among a worker's spare ones */
    };
    struct worker *to;
    struct channel_message message;
};

/* For a message from ch. NULL when out of memory. */
static inline struct channel_letter *letter_get(struct worker *w) {
    struct channels *all = w->channels;
    struct channel_letter *letter = all->spare_letters;
    if (!letter)
        return malloc(sizeof(*letter));
    all->spare_letters = letter->next;
    all->spares--;
    return letter;
}

/* The worker has read it; it may have come from another. */
static inline void letter_put(struct worker *w, struct channel_letter *letter) {
    struct channels *all = w->channels;
    if (all->spares == CHANNEL_SPARE_LETTERS) {
        free(letter);
        return;
    }
    letter->next = all->spare_letters;
    all->spare_letters = letter;
    all->spares++;
}

/* To the other end of ch, or to nobody if that is gone. */
void letter_post(struct op_channel *ch, struct channel_letter *letter);

/* The oldest; NULL: none. */
static inline struct channel_letter *inbox_take(struct op_channel *ch) {
    struct list *pos = list_pop(&ch->inbox);
    return pos ? list_entry(pos, struct channel_letter, node) : NULL;
}
void inbox_clear(struct op_channel *ch);
void letters_free(struct channels *all); /* the spare ones */

#endif
