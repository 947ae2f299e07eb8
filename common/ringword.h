/* SPDX-License-Identifier: MIT */
/*
 * ringword.h - the only ways to touch a shared ring word, and why each is ordered as it is.
 *
 * Builtins, not <stdatomic.h>: the words are plain integers in a layout shared with C++. Every
 * ordering is on the access itself, none is a fence, so ThreadSanitizer sees them all.
 */
#ifndef RDMAD_COMMON_RINGWORD_H
#define RDMAD_COMMON_RINGWORD_H

#include <stdint.h>

/* Read the other side's index: acquire pairs with its publish, so the entries below it are whole.
 */
static inline uint32_t ringword_peek(const uint32_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Publish an own index when the other side's sleep is looked at later or never. */
static inline void ringword_publish(uint32_t *word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/*
 * Publish an own index, then ask whether the other side sleeps. Both seq_cst: the store may not
 * pass the load, or each side could miss the other (we see it awake, it sees no new index) for
 * ever.
 */
static inline uint32_t ringword_publish_and_ask(uint32_t *word, uint32_t value,
                                                const uint32_t *other_waits) {
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
    return __atomic_load_n(other_waits, __ATOMIC_SEQ_CST);
}

/* Say that we are about to sleep, then look once more at the other's index: the mirror of above. */
static inline uint32_t ringword_arm_and_peek(uint32_t *own_wait, const uint32_t *other_index) {
    __atomic_store_n(own_wait, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(other_index, __ATOMIC_SEQ_CST);
}

/* We are awake: only a needless byte can come of the other side seeing this late. */
static inline void ringword_disarm(uint32_t *own_wait) {
    __atomic_store_n(own_wait, 0, __ATOMIC_RELAXED);
}

/*
 * The same for a side that watches its end of the socketpair in an event loop and must know which
 * bytes can still come: once these two seq_cst accesses are over, only publishes up to the index
 * returned can have seen us asleep, and their bytes are sent before any later index shows.
 */
static inline uint32_t ringword_disarm_and_peek(uint32_t *own_wait, const uint32_t *other_index) {
    __atomic_store_n(own_wait, 0, __ATOMIC_SEQ_CST);
    return __atomic_load_n(other_index, __ATOMIC_SEQ_CST);
}

/* Let the sibling hardware thread run while we spin. */
static inline void ringword_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

#endif
