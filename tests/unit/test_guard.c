/* SPDX-License-Identifier: MIT */
/* Guard mode: each deliberate misuse of a buffer ends a child with the sentence about it, and what
 * is no misuse goes on. The daemon's end of the ring is played by the test. */
#include "tests/unit/child.h"
#include "tests/unit/fake_daemon.h"

#include <criterion/criterion.h>
#include <rdmad/rdmad.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct fake_daemon fake;
static rdmad_session *s;
static rdmad_ring *ring;
static rdmad_pool *pool;
static rdmad_lease *lease;

TestSuite(guard, .timeout = 30);

/* A child must not go on when its own assumptions fail. */
static void must(bool true_so_far, const char *what) {
    if (!true_so_far) {
        fprintf(stderr, "%s: %s\n", what, rdmad_last_error(NULL));
        _exit(3);
    }
}

static void set_up(const char *guard) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;

    setenv("RDMAD_GUARD", guard, 1);
    fake_start(&fake);
    o.runtime_dir = fake.dir;
    must(!rdmad_open(&o, &s), "open");
    must(!rdmad_pool_create(s, 1 << 20, 0, &pool), "pool");
    must(!rdmad_lease_attach(s, "name", 0, &lease), "attach");
    must(!rdmad_ring_create(s, 16, &ring), "ring");
}

static void end(void) {
    rdmad_close(s);
    fake_stop(&fake);
}

static struct rdmad_sqe start(enum rdmad_opcode opcode, void *buffer, size_t length,
                              uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring), taken;
    int rc = opcode == RDMAD_OP_READ
                 ? rdmad_prep_read(ring, sqe, lease, 0, buffer, length, user_data)
                 : rdmad_prep_write(ring, sqe, lease, 0, buffer, length, user_data);

    must(rc == 0, "prepare");
    must(rdmad_ring_submit(ring) == 1, "submit");
    must(fake_ring_take(fake.ring, &taken), "take");
    return taken;
}

static void complete(const struct rdmad_sqe *sqe) {
    struct rdmad_cqe cqe = {.user_data = sqe->user_data, .opcode = sqe->opcode};
    const struct rdmad_cqe *seen;

    fake_ring_complete(fake.ring, &cqe);
    must(rdmad_ring_wait(ring, 2000, &seen) == 0, "wait");
    rdmad_ring_seen(ring, seen);
}

/* ---- what is misuse ------------------------------------------------------------------------ */

static void write_into_what_is_read(void) {
    set_up("1");
    volatile char *buffer = rdmad_alloc(pool, 4096);
    start(RDMAD_OP_WRITE, (char *)buffer, 4096, 7);
    fprintf(stderr, "first byte %x; ", (unsigned char)buffer[0]); /* others may read it */
    buffer[16] = 1;
}

Test(guard, a_write_into_a_buffer_that_an_op_reads_is_caught) {
    child_aborts(write_into_what_is_read,
                 "(4096 bytes, allocated by rdmad_alloc) at +16 while op WRITE (user_data 7) of "
                 "lease 7 reads it");
    child_aborts(write_into_what_is_read, "rdmad guard: write to buffer 0x");
}

static volatile char sink;

static void read_what_is_filled(void) {
    set_up("1");
    volatile char *buffer = rdmad_alloc(pool, 100);
    start(RDMAD_OP_READ, (char *)buffer, 100, 8);
    sink = buffer[99];
}

Test(guard, a_read_of_a_buffer_that_an_op_fills_is_caught) {
    child_aborts(read_what_is_filled,
                 "(100 bytes, allocated by rdmad_alloc) at +99 while op READ (user_data 8) of "
                 "lease 7 fills it");
#ifdef __x86_64__
    child_aborts(read_what_is_filled, "rdmad guard: read of buffer 0x");
#endif
}

