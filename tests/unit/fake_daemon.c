/* SPDX-License-Identifier: MIT */
#include "tests/unit/fake_daemon.h"

#include "common/fdmsg.h"
#include "common/memfd.h"
#include "common/ringword.h"
#include "tests/support/temp.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static void must(bool ok, const char *what) {
    if (!ok) {
        perror(what);
        abort();
    }
}

/* ---- messages ------------------------------------------------------------------------------ */

void fake_send(struct fake_daemon *f, uint16_t type, uint32_t seq, int status, const void *body,
               size_t size, const int *fds, unsigned nfds) {
    char packet[RDMAD_MSG_MAX];
    struct rdmad_msg_header h = {.magic = RDMAD_WIRE_MAGIC,
                                 .version = f->version ? f->version : RDMAD_ABI_VERSION,
                                 .type = type,
                                 .length = (uint32_t)(sizeof(h) + size),
                                 .seq = seq,
                                 .status = status};

    memcpy(packet, &h, sizeof(h));
    if (size)
        memcpy(packet + sizeof(h), body, size);
    rdmad_fdmsg_send(f->conn, packet, h.length, fds, nfds);
}

static void reply(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body,
                  size_t size, const int *fds, unsigned nfds) {
    fake_send(f, h->type | RDMAD_MSG_REPLY, h->seq, 0, body, size, fds, nfds);
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
}

void fake_refuse(struct fake_daemon *f, const struct rdmad_msg_header *h, int status,
                 const char *text) {
    struct rdmad_msg_error e = {.text = ""};

    snprintf(e.text, sizeof(e.text), "%s", text);
    fake_send(f, h->type | RDMAD_MSG_REPLY, h->seq, status, &e, sizeof(e), NULL, 0);
}

void fake_lease_ended(struct fake_daemon *f, uint64_t lease, uint64_t handle, int reason) {
    struct rdmad_ev_lease_ended e = {.lease = lease, .handle = handle, .reason = reason};

    snprintf(e.text, sizeof(e.text), "lease %llu ended", (unsigned long long)lease);
    fake_send(f, RDMAD_EV_LEASE_ENDED, 0, 0, &e, sizeof(e), NULL, 0);
}

void fake_event(struct fake_daemon *f, uint16_t type, const void *body, size_t size) {
    fake_send(f, type, 0, 0, body, size, NULL, 0);
}

void fake_reply(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body,
                size_t size) {
    reply(f, h, body, size, NULL, 0);
}

void fake_reply_attached(struct fake_daemon *f, const struct rdmad_msg_header *h, uint64_t handle) {
    const struct rdmad_lease_attach_rep rep = {.handle = handle,
                                               .lease = handle - 31 + 7,
                                               .length = 4096,
                                               .ttl_ns = UINT64_C(60000000000),
                                               .rights = RDMAD_RIGHTS_ALL,
                                               .fabric = "tcp"};
    fake_reply(f, h, &rep, sizeof(rep));
}

void fake_hang_up(struct fake_daemon *f) {
    shutdown(f->conn, SHUT_RDWR);
}

static void socket_move(struct fake_daemon *f, const char *from, const char *to) {
    char old[128], new[128];
    snprintf(old, sizeof(old), "%s/%s", f->dir, from);
    snprintf(new, sizeof(new), "%s/%s", f->dir, to);
    must(rename(old, new) == 0, "rename");
}

void fake_hide(struct fake_daemon *f) {
    socket_move(f, "rdmad.sock", "gone");
}

void fake_go(struct fake_daemon *f) {
    fake_hide(f);
    fake_hang_up(f);
}

void fake_come_back(struct fake_daemon *f) {
    socket_move(f, "gone", "rdmad.sock");
}

/* ---- the plain answers --------------------------------------------------------------------- */

static void answer_hello(struct fake_daemon *f, const struct rdmad_msg_header *h) {
    struct rdmad_hello_rep rep = {.session = 1,
                                  .max_pool_bytes = 1 << 20,
                                  .default_timeout_ns = 1000000000,
                                  .spin_ns = f->spin_ns,
                                  .node = "fake",
                                  .fabric = "none"};

    reply(f, h, &rep, sizeof(rep), NULL, 0);
}

