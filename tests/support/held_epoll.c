/* SPDX-License-Identifier: MIT */
/* held_epoll.c - epoll_wait into a page that is missing. */
#include "tests/support/held_epoll.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096u

bool held_epoll_make(struct held_epoll *h) {
    struct uffdio_api api = {.api = UFFD_API};
    h->pages = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (h->pages < 0)
        return false;
    h->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register area = {.range = {.start = (uintptr_t)h->page, .len = PAGE},
                                   .mode = UFFDIO_REGISTER_MODE_MISSING};
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->event = eventfd(1, EFD_CLOEXEC);
    if (h->page != MAP_FAILED && !ioctl(h->pages, UFFDIO_API, &api) &&
        !ioctl(h->pages, UFFDIO_REGISTER, &area) && held_epoll_watch(h, h->event))
        return true;
    close(h->pages);
    return false;
}

bool held_epoll_watch(struct held_epoll *h, int fd) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    return !epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &event);
}

static void *wait_for_page(void *arg) {
    struct held_epoll *h = arg;
    (void)epoll_wait(h->epoll, h->page, 1, -1);
    return NULL;
}

void held_epoll_hold(struct held_epoll *h) {
    struct pollfd fault = {.fd = h->pages, .events = POLLIN};
    pthread_create(&h->thread, NULL, wait_for_page, h);
    poll(&fault, 1, -1); /* the kernel asks for the page */
}

void held_epoll_let_go(struct held_epoll *h) {
    struct uffdio_zeropage page = {.range = {.start = (uintptr_t)h->page, .len = PAGE}};
    ioctl(h->pages, UFFDIO_ZEROPAGE, &page);
    pthread_join(h->thread, NULL);
    close(h->event);
    close(h->epoll);
    close(h->pages);
    munmap(h->page, PAGE);
}
