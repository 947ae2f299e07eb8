/* SPDX-License-Identifier: MIT */
#include "tests/unit/tcp_raw.h"
#include "daemon/fabric/tcp/blob.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

size_t raw_largest_recv;
unsigned raw_sends, raw_vain_sends, raw_recvs;

static ssize_t count_send(ssize_t n) {
    raw_sends++;
    raw_vain_sends += n < 0 && errno == EAGAIN;
    return n;
}

/* In place of libc's, for the engines too. */
ssize_t send(int fd, const void *from, size_t n, int flags) {
    return count_send(syscall(SYS_sendto, fd, from, n, flags, NULL, 0));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    return count_send(syscall(SYS_sendmsg, fd, message, flags));
}

ssize_t recv(int fd, void *to, size_t n, int flags) {
    raw_recvs++;
    if (n > raw_largest_recv)
        raw_largest_recv = n;
    return syscall(SYS_recvfrom, fd, to, n, flags, NULL, NULL);
}

/* ---- encrypted streams ------------------------------------------------------------------- */

#define FDS 1024
#define A_WRITE ((size_t)48 << 10) /* fits the buffer of what is sealed */

static struct raw_stream {
    struct secure *secure;
    struct outq out; /* empty between calls */
    uint8_t in[RECORD_INNER_MAX];
    size_t head, tail;
} * stream_of[FDS];

static struct ssl_ctx_st *context(void) {
    static struct ssl_ctx_st *made;
    if (!made)
        cr_assert_eq(handshakes_open(&made, NULL), 0);
    return made;
}

struct secure *raw_secure(int fd) {
    return stream_of[fd] ? stream_of[fd]->secure : NULL;
}

/* fd is a new socket, which has no stream, or this one. */
static void stream_set(int fd, struct secure *secure) {
    cr_assert(fd < FDS);
    if (stream_of[fd]) {
        secure_free(stream_of[fd]->secure);
        outq_fini(&stream_of[fd]->out);
        free(stream_of[fd]);
        stream_of[fd] = NULL;
    }
    if (!secure)
        return;
    struct raw_stream *s = stream_of[fd] = calloc(1, sizeof *s);
    cr_assert(s && outq_init(&s->out) == 0);
    s->secure = secure;
}

/* What is sealed goes first: false, with errno, while it does not. */
static bool stream_flush(int fd) {
    struct raw_stream *s = stream_of[fd];
    size_t asked;
    if (secure_unsent(s->secure) && secure_write(s->secure, fd, &s->out, &asked) < 0)
        return false;
    errno = EAGAIN;
    return !secure_unsent(s->secure);
}

static ssize_t stream_send(int fd, const void *data, size_t n) {
    struct raw_stream *s = stream_of[fd];
    size_t asked;
    if (n == 0 || !stream_flush(fd))
        return n == 0 ? 0 : -1;
    size_t all = 0;
    do {
        size_t part = n - all < A_WRITE ? n - all : A_WRITE;
        outq_refer(&s->out, (const uint8_t *)data + all, (uint32_t)part, 0, NULL);
        ssize_t sent = secure_write(s->secure, fd, &s->out, &asked);
        outq_drop(&s->out);
        cr_assert(sent == (ssize_t)part);
        all += part;
    } while (all < n && stream_flush(fd));
    return (ssize_t)all;
}

static ssize_t stream_recv(int fd, void *data, size_t n) {
    struct raw_stream *s = stream_of[fd];
    size_t asked;
    (void)stream_flush(fd);
    if (s->head == s->tail) {
        ssize_t got = secure_read(s->secure, fd, s->in, &asked);
        if (got <= 0)
            return got;
        s->head = 0;
        s->tail = (size_t)got;
    }
    n = n < s->tail - s->head ? n : s->tail - s->head;
    memcpy(data, s->in + s->head, n);
    s->head += n;
    return (ssize_t)n;
}

static void handshake_as_dialler(struct pair *p, int fd, const uint8_t *secret) {
    struct secure *secure = secure_dial(context(), secret);
    uint8_t early[RECORD_INNER_MAX];
    size_t asked;
    cr_assert(secure && secure_begin(secure, fd));
    errno = EAGAIN;
    while (secure->handshake) {
        ssize_t n = secure_read(secure, fd, early, &asked);
        cr_assert(n < 0 && (errno == EAGAIN || errno == EINTR), "handshake: %s",
                  errno == EBADMSG ? secure->wrong : strerror(errno));
        pair_turn(p);
    }
    stream_set(fd, secure);
}

static void handshake_as_acceptor(struct pair *p, int fd, const uint8_t *secret) {
    struct handshake *h = handshake_new(context(), false, secret);
    enum handshake_state state = HANDSHAKE_GOES_ON;
    uint8_t bytes[HANDSHAKE_READ];
    uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
    while (state == HANDSHAKE_GOES_ON) {
        pair_turn(p);
        cr_assert(clock_now_ns() < until, "the engine does not shake hands");
        ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n <= 0)
            continue;
        state = handshake_step(h, bytes, (size_t)n);
        n = (ssize_t)handshake_take(h, bytes);
        cr_assert_eq(send(fd, bytes, (size_t)n, MSG_NOSIGNAL), n);
    }
    cr_assert_eq(state, HANDSHAKE_DONE, "%s", handshake_why(h));
    stream_set(fd, secure_accept(h));
    handshake_free(h);
}

/* ---- raw peers --------------------------------------------------------------------------- */

uint16_t raw_port(const struct fabric_blob *offer) {
    uint16_t port;
    memcpy(&port, offer->bytes + 2, sizeof port);
    return le16toh(port);
}

