/* SPDX-License-Identifier: MIT */
/*
 * Any bytes from a peer with a token, or from a target we dialled: only what they are allowed to
 * touch changes, and every op comes back once.
 *
 * The first byte chooses who sends. To a target the rest goes as requests; a request with key 0
 * gets the key of a real window, which the fuzzer could never guess; it may be closed under them.
 * To a link it goes as answers to ops of every kind, small and large. Or it is read as the
 * greetings that come before them. A message is read to its last byte; one that lands does so in a
 * quarter of the open memory, and is now and then abandoned.
 */
#include "daemon/base/clock.h"
#include "daemon/base/guard.h"
#include "daemon/base/log.h"
#include "daemon/fabric/fabric.h"
#include "daemon/fabric/tcp/frame.h"
#include "tests/fuzz/must.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define PEER 7u
#define BYTES (96u << 10) /* of memory: the middle third is open, the rest must never change */
#define OPEN_AT (32u << 10)
#define OPEN_BYTES (32u << 10)
#define OPS 8u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fabric *fabric;
static struct fabric_window *window;
static struct fabric_blob key;
static struct fabric_audit audit;
static uint8_t *memory;
static int listener;
static struct fabric_blob listener_offer;
static unsigned completed, came_up, went_down;
static volatile uint8_t sum;

static const struct fabric_blob no_hello;

static uint64_t now(void *user) {
    (void)user;
    return clock_now_ns();
}

static void complete(void *user, struct fabric_op *op) {
    (void)user;
    must(op->user == NULL); /* not yet completed */
    op->user = op;
    completed++;
}

static void link_up(void *user, void *cookie) {
    (void)user, (void)cookie;
    came_up++;
}

static void link_lost(void *user, void *cookie, const struct error *why) {
    (void)user, (void)cookie, (void)why;
    went_down++;
}

static uint64_t received(void *user, uint64_t peer, uint64_t number, const void *bytes,
                         size_t size) {
    const uint8_t *at = bytes;
    (void)user;
    must(peer == PEER && number != 0 && size <= FRAME_MAX_SEND);
    for (size_t i = 0; i < size; i++)
        sum = (uint8_t)(sum + at[i]);
    return sum;
}

static struct fabric_landing to;
static int lands;

static struct fabric_landing *landing(void *user, uint64_t peer, uint64_t number, const void *head,
                                      size_t size, uint64_t length) {
    received(user, peer, number, head, size);
    must(!lands && length > 0 && size + length <= FRAME_MAX_LONG);
    if (length > OPEN_BYTES / 4)
        return NULL;
    lands = 1;
    to = (struct fabric_landing){.base = memory + OPEN_AT};
    return &to;
}

static void landed(void *user, struct fabric_landing *at, int status) {
    (void)user;
    must(lands && at == &to && (status == 0 || status == RDMAD_E_PEER_LOST));
    lands = 0;
}

static void memory_fault(void *user, const void *address) {
    (void)user, (void)address;
    abort();
}

static const struct fabric_settings settings = {.listen_host = "127.0.0.1",
                                                .max_inflight = 64,
                                                .send_buffer_bytes = 1u << 20,
                                                .token_ttl_ns = 60 * NSEC_PER_SEC,
                                                .connect_timeout_ns = 60 * NSEC_PER_SEC,
                                                .dead_peer_ns = 60 * NSEC_PER_SEC,
                                                .max_strangers = 8};
static const struct fabric_env env = {.now_ns = now,
                                      .complete = complete,
                                      .link_up = link_up,
                                      .link_lost = link_lost,
                                      .received = received,
                                      .landing = landing,
                                      .landed = landed,
                                      .memory_fault = memory_fault,
                                      .settings = &settings};

static void open_window(void) {
    struct fabric_window_spec spec = {.peer = PEER,
                                      .base = memory + OPEN_AT,
                                      .length = OPEN_BYTES,
                                      .rights = RDMAD_RIGHTS_ALL,
                                      .deadline_ns = CLOCK_NEVER,
                                      .audit = &audit};
    must(fabric_tcp.window_open(fabric, &spec, &window, &key, NULL) == 0);
}

static void start(void) {
    log_set_level(LOG_EMERG);
    must(guard_install() == 0);
    must(fabric_tcp.open(&env, &fabric, NULL) == 0);
    memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED);
    open_window();

    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof a;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    must(listener >= 0 && bind(listener, (struct sockaddr *)&a, sizeof a) == 0);
    must(listen(listener, 8) == 0 && getsockname(listener, (struct sockaddr *)&a, &length) == 0);
    uint16_t port = htole16(ntohs(a.sin_port));
    listener_offer = (struct fabric_blob){.size = 28, .bytes = {2}};
    listener_offer.bytes[4 + FRAME_TOKEN_BYTES] = 1; /* the number */
    memcpy(listener_offer.bytes + 2, &port, sizeof port);
}

static void polls(unsigned n) {
    while (n-- > 0)
        fabric_tcp.poll(fabric);
}

