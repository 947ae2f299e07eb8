/* SPDX-License-Identifier: MIT */
/*
 * memcpy.c - what one core copies, as the limit for transfers on one node.
 *
 * memcpy BYTES SPAN SECONDS: copies pieces of BYTES, one after the other, from one shared memory of
 * SPAN bytes to another, around and around, and prints {"gbytes_s":...}. Shared memory, because
 * that is what pools are made of: the same page size and the same faults.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static char *shared(size_t bytes, int fill) {
    char *p =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    memset(p, fill, bytes);
    return p;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s BYTES SPAN SECONDS\n", argv[0]);
        return 2;
    }
    size_t bytes = strtoull(argv[1], NULL, 10), span = strtoull(argv[2], NULL, 10);
    double seconds = strtod(argv[3], NULL);
    if (bytes == 0 || span < bytes || !(seconds > 0)) {
        fprintf(stderr, "SPAN must hold BYTES, and SECONDS must be positive\n");
        return 2;
    }
    char *from = shared(span, 1), *to = shared(span, 2);
    size_t offset = 0, copied = 0, batch = bytes < 65536 ? 65536 / bytes : 1;
    double start = now(), elapsed;
    do {
        for (size_t i = 0; i < batch; i++) {
            memcpy(to + offset, from + offset, bytes);
            __asm__ __volatile__("" ::: "memory"); /* each copy is made */
            offset += bytes;
            if (offset + bytes > span)
                offset = 0;
        }
        copied += batch * bytes;
        elapsed = now() - start;
    } while (elapsed < seconds);
    printf("{\"gbytes_s\":%.4f}\n", (double)copied / elapsed * 1e-9);
    return 0;
}
