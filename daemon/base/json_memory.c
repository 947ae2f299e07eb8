/* SPDX-License-Identifier: MIT */
/*
 * json_memory.c - see json_memory.h. The reserve is taken from front to back; its pages cost
 * nothing before they are used.
 */
#include "daemon/base/json_memory.h"
#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static struct {
    alignas(max_align_t) unsigned char bytes[JSON_MEMORY_RESERVE];
    pthread_mutex_t lock;
    size_t used;
    unsigned blocks; /* that were not given back */
} reserve = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *reserve_take(size_t bytes) {
    size_t room = (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    void *block = NULL;
    pthread_mutex_lock(&reserve.lock);
    if (room >= bytes && room <= sizeof(reserve.bytes) - reserve.used) {
        block = reserve.bytes + reserve.used;
        reserve.used += room;
        reserve.blocks++;
    }
    pthread_mutex_unlock(&reserve.lock);
    return block;
}

static bool reserve_has(const void *block) {
    uintptr_t at = (uintptr_t)block, from = (uintptr_t)reserve.bytes;
    return at >= from && at < from + sizeof(reserve.bytes);
}

static void reserve_give(void) {
    pthread_mutex_lock(&reserve.lock);
    if (--reserve.blocks == 0)
        reserve.used = 0;
    pthread_mutex_unlock(&reserve.lock);
}

void *json_memory_take(size_t bytes) {
    void *block = malloc(bytes);
    return block ? block : reserve_take(bytes);
}

void json_memory_give(void *block) {
    if (reserve_has(block))
        reserve_give();
    else
        free(block);
}