/* Gives every well-formed request with key 0 the window's key. */
static void sign(uint8_t *bytes, size_t size) {
    for (size_t at = 0; at + FRAME_BYTES <= size;) {
        struct frame f;
        frame_get(&f, bytes + at);
        if (f.key == 0 &&
            (f.type == FRAME_READ || f.type == FRAME_WRITE || frame_is_atomic(f.type))) {
            memcpy(&f.slot, key.bytes + 4, sizeof f.slot);
            memcpy(&f.key, key.bytes + 8, sizeof f.key);
            frame_put(bytes + at, &f);
        }
        at += FRAME_BYTES + (size_t)frame_payload(&f);
    }
}

/* Without TIME_WAIT: thousands of connections a second would use up the ports. */
static void hang_up(int fd) {
    struct linger linger = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

/* libFuzzer's timer interrupts what blocks, and on a busy machine even loopback does: then the
 * kernel goes on connecting, and poll waits for that. */
static int dial(const struct sockaddr_in *target) {
    int error = 0;
    socklen_t length = sizeof error;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0);
    if (connect(fd, (const struct sockaddr *)target, sizeof *target) == 0)
        return fd;
    must(errno == EINTR);
    while (poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1) < 0)
        must(errno == EINTR);
    must(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
    errno = error;
    must(error == 0);
    return fd;
}

static void attack_target(uint8_t *bytes, size_t size, bool revoke) {
    struct fabric_blob offer;
    must(fabric_tcp.offer(fabric, PEER, false, &no_hello, &offer, NULL) == 0);
    uint16_t port;
    memcpy(&port, offer.bytes + 2, sizeof port);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(le16toh(port)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = dial(&a);
    uint8_t hello[HELLO_BYTES];
    hello_put(hello, offer.bytes + 4);
    must(send(fd, hello, sizeof hello, MSG_NOSIGNAL) == (ssize_t)sizeof hello);
    sign(bytes, size);
    (void)send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    polls(20);
    if (revoke) { /* with whatever is under way */
        fabric_tcp.window_close(window, RDMAD_E_LEASE_REVOKED);
        polls(2);
        open_window();
    }
    if (lands && size % 2) {
        fabric_tcp.abandon(&to);
        lands = 0;
        polls(1);
    }
    hang_up(fd);
    fabric_tcp.expel(fabric, PEER);
    polls(2);
}

static void attack_link(const uint8_t *bytes, size_t size) {
    static const struct {
        uint8_t opcode;
        uint32_t length;
    } kinds[OPS] = {{RDMAD_OP_READ, 64},    {RDMAD_OP_WRITE, 100}, {RDMAD_OP_READ, 5000},
                    {RDMAD_OP_WRITE, 6000}, {RDMAD_OP_CAS, 8},     {RDMAD_OP_SEND, 3000},
                    {RDMAD_OP_FADD, 8},     {RDMAD_OP_SEND, 20000}};
    struct fabric_op ops[OPS];
    struct fabric_link *link;
    struct fabric_blob hello;
    unsigned up = came_up;
    must(fabric_tcp.link_new(fabric, NULL, false, &link, &hello, NULL) == 0);
    must(fabric_tcp.link_open(link, "127.0.0.1", &listener_offer, NULL) == 0);
    int fd = -1;
    while (fd < 0) {
        polls(1);
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    uint8_t welcome[WELCOME_BYTES];
    welcome_put(welcome);
    must(send(fd, welcome, sizeof welcome, MSG_NOSIGNAL) == (ssize_t)sizeof welcome);
    while (came_up == up)
        polls(1);
    completed = 0;
    for (unsigned i = 0; i < OPS; i++) {
        ops[i] = (struct fabric_op){.opcode = kinds[i].opcode,
                                    .local = memory + OPEN_AT + (size_t)(i % 4) * 8192,
                                    .length = kinds[i].length,
                                    .key = &key};
        must(fabric_tcp.post(link, &ops[i]) == 0);
    }
    polls(3);
    (void)send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    polls(6);
    hang_up(fd);
    fabric_tcp.link_close(link);
    must(completed == OPS);
    polls(2);
}

/* What comes before all frames. */
static void greet(const uint8_t *bytes, size_t size) {
    uint8_t token[FRAME_TOKEN_BYTES];
    if (size >= HELLO_BYTES)
        (void)hello_get(bytes, token);
    if (size >= WELCOME_BYTES)
        (void)welcome_check(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!fabric)
        start();
    if (size < 1 || size > 65536)
        return -1;
    uint8_t *bytes = malloc(size);
    memcpy(bytes, data + 1, size - 1);
    if (data[0] & 2)
        greet(bytes, size - 1);
    else if (data[0] & 1)
        attack_link(bytes, size - 1);
    else
        attack_target(bytes, size - 1, data[0] & 4);
    free(bytes);
    for (size_t i = 0; i < BYTES; i++)
        if (i < OPEN_AT || i >= OPEN_AT + OPEN_BYTES)
            must(memory[i] == 0);
    return 0;
}
