/* SPDX-License-Identifier: MIT */
/*
 * raw_ring.c - a ring without the library's good manners.
 */
#include "common/memfd.h"
#include "common/ringword.h"
#include "tests/support/harness.h"
#include "tests/support/rawclient.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static size_t page_round(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

int raw_ring_make(int sock, uint32_t entries, struct raw_ring *out) {
    struct rdmad_ring_create_req req = {.sq_entries = entries};
    struct raw_packet reply;
    int status = raw_request(sock, RDMAD_MSG_RING_CREATE, &req, sizeof(req), &reply);
    if (status)
        return status;
    const struct rdmad_ring_create_rep *rep = raw_body(&reply);
    CHECK(reply.nfds == 4, "a ring comes with four descriptors, not %u", reply.nfds);
    *out = (struct raw_ring){.handle = rep->ring,
                             .sq_entries = rep->sq_entries,
                             .cq_entries = rep->cq_entries,
                             .client_fd = reply.fds[0],
                             .daemon_fd = reply.fds[1],
                             .wakeup = reply.fds[2],
                             .doorbell = reply.fds[3]};
    out->client_bytes = page_round(RDMAD_RING_CLIENT_BYTES(out->sq_entries));
    out->daemon_bytes = page_round(RDMAD_RING_DAEMON_BYTES(out->cq_entries));
    out->client =
        mmap(NULL, out->client_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, out->client_fd, 0);
    out->daemon = mmap(NULL, out->daemon_bytes, PROT_READ, MAP_SHARED, out->daemon_fd, 0);
    CHECK(out->client != MAP_FAILED && out->daemon != MAP_FAILED, "mmap of the ring: %s",
          strerror(errno));
    out->sqe = (void *)((char *)out->client + RDMAD_RING_ENTRIES_OFFSET);
    out->cqe = (const void *)((const char *)out->daemon + RDMAD_RING_ENTRIES_OFFSET);
    return 0;
}

int raw_ring_ready(int sock, uint64_t ring, char *text) {
    struct rdmad_ring_ready_req req = {.ring = ring};
    struct raw_packet reply;
    int status = raw_request(sock, RDMAD_MSG_RING_READY, &req, sizeof(req), &reply);
    if (status && text)
        snprintf(text, RDMAD_TEXT_MAX + 1, "%s", raw_text(&reply));
    return status;
}

int raw_ring_create(int sock, uint32_t entries, struct raw_ring *out) {
    char text[RDMAD_TEXT_MAX + 1];
    int status = raw_ring_make(sock, entries, out);
    if (status)
        return status;
    CHECK(rdmad_memfd_populate((void *)(uintptr_t)out->daemon, out->daemon_bytes, false) == 0,
          "populate: %s", strerror(errno));
    raw_populate_and_seal(out->client, out->client_bytes, out->client_fd);
    status = raw_ring_ready(sock, out->handle, text);
    CHECK(status == 0, "a ring that is populated and sealed is not ready: %s", text);
    return 0;
}

void raw_ring_unmap(struct raw_ring *r) {
    munmap(r->client, r->client_bytes);
    munmap((void *)(uintptr_t)r->daemon, r->daemon_bytes);
    close(r->client_fd);
    close(r->daemon_fd);
    close(r->wakeup);
    close(r->doorbell);
}

void raw_ring_tail(struct raw_ring *r, uint32_t tail) {
    r->sq_tail = tail;
    if (ringword_publish_and_ask(&r->client->sq_tail, tail, &r->daemon->sq_wait))
        eventfd_write(r->doorbell, 1);
}

void raw_ring_put(struct raw_ring *r, const struct rdmad_sqe *sqes, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        memcpy(&r->sqe[(r->sq_tail + i) & (r->sq_entries - 1)], &sqes[i], sizeof(*sqes));
    raw_ring_tail(r, r->sq_tail + count);
}

bool raw_ring_take(struct raw_ring *r, struct rdmad_cqe *out, int timeout_ms) {
    uint64_t deadline = now_ms() + (uint64_t)timeout_ms;
    while (ringword_peek(&r->daemon->cq_tail) == r->cq_head) {
        if (ringword_arm_and_peek(&r->client->cq_wait, &r->daemon->cq_tail) == r->cq_head) {
            struct pollfd p = {.fd = r->wakeup, .events = POLLIN};
            uint64_t now = now_ms();
            if (now >= deadline || poll(&p, 1, (int)(deadline - now)) <= 0)
                return false;
            char scrap[64];
            ssize_t n = recv(r->wakeup, scrap, sizeof(scrap), MSG_DONTWAIT);
            if (n == 0)
                return ringword_peek(&r->daemon->cq_tail) != r->cq_head;
        }
        ringword_disarm(&r->client->cq_wait);
    }
    memcpy(out, &r->cqe[r->cq_head & (r->cq_entries - 1)], sizeof(*out));
    ringword_publish(&r->client->cq_head, ++r->cq_head);
    return true;
}
