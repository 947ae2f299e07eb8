/* SPDX-License-Identifier: MIT */
/*
 * fabric_pair.c - two processes on libfabric's tcp provider, measured as rdmactl bench measures.
 *
 * fabric_pair write|read BYTES DEPTH SECONDS    DEPTH operations in flight
 * fabric_pair write_lat BYTES 1 SECONDS         half of a ping-pong of writes, polled in memory
 * fabric_pair read_lat BYTES 1 SECONDS          the whole completion of a read
 *
 * Prints {"gbytes_s":...,"mops":...,"lat_us":...}. The child is the target; it only makes progress,
 * and answers in the ping-pong.
 */
#include "fabric_side.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_SAMPLES = 1000000 };

static double now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* The last byte of a message tells that all of it is there: tcp places bytes in order. */
static char *last_byte(struct fabric_side *s, size_t bytes) {
    return s->memory + bytes - 1;
}
static char peek(const char *byte) {
    return __atomic_load_n(byte, __ATOMIC_ACQUIRE);
}

static _Noreturn void target(int to_parent, size_t bytes, int ping_pong) {
    struct fabric_side s;
    struct sockaddr_in bound;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fabric_listen(&s, bytes * 2, &bound);
    if (write(to_parent, &bound, sizeof(bound)) != sizeof(bound))
        _exit(1);
    fabric_accept(&s);
    char seen = 0;
    for (unsigned turn = 0;; turn++) {
        fabric_reap(&s);
        if (turn % 1024 == 0 && fabric_closed(&s))
            _exit(0);
        if (!ping_pong || peek(last_byte(&s, bytes)) == seen)
            continue;
        seen = peek(last_byte(&s, bytes)); /* our memory holds what came: it goes back as it is */
        fabric_write(&s, 0, bytes);
    }
}

static void report(double elapsed, double operations, size_t bytes, double lat_us) {
    printf("{\"gbytes_s\":%.5f,\"mops\":%.5f,\"lat_us\":%.4f}\n",
           operations * (double)bytes / elapsed * 1e-9, operations / elapsed * 1e-6, lat_us);
}

static void stream(struct fabric_side *s, int read, size_t bytes, unsigned depth, double seconds) {
    unsigned inflight = 0;
    uint64_t done = 0;
    double start = now(), elapsed = 0;
    for (unsigned turn = 0; elapsed < seconds || inflight; turn++) {
        for (; elapsed < seconds && inflight < depth; inflight++)
            read ? fabric_read(s, 0, bytes) : fabric_write(s, 0, bytes);
        unsigned n = fabric_reap(s);
        inflight -= n;
        done += n;
        if (turn % 64 == 0 || elapsed >= seconds)
            elapsed = now() - start;
    }
    report(elapsed, (double)done, bytes, 0);
}

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void latency(struct fabric_side *s, int read, size_t bytes, double seconds) {
    static float samples[MAX_SAMPLES];
    size_t count = 0;
    double start = now(), last = start;
    for (char value = 1; count < MAX_SAMPLES && last - start < seconds; value = value ? 0 : 1) {
        if (read) {
            fabric_read(s, 0, bytes);
            while (fabric_reap(s) == 0)
                ;
        } else {
            /* Sent from the second half; the answer lands in the first. */
            s->memory[2 * bytes - 1] = value;
            fabric_write(s, bytes, bytes);
            while (peek(last_byte(s, bytes)) != value)
                fabric_reap(s);
        }
        double t = now();
        samples[count++] = (float)((t - last) * (read ? 1e6 : 0.5e6));
        last = t;
    }
    qsort(samples, count, sizeof(samples[0]), compare);
    report(last - start, (double)count, bytes, samples[count / 2]);
}

int main(int argc, char **argv) {
    const char *op = argc == 5 ? argv[1] : "";
    int read_op = strncmp(op, "read", 4) == 0, lat = strstr(op, "_lat") != NULL;
    size_t bytes = argc == 5 ? strtoull(argv[2], NULL, 10) : 0;
    unsigned depth = argc == 5 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    double seconds = argc == 5 ? strtod(argv[4], NULL) : 0;
    if (!bytes || !depth || !(seconds > 0)) {
        fprintf(stderr, "usage: %s write|read|write_lat|read_lat BYTES DEPTH SECONDS\n", argv[0]);
        return 2;
    }
    int pipefd[2];
    if (pipe(pipefd))
        return 1;
    pid_t pid = fork();
    if (pid < 0)
        return 1;
    if (pid == 0)
        target(pipefd[1], bytes, lat && !read_op);
    close(pipefd[1]);
    struct sockaddr_in to;
    if (read(pipefd[0], &to, sizeof(to)) != sizeof(to))
        return 1;
    struct fabric_side s;
    fabric_connect(&s, bytes * 2, &to);
    if (lat)
        latency(&s, read_op, bytes, seconds);
    else
        stream(&s, read_op, bytes, depth, seconds);
    fflush(stdout);
    fabric_shutdown(&s);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return 0;
}