static void answer_pool(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    const struct rdmad_pool_create_req *req = body;
    struct rdmad_pool_create_rep rep = {.pool = FAKE_POOL + f->npools};
    size_t bytes = req->bytes;
    int fd = rdmad_memfd_create("fake", &bytes, false);

    must(f->npools < FAKE_POOLS, "a fake daemon has few pools");
    f->pool[f->npools] = rdmad_memfd_map(fd, bytes, true);
    f->pool_bytes[f->npools++] = bytes;
    rep.bytes = bytes;
    reply(f, h, &rep, sizeof(rep), &fd, 1);
}

static void forget_ring(struct fake_ring *r) {
    if (!r->client)
        return;
    munmap(r->client, r->client_bytes);
    munmap(r->daemon, r->daemon_bytes);
    close(r->wakeup);
    close(r->doorbell);
    r->client = NULL;
}

static void answer_ring(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    const struct rdmad_ring_create_req *req = body;
    struct rdmad_ring_create_rep rep = {
        .ring = 21 + f->nrings, .sq_entries = req->sq_entries, .cq_entries = 2 * req->sq_entries};
    int fds[4];

    must(f->nrings < FAKE_RINGS, "a fake daemon has few rings");
    f->ring = &f->rings[f->nrings];
    fake_ring_make(f->ring, req->sq_entries, fds);
    f->ring->unready = true;
    __atomic_store_n(&f->nrings, f->nrings + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&f->have_ring, true, __ATOMIC_RELEASE);
    reply(f, h, &rep, sizeof(rep), fds, 4);
}

/* It begins where the client's tail stands. */
static void answer_ready(struct fake_daemon *f, const struct rdmad_msg_header *h,
                         const void *body) {
    const struct rdmad_ring_ready_req *req = body;
    struct fake_ring *r = &f->rings[req->ring - 21];

    r->sq_head = ringword_peek(&r->client->sq_tail);
    ringword_publish(&r->daemon->sq_head, r->sq_head);
    __atomic_store_n(&r->unready, false, __ATOMIC_RELEASE);
    reply(f, h, NULL, 0, NULL, 0);
}

void fake_await_ring(struct fake_daemon *f) {
    while (!__atomic_load_n(&f->have_ring, __ATOMIC_ACQUIRE))
        usleep(100);
}

static void answer_grant(struct fake_daemon *f, const struct rdmad_msg_header *h) {
    struct rdmad_lease_grant_rep rep = {
        .lease = 7, .ttl_ns = f->ttl_ns, .uri = "rdmad:///lease/7?key=00"};

    reply(f, h, &rep, sizeof(rep), NULL, 0);
}

static void answer_attach(struct fake_daemon *f, const struct rdmad_msg_header *h) {
    struct rdmad_lease_attach_rep rep = {.handle = 31,
                                         .lease = 7,
                                         .length = 4096,
                                         .ttl_ns = f->ttl_ns,
                                         .rights = RDMAD_RIGHTS_ALL,
                                         .fabric = "local"};

    reply(f, h, &rep, sizeof(rep), NULL, 0);
}

static void answer_listen(struct fake_daemon *f, const struct rdmad_msg_header *h) {
    struct rdmad_service_listen_rep rep = {.service = 51, .uri = "rdmad://127.0.0.1:1/service"};

    reply(f, h, &rep, sizeof(rep), NULL, 0);
}

static void answer_channel(struct fake_daemon *f, const struct rdmad_msg_header *h,
                           uint64_t number) {
    struct rdmad_channel_rep rep = {.channel = number,
                                    .max_message = 1 << 20,
                                    .kind = RDMAD_CHANNEL_RELIABLE,
                                    .peer_uid = 1000,
                                    .fabric = "local",
                                    .peer_node = "there",
                                    .peer_address = "127.0.0.1:2"};

    reply(f, h, &rep, sizeof(rep), NULL, 0);
}

/* ---- what one after it is asked ------------------------------------------------------------ */

static void answer_pool_resume(struct fake_daemon *f, const struct rdmad_msg_header *h,
                               const void *body) {
    const struct rdmad_pool_resume_req *req = body;
    struct rdmad_pool_create_rep rep = {.pool = req->pool, .bytes = req->bytes};

    reply(f, h, &rep, sizeof(rep), NULL, 0);
}

