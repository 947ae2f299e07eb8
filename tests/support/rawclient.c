/* SPDX-License-Identifier: MIT */
/*
 * rawclient.c - the socket's packets; raw_ring.c has the rings.
 */
#include "tests/support/rawclient.h"

#include "common/fdmsg.h"
#include "common/memfd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int raw_connect(const char *runtime_dir) {
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int n = snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/rdmad.sock", runtime_dir);
    CHECK(n > 0 && (size_t)n < sizeof(sa.sun_path), "path too long");
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(sock >= 0, "socket: %s", strerror(errno));
    CHECK(connect(sock, (struct sockaddr *)&sa, sizeof(sa)) == 0, "%s: %s", sa.sun_path,
          strerror(errno));
    return sock;
}

/* Not rdmad_fdmsg_send: that one would refuse what these tests must send. */
int raw_send(int sock, const void *data, size_t size, const int *fds, unsigned nfds) {
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(253 * sizeof(int))];
    } control;
    struct iovec iov = {(void *)(uintptr_t)data, size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (nfds) {
        CHECK(nfds <= 253, "the kernel takes no more than 253 descriptors");
        memset(&control, 0, sizeof(control));
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
    }
    return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

bool raw_recv(int sock, struct raw_packet *out, int timeout_ms) {
    struct pollfd p = {.fd = sock, .events = POLLIN};
    memset(out, 0, sizeof(*out));
    if (poll(&p, 1, timeout_ms) <= 0)
        return false;
    out->size = sizeof(out->bytes);
    int rc =
        rdmad_fdmsg_recv(sock, out->bytes, &out->size, out->fds, RDMAD_MSG_MAX_FDS, &out->nfds);
    if (rc == RDMAD_E_SYSTEM && (errno == ECONNRESET || errno == EPIPE))
        out->size = 0; /* closed with packets of ours unread */
    else
        CHECK(rc == 0, "receive: error %d, %s", rc, strerror(errno));
    return true;
}

void raw_drop(struct raw_packet *p) {
    for (unsigned i = 0; i < p->nfds; i++)
        close(p->fds[i]);
    p->nfds = 0;
}

void raw_header(struct rdmad_msg_header *h, uint16_t type, size_t body_size) {
    static uint32_t seq;
    *h = (struct rdmad_msg_header){.magic = RDMAD_WIRE_MAGIC,
                                   .version = RDMAD_ABI_VERSION,
                                   .type = type,
                                   .length = (uint32_t)(sizeof(*h) + body_size),
                                   .seq = ++seq};
}

int raw_request(int sock, uint16_t type, const void *body, size_t size, struct raw_packet *reply) {
    struct {
        struct rdmad_msg_header header;
        uint8_t body[RDMAD_MSG_MAX];
    } m;
    CHECK(size <= sizeof(m.body), "request too large");
    raw_header(&m.header, type, size);
    memcpy(m.body, body, size);
    int rc = raw_send(sock, &m, sizeof(m.header) + size, NULL, 0);
    CHECK(rc == 0, "request of type %u: %s", type, strerror(-rc));
    for (;;) {
        CHECK(raw_recv(sock, reply, (int)TEST_PATIENCE_MS), "no reply to type %u", type);
        CHECK(reply->size >= sizeof(reply->header), "closed instead of replying to type %u", type);
        if (reply->header.seq == m.header.seq && (reply->header.type & RDMAD_MSG_REPLY))
            break;
        raw_drop(reply);
    }
    CHECK(reply->header.magic == RDMAD_WIRE_MAGIC && reply->header.length == reply->size &&
              reply->header.type == (type | RDMAD_MSG_REPLY) && reply->header.reserved == 0,
          "malformed reply to type %u", type);
    return reply->header.status;
}

int raw_session(const char *runtime_dir) {
    struct rdmad_hello_req hello = {.name = "raw"};
    struct raw_packet reply;
    int sock = raw_connect(runtime_dir);
    int status = raw_request(sock, RDMAD_MSG_HELLO, &hello, sizeof(hello), &reply);
    CHECK(status == 0, "hello: %s", raw_text(&reply));
    return sock;
}

static json_int_t fds_of(const json_t *objects) {
    return json_integer_value(json_object_get(objects, "fds"));
}

json_t *raw_objects_at_rest(struct tdaemon *d) {
    json_t *first = tdaemon_objects(d), *now = NULL;
    uint64_t until = now_ms() + TEST_PATIENCE_MS / 4;
    close(raw_session(tdaemon_dir(d)));
    tdaemon_expect_no_session(d);
    do { /* what was the session's is closed by the porter, which a busy machine may keep waiting */
        json_decref(now);
        sleep_ms(100);
        now = tdaemon_objects(d);
    } while (fds_of(now) > fds_of(first) && now_ms() < until);
    json_decref(first);
    return now;
}

bool raw_ended(int sock, int timeout_ms) {
    struct raw_packet p;
    uint64_t deadline = now_ms() + (uint64_t)timeout_ms;
    for (;;) {
        uint64_t now = now_ms();
        if (now >= deadline || !raw_recv(sock, &p, (int)(deadline - now)))
            return false;
        if (p.size == 0)
            return true;
        raw_drop(&p);
    }
}

void raw_expect_told_away(int sock, int code, const char *words) {
    struct raw_packet p;
    CHECK(raw_recv(sock, &p, (int)TEST_PATIENCE_MS) && p.size > sizeof(p.header),
          "who is turned away hears nothing");
    CHECK(p.header.type == RDMAD_EV_SESSION_ENDED && p.header.status == code, "type %u, status %d",
          p.header.type, p.header.status);
    CHECK(strstr(raw_text(&p), words), "said: %s", raw_text(&p));
    printf("  said: %s\n", raw_text(&p));
}

void raw_expect_turned_away(const char *dir, int code, const char *words) {
    int sock = raw_connect(dir);
    raw_expect_told_away(sock, code, words);
    CHECK(raw_ended(sock, (int)TEST_PATIENCE_MS), "who is turned away is not closed");
    close(sock);
}

/* ---- objects ------------------------------------------------------------------------------- */

static void copy_text(char *text, const struct raw_packet *reply) {
    if (text)
        snprintf(text, RDMAD_TEXT_MAX + 1, "%s", raw_text(reply));
}

int raw_pool_make(int sock, size_t bytes, uint32_t flags, struct raw_pool *out) {
    struct rdmad_pool_create_req req = {.bytes = bytes, .flags = flags};
    struct raw_packet reply;
    int status = raw_request(sock, RDMAD_MSG_POOL_CREATE, &req, sizeof(req), &reply);
    if (status)
        return status;
    const struct rdmad_pool_create_rep *rep = raw_body(&reply);
    CHECK(reply.nfds == 1, "a pool comes with one descriptor, not %u", reply.nfds);
    *out = (struct raw_pool){.handle = rep->pool, .bytes = rep->bytes, .fd = reply.fds[0]};
    out->base = mmap(NULL, out->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
    CHECK(out->base != MAP_FAILED, "mmap of the pool: %s", strerror(errno));
    return 0;
}

void raw_populate_and_seal(void *base, size_t bytes, int fd) {
    CHECK(rdmad_memfd_populate(base, bytes, true) == 0, "populate: %s", strerror(errno));
    CHECK(rdmad_memfd_freeze(fd) == 0, "seal: %s", strerror(errno));
}

int raw_pool_ready(int sock, uint64_t pool, char *text) {
    struct rdmad_pool_ready_req req = {.pool = pool};
    struct raw_packet reply;
    int status = raw_request(sock, RDMAD_MSG_POOL_READY, &req, sizeof(req), &reply);
    if (status)
        copy_text(text, &reply);
    return status;
}

int raw_pool_create(int sock, size_t bytes, uint32_t flags, struct raw_pool *out) {
    char text[RDMAD_TEXT_MAX + 1];
    int status = raw_pool_make(sock, bytes, flags, out);
    if (status)
        return status;
    raw_populate_and_seal(out->base, out->bytes, out->fd);
    status = raw_pool_ready(sock, out->handle, text);
    CHECK(status == 0, "a pool that is populated and sealed is not ready: %s", text);
    return 0;
}

void raw_pool_unmap(struct raw_pool *p) {
    munmap(p->base, p->bytes);
    close(p->fd);
}

int raw_grant(int sock, const struct raw_pool *pool, uint64_t ttl_ns,
              struct rdmad_lease_grant_rep *out, char *text) {
    /* Without atomics: a lease with them goes by the device on some fabrics. */
    struct rdmad_lease_grant_req req = {.pool = pool->handle,
                                        .length = pool->bytes,
                                        .ttl_ns = ttl_ns,
                                        .rights = RDMAD_RIGHTS_DEFAULT};
    struct raw_packet reply;
    int status = raw_request(sock, RDMAD_MSG_LEASE_GRANT, &req, sizeof(req), &reply);
    if (status)
        copy_text(text, &reply);
    else
        memcpy(out, raw_body(&reply), sizeof(*out));
    return status;
}

int raw_attach(int sock, const char *uri, struct rdmad_lease_attach_rep *out, char *text) {
    struct rdmad_lease_attach_req req = {0};
    struct raw_packet reply;
    snprintf(req.uri, sizeof(req.uri), "%s", uri);
    int status = raw_request(sock, RDMAD_MSG_LEASE_ATTACH, &req, sizeof(req), &reply);
    if (status)
        copy_text(text, &reply);
    else
        memcpy(out, raw_body(&reply), sizeof(*out));
    return status;
}

int raw_revoke(int sock, uint64_t lease) {
    struct rdmad_lease_revoke_req req = {.lease = lease};
    struct raw_packet reply;
    return raw_request(sock, RDMAD_MSG_LEASE_REVOKE, &req, sizeof(req), &reply);
}
