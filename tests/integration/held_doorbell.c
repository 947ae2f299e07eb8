/* SPDX-License-Identifier: MIT */
/*
 * held_doorbell DIR: a client of the daemon with that runtime directory whose ring has ended and
 * whose doorbell cannot be closed. Says "held" then, or "skipped", and ends with its standard
 * input.
 */
#include "tests/support/held_epoll.h"
#include "tests/support/rawclient.h"
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct held_epoll held;
    struct raw_ring ring;
    struct raw_packet reply;
    char byte;
    if (argc != 2)
        return 2;
    if (!held_epoll_make(&held)) {
        puts("skipped");
        return 0;
    }
    int sock = raw_session(argv[1]);
    if (raw_ring_create(sock, 8, &ring) || !held_epoll_watch(&held, ring.doorbell))
        return 1;
    struct rdmad_ring_destroy_req req = {.ring = ring.handle};
    raw_ring_unmap(&ring); /* the daemon has the last reference now */
    held_epoll_hold(&held);
    if (raw_request(sock, RDMAD_MSG_RING_DESTROY, &req, sizeof(req), &reply))
        return 1;
    puts("held");
    fflush(stdout);
    (void)!read(STDIN_FILENO, &byte, 1);
    held_epoll_let_go(&held);
    return 0;
}