/* False: it is none of these. */
static bool answer_resume(struct fake_daemon *f, const struct rdmad_msg_header *h,
                          const void *body) {
    static const struct rdmad_resume_offer_rep offer;
    struct rdmad_channel_proof_rep proof;

    switch (h->type) {
    case RDMAD_MSG_RESUME_OFFER:
        reply(f, h, &offer, sizeof(offer), NULL, 0);
        return true;
    case RDMAD_MSG_POOL_RESUME:
        answer_pool_resume(f, h, body);
        return true;
    case RDMAD_MSG_ATTACH_RESUME:
        answer_attach(f, h);
        return true;
    case RDMAD_MSG_LEASE_RESUME:
        answer_grant(f, h);
        return true;
    case RDMAD_MSG_CHANNEL_PROOF:
        memset(proof.key, (int)((const struct rdmad_channel_proof_req *)body)->channel,
               sizeof(proof.key));
        reply(f, h, &proof, sizeof(proof), NULL, 0);
        return true;
    case RDMAD_MSG_CHANNEL_RESUME:
        answer_channel(f, h, ((const struct rdmad_channel_resume_req *)body)->channel);
        return true;
    default:
        return false;
    }
}

static void answer(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    struct rdmad_lease_stat_rep stat = {.lease = 7, .ops = 3};
    struct rdmad_names_watch_rep watch = {.watch = 3};

    if (h->type == RDMAD_MSG_RESUME_OFFER && !f->outlived) { /* as an older daemon does */
        fake_refuse(f, h, RDMAD_E_TYPE, "message type 30 is unknown");
        return;
    }
    if (h->type == RDMAD_MSG_LIFELINE) {
        if (f->lifeline) {
            int fd = dup(f->lifeline);
            reply(f, h, NULL, 0, &fd, 1);
        } else {
            fake_refuse(f, h, RDMAD_E_TYPE, "message type 41 is unknown");
        }
        return;
    }
    if (f->hook && f->hook(f, h, body))
        return;
    if (f->outlived && answer_resume(f, h, body))
        return;
    switch (h->type) {
    case RDMAD_MSG_HELLO:
        return answer_hello(f, h);
    case RDMAD_MSG_POOL_CREATE:
        return answer_pool(f, h, body);
    case RDMAD_MSG_RING_CREATE:
        return answer_ring(f, h, body);
    case RDMAD_MSG_RING_READY:
        return answer_ready(f, h, body);
    case RDMAD_MSG_LEASE_GRANT:
        return answer_grant(f, h);
    case RDMAD_MSG_LEASE_ATTACH:
        return answer_attach(f, h);
    case RDMAD_MSG_SERVICE_LISTEN:
    case RDMAD_MSG_SERVICE_RESUME:
        return answer_listen(f, h);
    case RDMAD_MSG_CHANNEL_CONNECT:
    case RDMAD_MSG_CHANNEL_ACCEPT:
        return answer_channel(f, h, 41 + f->nchannels++);
    case RDMAD_MSG_NAMES_WATCH:
        return reply(f, h, &watch, sizeof(watch), NULL, 0);
    case RDMAD_MSG_LEASE_STAT:
        return reply(f, h, &stat, sizeof(stat), NULL, 0);
    default:
        return reply(f, h, NULL, 0, NULL, 0);
    }
}

/* ---- the thread ---------------------------------------------------------------------------- */

/* Whether it was told to stop. */
static bool serve(struct fake_daemon *f) {
    struct {
        struct rdmad_msg_header header;
        char body[RDMAD_MSG_MAX - sizeof(struct rdmad_msg_header)];
    } p;

    for (;;) {
        struct pollfd fds[2] = {{.fd = f->conn, .events = POLLIN},
                                {.fd = f->stop[0], .events = POLLIN}};
        size_t size = sizeof(p);
        unsigned nfds;
        int fd;
        poll(fds, 2, -1);
        if (fds[1].revents)
            return true;
        int rc = rdmad_fdmsg_recv(f->conn, &p, &size, &fd, f->outlived ? 1 : 0, &nfds);
        if (rc == RDMAD_E_AGAIN)
            continue;
        if (rc || size == 0)
            return !f->outlived;
        if (nfds)
            close(fd); /* it is mapped already */
        answer(f, &p.header, p.body);
    }
}

