/* SPDX-License-Identifier: MIT */
/* Client memory that vanishes under a transfer ends the op, and the session whose it is. */
#include "tests/unit/op_rig.h"
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (64u * 1024u)
#define LOCAL RIG_HANDLE(5)

static struct rig rig;
static struct rig_client c;
static uint8_t near[BYTES];
static struct fabric_audit audit;
static uint64_t deadline_ns;

static void setup(void) {
    struct plane_settings settings;
    rig_defaults(&settings);
    rig_up(&rig, &settings, 12);
    deadline_ns = sim_now() + 60 * NSEC_PER_SEC;
    rig_client_up(&rig, &c, 64, 128, BYTES);
    rig_lease_local(&c, LOCAL, 901, near, BYTES, RDMAD_RIGHTS_ALL, deadline_ns, &audit);
}

TestSuite(vanish, .init = setup, .timeout = 60);

static void down(void) {
    rig_client_down(&c);
    rig_down(&rig);
}

static struct rdmad_sqe sqe_of(uint8_t opcode, uint64_t lease, uint64_t length) {
    return (struct rdmad_sqe){
        .opcode = opcode, .pool = RIG_HANDLE(0), .lease = lease, .length = length};
}

/* Memory cut off is SIGBUS, as a punched page of a full hugetlb pool is. */
static uint8_t *vanish(int *fd) {
    *fd = memfd_create("vanishing", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(*fd, BYTES), 0);
    uint8_t *base = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    cr_assert(base != MAP_FAILED);
    return base;
}

static void add_pool_to(struct rig_client *client, uint32_t handle, uint8_t *base) {
    struct rig_answer added = {0};
    plane_pool_add(client->session, RIG_HANDLE(handle), base, BYTES, NULL, rig_done, &added);
    cr_assert_eq(rig_await(&rig, &added), 0);
}

Test(vanish, a_pool_that_vanishes_ends_the_op_and_its_session_only) {
    int fd;
    uint8_t *base = vanish(&fd);
    add_pool_to(&c, 9, base);
    cr_assert_eq(ftruncate(fd, 0), 0);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, LOCAL, 64);
    sqe.pool = RIG_HANDLE(9);
    struct rdmad_cqe cqe = rig_do(&c, &sqe);
    cr_assert_eq(cqe.status, RDMAD_E_FAULT);
    rig_settle(&rig);
    cr_assert(rig.violated == 1 && rig.cookie == &c && rig.why.code == RDMAD_E_FAULT);
    down();
    munmap(base, BYTES);
    close(fd);
}

/* In one turn, and each with other pools around it. */
Test(vanish, pools_that_vanish_together_end_each_their_own_session_once) {
    enum { POOLS = 24, OPS = 8 };
    struct rig_client other;
    uint8_t *base[2][POOLS];
    int fd[2][POOLS];
    rig_client_up(&rig, &other, 64, 128, BYTES);
    struct rig_client *const clients[] = {&c, &other};
    for (unsigned i = 0; i < POOLS; i++)
        for (unsigned k = 0; k < 2; k++) {
            base[k][i] = vanish(&fd[k][i]);
            add_pool_to(clients[k], 10 + i, base[k][i]);
        }
    cr_assert_eq(ftruncate(fd[0][POOLS / 2], 0), 0);
    cr_assert_eq(ftruncate(fd[1][POOLS / 3], 0), 0);
    rig_lease_local(&other, LOCAL, 904, near, BYTES, RDMAD_RIGHTS_ALL, deadline_ns, &audit);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, LOCAL, 64);
    struct rdmad_cqe cqe;
    for (unsigned n = 0; n < OPS; n++)
        for (unsigned k = 0; k < 2; k++) {
            sqe.pool = RIG_HANDLE(10u + (k ? POOLS / 3 : POOLS / 2));
            rig_put(clients[k], &sqe);
        }
    rig_settle(&rig);
    cr_assert_eq(rig.violated, 2, "%u", rig.violated);
    cr_assert_eq(rig.faults, 0);
    for (unsigned n = 0; n < OPS; n++)
        for (unsigned k = 0; k < 2; k++)
            cr_assert(rig_take(clients[k], &cqe) && cqe.status == RDMAD_E_FAULT);
    rig_client_down(&other);
    down();
    for (unsigned i = 0; i < POOLS; i++)
        for (unsigned k = 0; k < 2; k++) {
            munmap(base[k][i], BYTES);
            close(fd[k][i]);
        }
}

/* A lease of it may still be there. */
Test(vanish, a_pool_that_was_dropped_is_nobodys) {
    int fd;
    uint8_t *base = vanish(&fd);
    struct rig_answer dropped = {0};
    add_pool_to(&c, 9, base);
    rig_lease_local(&c, RIG_HANDLE(7), 903, base, BYTES, RDMAD_RIGHTS_ALL, deadline_ns, &audit);
    plane_pool_drop(c.session, RIG_HANDLE(9), rig_done, &dropped);
    cr_assert_eq(rig_await(&rig, &dropped), 0);
    cr_assert_eq(ftruncate(fd, 0), 0);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, RIG_HANDLE(7), 64);
    cr_assert_eq(rig_do(&c, &sqe).status, RDMAD_E_FAULT);
    rig_settle(&rig);
    cr_assert_eq(rig.violated, 0);
    cr_assert(rig.faults == 1 && rig.address == base);
    down();
    munmap(base, BYTES);
    close(fd);
}

Test(vanish, memory_of_nobody_here_that_vanishes_is_reported_by_address) {
    int fd;
    uint8_t *base = vanish(&fd);
    rig_lease_local(&c, RIG_HANDLE(7), 903, base, BYTES, RDMAD_RIGHTS_ALL, deadline_ns, &audit);
    cr_assert_eq(ftruncate(fd, 0), 0);
    struct rdmad_sqe sqe = sqe_of(RDMAD_OP_WRITE, RIG_HANDLE(7), 64);
    for (unsigned i = 1; i <= 3; i++) {
        cr_assert_eq(rig_do(&c, &sqe).status, RDMAD_E_FAULT);
        rig_settle(&rig);
        cr_assert_eq(rig.faults, i);
        cr_assert_eq(rig.address, base);
    }
    cr_assert_eq(rig.violated, 0);
    down();
    munmap(base, BYTES);
    close(fd);
}