static void write_into_the_last_page(void) {
    set_up("1");
    volatile char *buffer = rdmad_alloc(pool, 10000);
    start(RDMAD_OP_WRITE, (char *)buffer, 10000, 9);
    buffer[9999] = 1;
}

Test(guard, all_pages_of_a_buffer_are_watched) {
    child_aborts(write_into_the_last_page, "(10000 bytes, allocated by rdmad_alloc) at +9999");
}

static void read_after_free(void) {
    set_up("1");
    volatile char *buffer = rdmad_alloc(pool, 64);
    rdmad_free(pool, (char *)buffer);
    sink = buffer[3];
}

static void write_after_free_in_flight(void) {
    set_up("1");
    volatile char *buffer = rdmad_alloc(pool, 64);
    struct rdmad_sqe sqe = start(RDMAD_OP_WRITE, (char *)buffer, 64, 1);
    rdmad_free(pool, (char *)buffer);
    complete(&sqe);
    buffer[0] = 1;
}

static void op_after_free(void) {
    set_up("1");
    char *buffer = rdmad_alloc(pool, 64);
    rdmad_free(pool, buffer);
    start(RDMAD_OP_WRITE, buffer, 64, 12);
}

Test(guard, a_use_after_free_is_caught) {
    child_aborts(read_after_free, "(64 bytes, allocated by rdmad_alloc) after rdmad_free: ");
    child_aborts(write_after_free_in_flight, "after rdmad_free: ");
    child_aborts(op_after_free, "after rdmad_free, by op WRITE (user_data 12) of lease 7");
}

static void free_twice(void) {
    set_up("1");
    char *buffer = rdmad_alloc(pool, 64);
    rdmad_free(pool, buffer);
    rdmad_free(pool, buffer);
}

static void free_the_middle(void) {
    set_up("1");
    char *buffer = rdmad_alloc(pool, 10000);
    rdmad_free(pool, buffer + 4096);
}

Test(guard, a_double_free_is_caught) {
    child_aborts(free_twice, "(64 bytes, allocated by rdmad_alloc), which was freed before");
    child_aborts(free_the_middle, "an address inside buffer 0x");
}

static void write_beyond_the_end(void) {
    set_up("1");
    char *buffer = rdmad_alloc(pool, 100);
    buffer[101] = 1;
    rdmad_free(pool, buffer);
}

Test(guard, a_write_beyond_a_buffers_end_is_found_when_it_is_freed) {
    child_aborts(write_beyond_the_end, "was written beyond its end, at +101");
}

static void write_to_pages_of_a_pool_without_buffers(void) {
    set_up("1");
    char *base = rdmad_pool_base(pool);
    start(RDMAD_OP_WRITE, base + 100, 8192, 3); /* one whole page */
    *(volatile char *)(base + 100) = 1;         /* protected only where a page is covered */
    *(volatile char *)(base + 4096) = 1;
}

Test(guard, whole_pages_of_a_pool_that_the_program_lays_out_are_watched) {
    child_aborts(write_to_pages_of_a_pool_without_buffers,
                 "write to memory of pool 11 at +4096 while op WRITE (user_data 3) of lease 7 "
                 "reads it");
}

/* ---- what is none -------------------------------------------------------------------------- */

static void use_it_as_one_should(void) {
    set_up("1");
    for (unsigned i = 0; i < 2000; i++) {
        size_t size = i * 37 % 9000;
        unsigned char *buffer = rdmad_alloc(pool, size);
        must(buffer != NULL, "alloc");
        for (size_t k = 0; k < size; k++)
            must(buffer[k] == 0xa5, "uninitialised memory has its pattern");
        memset(buffer, 1, size);
        struct rdmad_sqe a = start(RDMAD_OP_WRITE, buffer, size, i);
        struct rdmad_sqe b = start(RDMAD_OP_WRITE, buffer, size / 2, i);
        complete(&a);
        complete(&b);
        memset(buffer, 2, size); /* nested holds have ended */
        a = start(RDMAD_OP_READ, buffer, size, i);
        complete(&a);
        must(size == 0 || buffer[size - 1] == 2, "contents stay");
        rdmad_free(pool, buffer);
    }
    end();
}

