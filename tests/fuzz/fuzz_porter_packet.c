/* SPDX-License-Identifier: MIT */
/*
 * Packets with descriptors at the porter: whatever bytes and descriptors a client sends, its worker
 * tells just what came, hands on nothing but a single memfd, and has nothing open afterwards. And
 * what the daemon, the porter and a worker say to each other comes as it was sent, with at most one
 * descriptor, whoever sends.
 *
 * The first byte says how many descriptors, the second of which kinds, the third what is done with
 * them; the rest is the packet. A worker runs as a thread; descriptor 3 is its end, as in a porter.
 */
#include "daemon/porter/messages.h"
#include "daemon/porter/packet.h"
#include "daemon/porter/worker.h"
#include "tests/fuzz/must.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define FDS_MAX 253u /* the kernel's SCM_MAX_FD */
#define KINDS 4u     /* the first is a memfd */
#define INPUT_MAX 4096u
#define SLOTS 320 /* of descriptors, that are looked at */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum deed { TO_WORKER = 1, NO_SOCKET = 2, NOTHING_SENT = 4, WITH_CREDENTIALS = 8, NO_WAIT = 16 };

static int kinds[KINDS], tasks, answers;
static bool at_rest[SLOTS];

static void pair_of(int type, int pair[2]) {
    must(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) == 0);
}

/* Whatever is open when nothing is under way. */
static void see_open(bool open[SLOTS]) {
    for (int fd = 0; fd < SLOTS; fd++)
        open[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void *work(void *end) {
    worker_run(*(int *)end);
    return NULL;
}

static void start(void) {
    static int end;
    pthread_t thread = 0;
    int pair[2];
    pair_of(SOCK_SEQPACKET, pair);
    answers = fcntl(pair[0], F_DUPFD_CLOEXEC, PORTER_FD + 1);
    close(pair[0]);
    must(answers >= 0);
    must(pair[1] == PORTER_FD || dup2(pair[1], PORTER_FD) == PORTER_FD);
    pair_of(SOCK_SEQPACKET, pair);
    tasks = pair[0];
    end = pair[1];
    kinds[0] = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    kinds[1] = eventfd(0, EFD_CLOEXEC);
    kinds[2] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    kinds[3] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (unsigned i = 0; i < KINDS; i++)
        must(kinds[i] >= 0);
    must(pthread_create(&thread, NULL, work, &end) == 0);
    pthread_detach(thread);
    see_open(at_rest);
}

/* ---- a client's packet ------------------------------------------------------------------- */

struct client_packet {
    const uint8_t *bytes;
    size_t size;
    int fds[FDS_MAX];
    unsigned n;
};

static void send_raw(int sock, const struct client_packet *p) {
    static _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * FDS_MAX)];
    struct iovec iov = {.iov_base = (void *)(uintptr_t)p->bytes, .iov_len = p->size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (p->n) {
        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * p->n);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS,
                              .cmsg_len = CMSG_LEN(sizeof(int) * p->n)};
        memcpy(CMSG_DATA(c), p->fds, sizeof(int) * p->n);
    }
    ssize_t sent;
    do /* libFuzzer's timer interrupts */
        sent = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    must(sent == (ssize_t)p->size);
}

/* It is ours alone, and is closed at exec. */
static void close_received(int fd) {
    if (fd < 0)
        return;
    must(fcntl(fd, F_GETFD) == FD_CLOEXEC);
    close(fd);
}

static void expect_nothing_open(void) {
    bool open[SLOTS];
    see_open(open);
    must(!memcmp(open, at_rest, sizeof(open)));
}

/* ---- the worker --------------------------------------------------------------------------- */

static void expect_answer(const struct client_packet *p, const struct porter_answer *a, size_t size,
                          int fd) {
    bool much = p->n > RDMAD_MSG_MAX_FDS;
    size_t told = p->size > RDMAD_MSG_MAX ? RDMAD_MSG_MAX + 1 : p->size;
    must(a->word == PORTER_TAKEN && a->nfds == (much ? RDMAD_MSG_MAX_FDS + 1 : p->n));
    must(a->size == told && size == offsetof(struct porter_answer, data) + told);
    must(!memcmp(a->data, p->bytes, told));
    must((fd >= 0) == (p->n == 1 && p->fds[0] == kinds[0]));
}

static void at_worker(const struct client_packet *p, unsigned deeds) {
    static struct porter_answer a;
    struct porter_request task = {.ask = PORTER_TAKE, .id = p->size};
    int client[2], fd, none, on = 1;
    size_t size = sizeof(a), one = 1;
    char byte;
    pair_of(SOCK_SEQPACKET, client);
    if (deeds & WITH_CREDENTIALS)
        must(setsockopt(client[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0);
    if (!(deeds & NOTHING_SENT))
        send_raw(client[0], p);
    must(packet_send(tasks, &task, sizeof(task), deeds & NO_SOCKET ? -1 : client[1]));
    must(packet_recv(answers, &a, &size, &fd, true) && a.id == task.id);
    must(packet_recv(tasks, &byte, &one, &none, true) && one == 1 && none < 0);
    if (deeds & (NOTHING_SENT | NO_SOCKET))
        must(a.word == PORTER_LOST && !a.nfds && !a.size && fd < 0);
    else
        expect_answer(p, &a, size, fd);
    close_received(fd);
    close(client[0]);
    close(client[1]);
}

/* ---- packets among ours ------------------------------------------------------------------- */

static void receive(int sock, const struct client_packet *p, size_t room, bool wait) {
    uint8_t *to = malloc(room); /* just so long, so that writing behind it is noticed */
    size_t size = room;
    int fd;
    bool there = packet_recv(sock, to, &size, &fd, wait);
    must(there == (p->size > 0) && size == (p->size < room ? p->size : room));
    must(!memcmp(to, p->bytes, size) && (fd >= 0) == (p->n > 0));
    close_received(fd);
    free(to);
}

static void among_ours(const struct client_packet *p, unsigned deeds) {
    int pair[2], fd;
    uint8_t byte;
    size_t size = 1, room = 1 + p->size * (deeds & WITH_CREDENTIALS ? 1 : 2) / 2;
    bool wait = !(deeds & NO_WAIT);
    pair_of(SOCK_SEQPACKET, pair);
    if (!(deeds & NOTHING_SENT)) {
        send_raw(pair[0], p);
        receive(pair[1], p, room, wait);
        if (p->n < 2) {
            must(packet_send(pair[0], p->bytes, p->size, p->n ? p->fds[0] : -1));
            receive(pair[1], p, room, wait);
        }
    }
    /* Nothing is there, and then nobody. */
    must(packet_recv(pair[1], &byte, &size, &fd, false) && size == 0 && fd < 0);
    close(pair[0]);
    size = 1;
    must(!packet_recv(pair[1], &byte, &size, &fd, wait) && size == 0 && fd < 0);
    must(!packet_send(pair[1], "", 1, -1));
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct client_packet p;
    if (!tasks)
        start();
    if (size < 3 || size > INPUT_MAX)
        return -1;
    p = (struct client_packet){.bytes = data + 3, .size = size - 3, .n = data[0] % (FDS_MAX + 1)};
    for (unsigned i = 0; i < p.n; i++)
        p.fds[i] = kinds[data[1] >> 2 * (i % 4) & 3];
    if (data[2] & TO_WORKER)
        at_worker(&p, data[2]);
    else
        among_ours(&p, data[2]);
    expect_nothing_open();
    return 0;
}
