/* SPDX-License-Identifier: MIT */
/*
 * mailbox.c - a locked list and an eventfd.
 *
 * The eventfd is written only by the post that finds the box empty, so a burst costs one wake-up,
 * and read when the list is taken, both under the lock: outside of it the descriptor is readable
 * exactly when mail waits. A receiver that polls may see mail before its poster has written to the
 * eventfd. If it could take the list then, the write would come to an empty box, and the receiver
 * would never sleep again. Writing under the lock also lets a receiver which drained the last mail
 * close the box at once.
 */
#include "daemon/base/mailbox.h"
#include <assert.h>
#include <errno.h>
#include <rdmad/abi.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mailbox_init(struct mailbox *box) {
    box->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (box->fd < 0)
        return RDMAD_E_SYSTEM;
    pthread_mutex_init(&box->lock, NULL);
    box->head = NULL;
    box->tail = &box->head;
    box->pending = false;
    return 0;
}

void mailbox_fini(struct mailbox *box) {
    assert(box->fd >= 0);
    close(box->fd);
    box->fd = -1;
    pthread_mutex_destroy(&box->lock);
}

static void mailbox_wake(int fd) {
    uint64_t one = 1;
    ssize_t n;
    do {
        n = write(fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
    /* EAGAIN would need 2^64 - 1 unread wake-ups. */
}

void mailbox_post(struct mailbox *box, struct mail *mail, void (*deliver)(struct mail *)) {
    assert(deliver);
    mail->next = NULL;
    mail->deliver = deliver;

    pthread_mutex_lock(&box->lock);
    bool was_empty = box->head == NULL;
    *box->tail = mail;
    box->tail = &mail->next;
    __atomic_store_n(&box->pending, true, __ATOMIC_RELEASE);
    if (was_empty)
        mailbox_wake(box->fd);
    pthread_mutex_unlock(&box->lock);
}

static void mailbox_silence(int fd) {
    uint64_t ignored;
    ssize_t n;
    do {
        n = read(fd, &ignored, sizeof(ignored));
    } while (n < 0 && errno == EINTR);
}

unsigned mailbox_drain(struct mailbox *box) {
    pthread_mutex_lock(&box->lock);
    struct mail *mail = box->head;
    if (mail)
        mailbox_silence(box->fd);
    box->head = NULL;
    box->tail = &box->head;
    __atomic_store_n(&box->pending, false, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&box->lock);

    unsigned count = 0;
    while (mail) {
        struct mail *next = mail->next; /* deliver may free mail */
        mail->deliver(mail);
        mail = next;
        count++;
    }
    return count;
}
