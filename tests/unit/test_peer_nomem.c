/* SPDX-License-Identifier: MIT */
/*
 * While a stranger connects, says what it has to say and leaves, one allocation fails, each of them
 * in turn: of ours (the linker wraps malloc and its like) and of libevent's. The stranger may be
 * lost by it; the daemon is not, and the next one is served.
 */
#include "daemon/peer/control/liveness.h"
#include "tests/unit/owner_steps.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

static unsigned long allocations, failing; /* 0: none fails */

static bool fails(void) {
    return ++allocations == failing;
}
void *__wrap_malloc(size_t size) {
    return fails() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t n, size_t size) {
    return fails() ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *old, size_t size) {
    return fails() ? NULL : __real_realloc(old, size);
}

TestSuite(peer_nomem, .timeout = 120);

/* Not the rig's, which allocates, too. */
static int dial(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(rig.st.listen_port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    settle();
    return fd;
}

static void say(int fd, const struct peer_msg *m) {
    uint8_t frame[PEER_WIRE_MAX];
    (void)!send(fd, frame, peer_wire_encode(m, frame), MSG_NOSIGNAL);
    for (int i = 0; i < 3; i++)
        event_base_loop(rig.st.base, EVLOOP_NONBLOCK);
    fake_answer_all();
}

/* Whatever is answered, and whether at all. */
static void a_strangers_visit(void) {
    struct peer_msg hello = raw_hello(), m = {.type = PEER_MSG_NAMES_REQ};
    int fd = dial();
    uint8_t secret[HASH_BYTES] = {1};
    life_make(secret, 1, &hello.hello.life);
    say(fd, &hello);
    say(fd, &m);
    m = (struct peer_msg){.type = PEER_MSG_WATCH_REQ, .watch_req.ref = 1};
    say(fd, &m);
    m = raw_attach_req(lease, 5, 3);
    say(fd, &m);
    m = (struct peer_msg){.type = PEER_MSG_LINK_REQ};
    say(fd, &m);
    m = (struct peer_msg){.type = PEER_MSG_LINK_GONE, .link_gone.via = 4};
    say(fd, &m);
    close(fd);
    settle();
    fake_answer_all();
}

/* With a failing allocation of that number; returns how many there were. */
static unsigned long visit(unsigned long number) {
    event_set_mem_functions(__wrap_malloc, __wrap_realloc, free);
    owner_up(16);
    unsigned long before = allocations = 0;
    failing = number;
    a_strangers_visit();
    failing = 0;
    unsigned long made = allocations - before;
    rig_advance(PEER_HELLO_NS + MS); /* of whom nothing was heard, or could be */
    for (int i = 0; i < 5; i++) {
        settle();
        fake_answer_all();
    }
    cr_expect_eq(peers_count(rig.st.peers), 0, "allocation %lu: a stranger is left", number);
    struct raw *next = raw_greet();
    struct peer_msg ping = {.type = PEER_MSG_PING, .ping.seq = 3};
    raw_send(next, &ping);
    cr_expect_eq(raw_expect(next, PEER_MSG_PONG).ping.seq, 3);
    raw_close(next);
    AWAIT(peers_count(rig.st.peers) == 0 || fake_pending(FAKE_EXPEL));
    fake_answer_all();
    owner_down();
    return made;
}

Test(peer_nomem, any_allocation_may_fail_while_a_stranger_is_here) {
    unsigned long all = visit(0);
    cr_assert_gt(all, 15, "only %lu allocations are seen", all);
    for (unsigned long n = 1; n <= all; n++)
        visit(n);
}
