/* SPDX-License-Identifier: MIT */
/*
 * Threads at one arena, for ThreadSanitizer: pieces change hands, stocks run dry and are called
 * back, threads come and go. Each piece's owner writes its number into the piece's own memory, so a
 * piece given to two shows as wrong contents too, also without the sanitizer.
 */
#include "libclient/arena/arena.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4u
#define ROUNDS 20000u
#define HELD 64u
#define BYTES (UINT64_C(1) << 20)

/* As rdmad_free does. */
static bool arena_give(struct rdmad_arena *a, uint64_t offset) {
    bool live = rdmad_arena_retire(a, offset);
    if (live)
        rdmad_arena_return(a, offset);
    return live;
}

static struct rdmad_arena *arena;
static unsigned char *memory;

/* One piece that waits for the next thread: gives are often on another thread than takes. */
static pthread_mutex_t swap_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t swap_piece = RDMAD_ARENA_NONE;

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

static uint64_t swap(uint64_t piece) {
    uint64_t other;

    pthread_mutex_lock(&swap_lock);
    other = swap_piece;
    swap_piece = piece;
    pthread_mutex_unlock(&swap_lock);
    return other;
}

static void *work(void *arg) {
    unsigned char me = *(unsigned char *)arg;
    unsigned seed = me;
    uint64_t held[HELD];

    for (unsigned i = 0; i < HELD; i++)
        held[i] = RDMAD_ARENA_NONE;
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned at = (unsigned)rand_r(&seed) % HELD;
        if (held[at] != RDMAD_ARENA_NONE) {
            if (memory[held[at]] != me)
                fail("a piece was handed out twice");
            if (i % 16 == 0)
                held[at] = swap(held[at]);
            if (held[at] != RDMAD_ARENA_NONE && !arena_give(arena, held[at]))
                fail("a piece that is ours was refused");
        }
        unsigned size = (unsigned)rand_r(&seed) % (i % 8 ? 2048 : 80000);
        held[at] = rdmad_arena_take(arena, size);
        if (held[at] != RDMAD_ARENA_NONE)
            memory[held[at]] = me;
    }
    for (unsigned i = 0; i < HELD; i++) {
        if (held[i] != RDMAD_ARENA_NONE)
            arena_give(arena, held[i]);
    }
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS];
    unsigned char number[THREADS];

    for (unsigned generation = 0; generation < 3; generation++) {
        arena = rdmad_arena_new(BYTES);
        memory = calloc(1, BYTES);
        for (unsigned i = 0; i < THREADS; i++) {
            number[i] = (unsigned char)(i + 1);
            pthread_create(&thread[i], NULL, work, &number[i]);
        }
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        uint64_t left = swap(RDMAD_ARENA_NONE);
        if (left != RDMAD_ARENA_NONE)
            arena_give(arena, left);
        if (rdmad_arena_take(arena, BYTES) != 0)
            fail("pieces were lost");
        rdmad_arena_free(arena);
        free(memory);
    }
    return 0;
}