const uint8_t *raw_token(const struct fabric_blob *offer) {
    return offer->bytes + 4;
}

static int loopback_socket(struct sockaddr_in *a, uint16_t port, int flags) {
    *a = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    cr_assert(fd >= 0);
    return fd;
}

int raw_dial(uint16_t port) {
    struct sockaddr_in a;
    int fd = loopback_socket(&a, port, SOCK_NONBLOCK);
    int window = 64 << 10, one = 1; /* what is not drained piles up at the engine */
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof window), 0);
    cr_assert_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
    int rc = connect(fd, (struct sockaddr *)&a, sizeof a);
    cr_assert(rc == 0 || errno == EINPROGRESS);
    stream_set(fd, NULL);
    return fd;
}

void raw_welcomed(struct pair *p, int fd, const struct fabric_blob *offer) {
    struct invitation i;
    uint8_t welcome[WELCOME_BYTES];
    cr_assert(offer_read(offer, &i));
    if (i.encrypt)
        handshake_as_dialler(p, fd, i.secret);
    raw_recv(p, fd, welcome, sizeof welcome);
    cr_assert_null(welcome_check(welcome));
}

int raw_dial_as(struct pair *p, uint64_t peer) {
    struct error err = {0};
    struct fabric_blob offer;
    uint8_t hello[HELLO_BYTES];
    cr_assert_eq(fabric_tcp.offer(p->owner.fabric, peer, false, &no_hello, &offer, &err), 0, "%s",
                 err.text);
    int fd = raw_dial(raw_port(&offer));
    hello_put(hello, raw_token(&offer));
    raw_send(p, fd, hello, sizeof hello);
    raw_welcomed(p, fd, &offer);
    return fd;
}

static struct invitation raw_invitation(void) {
    struct invitation i = {.number = RAW_NUMBER, .encrypt = pair_encrypts()};
    memset(i.token, 0xaa, sizeof i.token);
    memset(i.secret, 0xbb, sizeof i.secret);
    return i;
}

int raw_listen(struct fabric_blob *offer) {
    struct sockaddr_in a;
    socklen_t size = sizeof a;
    int fd = loopback_socket(&a, 0, SOCK_NONBLOCK);
    cr_assert_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    cr_assert_eq(listen(fd, 8), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    struct invitation i = raw_invitation();
    i.port = ntohs(a.sin_port);
    offer_put(offer, &i);
    return fd;
}

int raw_accept_link(struct pair *p, int listener) {
    int fd = -1;
    PAIR_UNTIL(p, (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    stream_set(fd, NULL);
    uint8_t hello[HELLO_BYTES], token[FRAME_TOKEN_BYTES], welcome[WELCOME_BYTES];
    raw_recv(p, fd, hello, sizeof hello);
    cr_assert_null(hello_get(hello, token));
    const struct invitation i = raw_invitation();
    if (i.encrypt)
        handshake_as_acceptor(p, fd, i.secret);
    welcome_put(welcome);
    unsigned up = p->lessee.up;
    raw_send(p, fd, welcome, sizeof welcome);
    PAIR_UNTIL(p, p->lessee.up > up);
    return fd;
}

ssize_t raw_send_try(int fd, const void *data, size_t n) {
    return stream_of[fd] ? stream_send(fd, data, n)
                         : send(fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t raw_recv_try(int fd, void *data, size_t n) {
    return stream_of[fd] ? stream_recv(fd, data, n) : recv(fd, data, n, MSG_DONTWAIT);
}

void raw_send(struct pair *p, int fd, const void *data, size_t n) {
    const uint8_t *at = data;
    uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
    while (n > 0) {
        ssize_t sent = raw_send_try(fd, at, n);
        cr_assert(sent > 0 || errno == EAGAIN || errno == ENOTCONN || errno == EINPROGRESS,
                  "send: %s", strerror(errno));
        cr_assert(clock_now_ns() < until, "the engine does not read");
        pair_turn(p);
        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
        }
    }
}

void raw_recv(struct pair *p, int fd, void *data, size_t n) {
    uint8_t *at = data;
    uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
    while (n > 0) {
        ssize_t got = raw_recv_try(fd, at, n);
        cr_assert(got > 0 || (got < 0 && errno == EAGAIN), "recv: %s",
                  got ? strerror(errno) : "closed");
        cr_assert(clock_now_ns() < until, "the engine does not answer");
        pair_turn(p);
        if (got > 0) {
            at += got;
            n -= (size_t)got;
        }
    }
}

bool raw_closed(struct pair *p, int fd) {
    uint8_t byte;
    uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
    while (clock_now_ns() < until) {
        ssize_t got = raw_recv_try(fd, &byte, 1);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return true;
        pair_turn(p);
    }
    return false;
}

void raw_frame(struct pair *p, int fd, const struct frame *f) {
    uint8_t bytes[FRAME_BYTES];
    frame_put(bytes, f);
    raw_send(p, fd, bytes, sizeof bytes);
}

struct frame raw_answer(struct pair *p, int fd) {
    uint8_t bytes[FRAME_BYTES];
    struct frame f;
    raw_recv(p, fd, bytes, sizeof bytes);
    frame_get(&f, bytes);
    return f;
}

struct frame raw_request(const struct fabric_blob *key, int type, uint32_t op, uint64_t offset,
                         uint32_t length) {
    struct frame f = {.type = (uint8_t)type, .op = op, .offset = offset, .length = length};
    memcpy(&f.slot, key->bytes + 4, sizeof f.slot);
    memcpy(&f.key, key->bytes + 8, sizeof f.key);
    f.slot = le32toh(f.slot);
    f.key = le64toh(f.key);
    return f;
}
