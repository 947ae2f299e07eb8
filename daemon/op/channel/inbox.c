/* SPDX-License-Identifier: MIT */
/*
 * inbox.c - messages within one daemon.
 *
 * Letters are malloc'ed, because the worker that reads one keeps it for letters of its own or frees
 * it, whichever worker made it. A worker keeps some in reserve, so that between two ends on the
 * same worker none is malloc'ed.
 */
#include "daemon/op/channel/inbox.h"
#include "daemon/op/channel/core.h"
#include <assert.h>

/* Puts it into the inbox of the end with that number, if there is one on this worker whose other
 * end is in this daemon. */
static void inbox_put(struct worker *w, struct channel_letter *letter) {
    struct op_channel *to = channel_find(w, letter->message.channel);
    if (!to || to->remote) {
        letter_put(w, letter);
        return;
    }
    list_append(&to->inbox, &letter->node);
    channel_touch(to);
}

static void arrived(struct mail *mail) {
    struct channel_letter *letter = container_of(mail, struct channel_letter, mail);
    inbox_put(letter->to, letter);
}

void letter_post(struct op_channel *ch, struct channel_letter *letter) {
    assert(ch->peer_worker);
    if (ch->peer_worker == ch->worker) {
        inbox_put(ch->worker, letter);
        return;
    }
    letter->to = ch->peer_worker;
    mailbox_post(&letter->to->mailbox, &letter->mail, arrived);
}

void inbox_clear(struct op_channel *ch) {
    for (struct channel_letter *letter; (letter = inbox_take(ch));)
        letter_put(ch->worker, letter);
}

void letters_free(struct channels *all) {
    for (struct channel_letter *letter; (letter = all->spare_letters);) {
        all->spare_letters = letter->next;
        free(letter);
    }
}
