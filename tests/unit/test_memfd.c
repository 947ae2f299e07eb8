/* SPDX-License-Identifier: MIT */
/* Sealed memory: its size cannot change, and the daemon's ring cannot be written by a client. */
#include "common/memfd.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

Test(memfd, one_is_empty_and_its_size_is_rounded_up_and_sealed) {
    size_t bytes = 5000;
    int fd = rdmad_memfd_create("test", &bytes, false);
    struct stat st;

    cr_assert_geq(fd, 0);
    cr_assert_eq(bytes, 8192);
    cr_assert_eq(fstat(fd, &st), 0);
    cr_assert_eq(st.st_size, 8192);
    cr_assert_eq(st.st_blocks, 0, "nobody pays for a page yet");
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, 0), -1);
    cr_assert_eq(ftruncate(fd, 1 << 20), -1);
    cr_assert_eq(rdmad_memfd_verify(fd, bytes), 0);
}

Test(memfd, populating_makes_every_page_and_keeps_what_is_there) {
    size_t bytes = 5 * 4096;
    int fd = rdmad_memfd_create("test", &bytes, false);
    char *written = rdmad_memfd_map(fd, bytes, true), *read = rdmad_memfd_map(fd, bytes, false);
    struct stat st;

    written[4096] = 'x';
    cr_assert_eq(rdmad_memfd_populate(written, 2 * 4096, true), 0);
    cr_assert_eq(fstat(fd, &st), 0);
    cr_assert_eq(st.st_blocks * 512, 2 * 4096);
    cr_assert_eq(rdmad_memfd_populate(read, bytes, false), 0, "a mapping to read makes them, too");
    cr_assert_eq(fstat(fd, &st), 0);
    cr_assert_eq(st.st_blocks * 512, 5 * 4096);
    cr_assert_eq(read[4096], 'x');
    munmap(read, bytes);
    cr_assert_eq(rdmad_memfd_populate(read, bytes, false), RDMAD_E_NOMEM, "there is no mapping");
}

Test(memfd, what_cannot_be_a_size_is_refused) {
    size_t zero = 0, most = SIZE_MAX, huge = (size_t)1 << 62;

    cr_assert_eq(rdmad_memfd_create("test", &zero, false), RDMAD_E_SYSTEM);
    cr_assert_eq(rdmad_memfd_create("test", &most, false), RDMAD_E_SYSTEM);
    cr_assert_eq(rdmad_memfd_create("test", &huge, false), RDMAD_E_NOMEM,
                 "and no out-of-memory killer");
}

Test(memfd, a_frozen_memfd_can_be_read_and_no_longer_written) {
    size_t bytes = 4096;
    int fd = rdmad_memfd_create("test", &bytes, false);
    char *mine = rdmad_memfd_map(fd, bytes, true);

    cr_assert_not_null(mine);
    cr_assert_eq(rdmad_memfd_freeze(fd), 0);
    char *theirs = rdmad_memfd_map(fd, bytes, false);
    cr_assert_not_null(theirs);
    mine[7] = 'x';
    cr_assert_eq(theirs[7], 'x');
    cr_assert_null(rdmad_memfd_map(fd, bytes, true));
    cr_assert_eq(mprotect(theirs, bytes, PROT_READ | PROT_WRITE), -1);
    cr_assert_eq(write(fd, "y", 1), -1);
    cr_assert_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    cr_assert_eq(madvise(mine, bytes, MADV_REMOVE), -1);
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1, "seals are sealed");
    cr_assert_eq(rdmad_memfd_verify(fd, bytes), 0);
}

Test(memfd, verify_refuses_everything_that_is_not_a_sealed_memfd_of_that_size) {
    size_t bytes = 4096;
    int good = rdmad_memfd_create("test", &bytes, false);
    int bare = memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char path[] = "/tmp/rdmad-memfd-XXXXXX";
    int file = mkstemp(path);

    unlink(path);
    cr_assert_eq(ftruncate(bare, 4096), 0);
    cr_assert_eq(ftruncate(file, 4096), 0);
    cr_assert_eq(rdmad_memfd_verify(good, 8192), RDMAD_E_FDS);
    cr_assert_eq(rdmad_memfd_verify(bare, 4096), RDMAD_E_FDS);
    cr_assert_eq(fcntl(bare, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    cr_assert_eq(rdmad_memfd_verify(bare, 4096), RDMAD_E_FDS, "it could still grow");
    cr_assert_eq(rdmad_memfd_verify(file, 4096), RDMAD_E_FDS);
    cr_assert_eq(rdmad_memfd_verify(STDERR_FILENO, 4096), RDMAD_E_FDS);
    cr_assert_eq(rdmad_memfd_verify(-1, 4096), RDMAD_E_FDS);
}
