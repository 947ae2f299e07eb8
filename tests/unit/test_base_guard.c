/* SPDX-License-Identifier: MIT */
/*
 * The guard: memory that vanishes under a copy is an error, anywhere else it is still fatal.
 */
#include "daemon/base/guard.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

/* Two pages of which only the first exists: touching the second is SIGBUS. */
static char *half_a_mapping(void) {
    int fd = memfd_create("half", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, PAGE), 0);
    char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq(p, MAP_FAILED);
    close(fd);
    return p;
}

Test(guard, a_copy_of_memory_that_is_there_is_a_memcpy) {
    char from[300], to[300];
    memset(from, 'x', sizeof(from));
    memset(to, 0, sizeof(to));
    cr_assert_eq(guard_install(), 0);
    cr_assert_null(guard_copy(to, from, sizeof(to)));
    cr_assert_eq(memcmp(from, to, sizeof(to)), 0);
}

Test(guard, reading_what_vanished_names_the_address_and_can_be_repeated) {
    char to[64];
    char *p = half_a_mapping();
    cr_assert_eq(guard_install(), 0);
    for (int i = 0; i < 1000; i++) {
        const char *fault = guard_copy(to, p + PAGE + 128, sizeof(to));
        cr_assert(fault >= p + PAGE && fault < p + 2 * PAGE);
    }
    cr_assert_null(guard_copy(to, p, sizeof(to)), "the guard still copies");
}

Test(guard, writing_across_the_edge_names_the_missing_page) {
    char from[256] = "x";
    char *p = half_a_mapping();
    cr_assert_eq(guard_install(), 0);
    const char *fault = guard_copy(p + PAGE - 128, from, sizeof(from));
    cr_assert(fault >= p + PAGE && fault < p + 2 * PAGE);
}

static void *fault_in_a_thread(void *arg) {
    char *p = arg, to[64];
    for (int i = 0; i < 500; i++)
        if (!guard_copy(to, p + PAGE, sizeof(to)))
            return p;
    return NULL;
}

Test(guard, threads_have_guards_of_their_own) {
    pthread_t thread[4];
    char *p = half_a_mapping();
    cr_assert_eq(guard_install(), 0);
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, fault_in_a_thread, p);
    for (int i = 0; i < 4; i++) {
        void *missed;
        pthread_join(thread[i], &missed);
        cr_assert_null(missed);
    }
}

Test(guard, a_word_is_swapped_or_added_to_where_it_is_there) {
    uint64_t word = 5, was = 0;
    cr_assert_eq(guard_install(), 0);
    cr_assert_null(guard_cas(&word, 4, 9, &was));
    cr_assert(was == 5 && word == 5);
    cr_assert_null(guard_cas(&word, 5, 9, &was));
    cr_assert(was == 5 && word == 9);
    cr_assert_null(guard_add(&word, UINT64_MAX, &was));
    cr_assert(was == 9 && word == 8);
}

Test(guard, an_atomic_on_what_vanished_names_the_address_and_can_be_repeated) {
    char *p = half_a_mapping();
    uint64_t *gone = (void *)(p + PAGE + 64), *there = (void *)p, was = 4711;
    cr_assert_eq(guard_install(), 0);
    for (int i = 0; i < 1000; i++) {
        const char *fault = i % 2 ? guard_add(gone, 1, &was) : guard_cas(gone, 0, 1, &was);
        cr_assert(fault >= p + PAGE && fault < p + 2 * PAGE);
    }
    cr_assert_eq(was, 4711);
    cr_assert_null(guard_add(there, 1, &was));
    cr_assert(was == 0 && *there == 1);
}

Test(guard, a_touch_outside_a_copy_kills, .signal = SIGBUS) {
    volatile char *p = half_a_mapping();
    guard_install();
    p[PAGE] = 1;
}

Test(guard, a_sent_sigbus_kills, .signal = SIGBUS) {
    guard_install();
    kill(getpid(), SIGBUS);
}
