/* SPDX-License-Identifier: MIT */
/*
 * verbs_mr.c - what registered memory costs a program that does it by itself.
 *
 * bench_verbs_mr reg DEVICE BYTES SECONDS      ibv_reg_mr and ibv_dereg_mr of the same memory
 * bench_verbs_mr grant DEVICE BYTES SECONDS    the same at the request of another process: it asks
 *     over TCP and gets address and key, then says that it is done and hears that the key is dead
 *
 * Prints {"us":...}, the median of a pair. The memory was touched before, the best case for
 * registration; the second program is the least that must happen to lend memory to somebody else.
 */
#include "bench/samples.h"
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct grant {
    uint64_t address;
    uint32_t key;
};

struct memory {
    struct ibv_pd *pd;
    void *base;
    size_t bytes;
};

static _Noreturn void die(const char *what) {
    perror(what);
    exit(1);
}

static struct memory open_memory(const char *device, size_t bytes) {
    struct memory m = {.bytes = bytes};
    struct ibv_device **list = ibv_get_device_list(NULL), **d = list;
    while (d && *d && strcmp(ibv_get_device_name(*d), device) != 0)
        d++;
    struct ibv_context *context = d && *d ? ibv_open_device(*d) : NULL;
    if (!context || !(m.pd = ibv_alloc_pd(context)))
        die(device);
    m.base =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (m.base == MAP_FAILED)
        die("mmap");
    memset(m.base, 1, bytes);
    ibv_free_device_list(list);
    return m;
}

static struct ibv_mr *enter(struct memory *m) {
    struct ibv_mr *mr =
        ibv_reg_mr(m->pd, m->base, m->bytes,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (!mr)
        die("ibv_reg_mr");
    return mr;
}

static void leave(struct ibv_mr *mr) {
    if (ibv_dereg_mr(mr))
        die("ibv_dereg_mr");
}

static int listen_here(struct sockaddr_in *bound) {
    socklen_t length = sizeof(*bound);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *bound = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (fd < 0 || bind(fd, (struct sockaddr *)bound, length) || listen(fd, 1) ||
        getsockname(fd, (struct sockaddr *)bound, &length))
        die("listen");
    return fd;
}

static int no_delay(int fd) {
    int one = 1;
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
        die("a connection");
    return fd;
}

/* Each byte that comes in asks: to lend, then to take back. */
static _Noreturn void owner(struct memory m, int listener) {
    struct ibv_mr *mr = NULL;
    char ask;
    int fd = no_delay(accept(listener, NULL, NULL));
    while (recv(fd, &ask, 1, MSG_WAITALL) == 1) {
        struct grant answer = {0};
        if (mr) {
            leave(mr);
            mr = NULL;
        } else {
            mr = enter(&m);
            answer = (struct grant){(uint64_t)(uintptr_t)m.base, mr->rkey};
        }
        if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer))
            break;
    }
    _exit(0);
}

static void ask(int fd) {
    struct grant answer;
    if (send(fd, "", 1, MSG_NOSIGNAL) != 1 ||
        recv(fd, &answer, sizeof(answer), MSG_WAITALL) != sizeof(answer))
        die("the owner");
}

/* The device is opened by the process that uses it: a context does not survive a fork well. */
static int lessee(const char *device, size_t bytes, pid_t *child) {
    struct sockaddr_in to;
    int listener = listen_here(&to);
    *child = fork();
    if (*child < 0)
        die("fork");
    if (*child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        owner(open_memory(device, bytes), listener);
    }
    int fd = no_delay(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
        die("connect");
    close(listener);
    return fd;
}

static double measure(struct memory *m, int fd, double seconds) {
    struct samples samples = {0};
    double start = samples_now_us(), now = start;
    while (now - start < seconds * 1e6) {
        double before = now;
        if (m->base) {
            leave(enter(m));
        } else {
            ask(fd);
            ask(fd);
        }
        now = samples_now_us();
        samples_add(&samples, now - before);
    }
    double us = samples_median(&samples);
    samples_free(&samples);
    return us;
}

int main(int argc, char **argv) {
    const char *what = argc == 5 ? argv[1] : "";
    int grant = !strcmp(what, "grant"), reg = !strcmp(what, "reg"), fd = -1;
    size_t bytes = argc == 5 ? strtoull(argv[3], NULL, 10) : 0;
    double seconds = argc == 5 ? strtod(argv[4], NULL) : 0;
    if (grant == reg || !bytes || !(seconds > 0)) {
        fprintf(stderr, "usage: %s reg|grant DEVICE BYTES SECONDS\n", argv[0]);
        return 2;
    }
    struct memory m = {0};
    pid_t child = -1;
    if (reg)
        m = open_memory(argv[2], bytes);
    else
        fd = lessee(argv[2], bytes, &child);
    printf("{\"us\":%.3f}\n", measure(&m, fd, seconds));
    if (grant) {
        close(fd);
        waitpid(child, NULL, 0);
    }
    return 0;
}