Test(guard, a_program_without_mistakes_notices_nothing) {
    child_lives(use_it_as_one_should, NULL);
}

static void touch_beside_the_ops_range(void) {
    set_up("1");
    volatile char *buffer = rdmad_alloc(pool, 4096);
    struct rdmad_sqe sqe = start(RDMAD_OP_READ, (char *)buffer, 64, 1);
    buffer[64] = 5;
    buffer[4095] = buffer[64];
    complete(&sqe);
    must(buffer[4095] == 5, "written");
    start(RDMAD_OP_READ, (char *)buffer + 1024, 64, 2);
    fprintf(stderr, "so far; ");
    buffer[1030] = 1;
}

Test(guard, an_access_beside_an_ops_range_goes_on_and_one_inside_is_caught) {
    child_aborts(touch_beside_the_ops_range, "so far; rdmad guard: ");
}

static void ops_on_one_buffer_nest(void) {
    set_up("1");
    volatile char *buffer = rdmad_alloc(pool, 64);
    struct rdmad_sqe a = start(RDMAD_OP_WRITE, (char *)buffer, 64, 1);
    start(RDMAD_OP_WRITE, (char *)buffer, 64, 2);
    complete(&a);
    buffer[0] = 1;
}

Test(guard, a_buffer_is_watched_until_its_last_op_has_ended) {
    child_aborts(ops_on_one_buffer_nest, "while op WRITE (user_data 2)");
}

static void not_asked_for(void) {
    set_up("0");
    volatile char *buffer = rdmad_alloc(pool, 64), *other = rdmad_alloc(pool, 64);
    start(RDMAD_OP_WRITE, (char *)buffer, 64, 1);
    buffer[0] = 1;
    must(other - buffer < 4096 && buffer - other < 4096, "buffers share pages");
    end();
}

Test(guard, without_being_asked_for_nothing_is_guarded) {
    child_lives(not_asked_for, NULL);
}

/* ---- other people's faults ----------------------------------------------------------------- */

static sigjmp_buf back;

static void own_handler(int sig) {
    siglongjmp(back, sig);
}

static void fault_elsewhere(void) {
    char *elsewhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    signal(SIGSEGV, own_handler);
    set_up("1");
    if (sigsetjmp(back, 1) == 0) {
        *(volatile char *)elsewhere = 1;
        must(false, "the program's handler was not called");
    }
    end();
}

static void fault_elsewhere_without_a_handler(void) {
    char *elsewhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    signal(SIGSEGV, SIG_DFL);
    set_up("1");
    *(volatile char *)elsewhere = 1;
}

Test(guard, faults_at_other_addresses_go_to_the_handler_that_was_there_before) {
    child_lives(fault_elsewhere, NULL);
    child_dies(fault_elsewhere_without_a_handler, SIGSEGV, NULL);
}

static void fill_the_pool_again_and_again(void) {
    set_up("1");
    for (unsigned round = 0; round < 20; round++) {
        char *buffer[300];
        unsigned n = 0;
        while (n < 300 && (buffer[n] = rdmad_alloc(pool, 64)))
            n++;
        must(n == 256, "each page of the pool is one buffer, also after frees");
        while (n)
            rdmad_free(pool, buffer[--n]);
    }
    char *all = rdmad_alloc(pool, 1 << 20);
    must(all != NULL, "one buffer of the whole pool");
    must(rdmad_alloc(pool, 1) == NULL, "no room");
    must(strstr(rdmad_last_error(s), "whole pages in guard mode") != NULL, "the sentence");
    end();
}

Test(guard, freed_buffers_are_kept_back_only_while_there_is_room) {
    child_lives(fill_the_pool_again_and_again, NULL);
}
