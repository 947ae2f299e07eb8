/* SPDX-License-Identifier: MIT */
/*
 * mailbox.h - how work crosses threads: many senders, one receiver, messages run in order.
 *
 * A message is embedded in the sender's own struct and carries the function that the receiving
 * thread runs on it; from post until that function is called it belongs to the mailbox, then to the
 * function. Nothing allocates, so posting cannot fail.
 */
#ifndef RDMAD_BASE_MAILBOX_H
#define RDMAD_BASE_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>

struct mail {
    struct mail *next;
    void (*deliver)(struct mail *mail); /* runs on the receiving thread, may free mail */
};

struct mailbox {
    pthread_mutex_t lock;
    struct mail *head, **tail;
    bool pending; /* atomic: mail waits; lets a polling receiver look without the lock */
    int fd;       /* eventfd of this process alone; readable while mail waits and wanted */
};

int mailbox_init(struct mailbox *box);  /* 0 or RDMAD_E_SYSTEM */
void mailbox_fini(struct mailbox *box); /* must be empty */

/* Any thread. Wakes the receiver through box->fd. */
void mailbox_post(struct mailbox *box, struct mail *mail, void (*deliver)(struct mail *));

/* The receiving thread: delivers all that waits (not what those deliveries post). Returns how many.
 */
unsigned mailbox_drain(struct mailbox *box);

/* Cheap look for polling loops. */
static inline bool mailbox_pending(const struct mailbox *box) {
    return __atomic_load_n(&box->pending, __ATOMIC_ACQUIRE);
}

#endif
