/* SPDX-License-Identifier: MIT */
/*
 * cacheline.c - what it costs two cores to pass one cache line there and back: the limit for a
 * round trip through shared memory.
 *
 * cacheline SECONDS: two threads, each pinned to a processor of its own, take turns in one word;
 * prints {"round_trip_us":...}, the median over batches of 1,000.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 1000, MAX_BATCHES = 100000 };

static struct {
    _Alignas(128) uint32_t turn; /* odd: the other side's */
    _Alignas(128) uint32_t stop;
} line;

static double now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* The nth processor this process may use; stays where it is when there is only one. */
static void pin(int nth) {
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof(allowed), &allowed))
        return;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || nth-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
        return;
    }
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void *answer(void *arg) {
    pin(1);
    uint32_t expected = 1;
    while (!__atomic_load_n(&line.stop, __ATOMIC_RELAXED)) {
        if (__atomic_load_n(&line.turn, __ATOMIC_ACQUIRE) != expected) {
            relax();
            continue;
        }
        __atomic_store_n(&line.turn, expected + 1, __ATOMIC_RELEASE);
        expected += 2;
    }
    return arg;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static double batches[MAX_BATCHES];
    double seconds = argc == 2 ? strtod(argv[1], NULL) : 0;
    cpu_set_t allowed;
    if (!(seconds > 0)) {
        fprintf(stderr, "usage: %s SECONDS\n", argv[0]);
        return 2;
    }
    if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < 2) {
        fprintf(stderr, "two processors are needed to pass a cache line between them\n");
        return 1;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, answer, NULL)) {
        perror("pthread_create");
        return 1;
    }
    pin(0);
    uint32_t turn = 0;
    size_t count = 0;
    double start = now(), last = start;
    while (count < MAX_BATCHES && last - start < seconds) {
        for (int i = 0; i < BATCH; i++) {
            __atomic_store_n(&line.turn, ++turn, __ATOMIC_RELEASE);
            ++turn;
            while (__atomic_load_n(&line.turn, __ATOMIC_ACQUIRE) != turn)
                relax();
        }
        double t = now();
        batches[count++] = (t - last) / BATCH;
        last = t;
    }
    __atomic_store_n(&line.stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    qsort(batches, count, sizeof(batches[0]), compare);
    printf("{\"round_trip_us\":%.4f}\n", batches[count / 2] * 1e6);
    return 0;
}
