/* SPDX-License-Identifier: MIT */
/*
 * mailbox.c - a locked list and an eventfd.
 *
 * The eventfd is written only by the post that finds the box empty, so a burst costs one wake-up.
 * It is read before the list is taken: a post that comes in between finds the box empty again and
 * writes again, so no mail ever waits behind a silent descriptor. It is written under the lock, so
 * that a receiver which drained the last mail may close the box at once.
 */
#include "daemon/base/mailbox.h"
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
    close(box->fd);
    box->fd = -1;
    pthread_mutex_destroy(&box->lock);
}

static void wake(int fd) {
    uint64_t one = 1;
    ssize_t n;
    do {
        n = write(fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
    /* EAGAIN would need 2^64 - 1 unread wake-ups. */
}

void mailbox_post(struct mailbox *box, struct mail *mail, void (*deliver)(struct mail *)) {
    mail->next = NULL;
    mail->deliver = deliver;

    pthread_mutex_lock(&box->lock);
    bool was_empty = box->head == NULL;
    *box->tail = mail;
    box->tail = &mail->next;
    __atomic_store_n(&box->pending, true, __ATOMIC_RELEASE);
    if (was_empty)
        wake(box->fd);
    pthread_mutex_unlock(&box->lock);
}

unsigned mailbox_drain(struct mailbox *box) {
    uint64_t ignored;
    ssize_t n;
    do {
        n = read(box->fd, &ignored, sizeof(ignored));
    } while (n < 0 && errno == EINTR);

    pthread_mutex_lock(&box->lock);
    struct mail *mail = box->head;
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