static void *run(void *arg) {
    struct fake_daemon *f = arg;
    struct pollfd fds[2] = {{.fd = f->listener, .events = POLLIN},
                            {.fd = f->stop[0], .events = POLLIN}};

    do {
        poll(fds, 2, -1);
        if (fds[1].revents)
            return NULL;
        if (f->conn >= 0)
            close(f->conn);
        f->conn = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
        __atomic_add_fetch(&f->lives, 1, __ATOMIC_RELEASE);
    } while (!serve(f));
    return NULL;
}

void fake_start(struct fake_daemon *f) {
    struct sockaddr_un sun = {.sun_family = AF_UNIX};

    if (!f->ttl_ns)
        f->ttl_ns = 60000000000;
    f->conn = -1;
    must(temp_dir(f->dir, sizeof(f->dir), 40, "fake"), "a directory");
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/rdmad.sock", f->dir);
    f->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    must(bind(f->listener, (struct sockaddr *)&sun, sizeof(sun)) == 0, "bind");
    must(listen(f->listener, 4) == 0, "listen");
    must(pipe(f->stop) == 0, "pipe");
    must(pthread_create(&f->thread, NULL, run, f) == 0, "thread");
}

void fake_stop(struct fake_daemon *f) {
    char path[128];

    must(write(f->stop[1], "", 1) == 1, "stop");
    pthread_join(f->thread, NULL);
    for (unsigned i = 0; i < f->nrings; i++)
        forget_ring(&f->rings[i]);
    for (unsigned i = 0; i < f->npools; i++)
        munmap(f->pool[i], f->pool_bytes[i]);
    close(f->stop[0]);
    close(f->stop[1]);
    close(f->listener);
    if (f->conn >= 0)
        close(f->conn);
    snprintf(path, sizeof(path), "%s/rdmad.sock", f->dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/gone", f->dir);
    unlink(path);
    rmdir(f->dir);
}

/* ---- the ring ------------------------------------------------------------------------------ */

void fake_ring_make(struct fake_ring *r, uint32_t entries, int fds[4]) {
    int pair[2];

    *r = (struct fake_ring){.sq_entries = entries, .cq_entries = 2 * entries};
    r->client_bytes = RDMAD_RING_CLIENT_BYTES(r->sq_entries);
    r->daemon_bytes = RDMAD_RING_DAEMON_BYTES(r->cq_entries);
    fds[0] = rdmad_memfd_create("fake-client", &r->client_bytes, false);
    fds[1] = rdmad_memfd_create("fake-daemon", &r->daemon_bytes, false);
    r->client = rdmad_memfd_map(fds[0], r->client_bytes, true);
    r->daemon = rdmad_memfd_map(fds[1], r->daemon_bytes, true);
    must(r->client && r->daemon && rdmad_memfd_freeze(fds[1]) == 0, "ring memory");
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    fds[2] = pair[0];
    r->wakeup = pair[1];
    must(shutdown(r->wakeup, SHUT_RD) == 0, "shutdown");
    r->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fds[3] = dup(r->doorbell);
    must(r->doorbell >= 0 && fds[3] >= 0, "eventfd");
    r->sqe = (struct rdmad_sqe *)((char *)r->client + RDMAD_RING_ENTRIES_OFFSET);
    r->cqe = (struct rdmad_cqe *)((char *)r->daemon + RDMAD_RING_ENTRIES_OFFSET);
}

bool fake_ring_take(struct fake_ring *r, struct rdmad_sqe *out) {
    struct timespec moment = {.tv_nsec = 100000};

    for (unsigned i = 0; !fake_ring_has(r); i++) {
        if (i == 100000)
            return false;
        nanosleep(&moment, NULL);
    }
    *out = r->sqe[r->sq_head++ & (r->sq_entries - 1)];
    ringword_publish(&r->daemon->sq_head, r->sq_head);
    return true;
}

bool fake_ring_has(struct fake_ring *r) {
    return !__atomic_load_n(&r->unready, __ATOMIC_ACQUIRE) &&
           ringword_peek(&r->client->sq_tail) != r->sq_head;
}

bool fake_ring_complete(struct fake_ring *r, const struct rdmad_cqe *cqe) {
    r->cqe[r->cq_tail++ & (r->cq_entries - 1)] = *cqe;
    if (!ringword_publish_and_ask(&r->daemon->cq_tail, r->cq_tail, &r->client->cq_wait))
        return false;
    send(r->wakeup, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    return true;
}
