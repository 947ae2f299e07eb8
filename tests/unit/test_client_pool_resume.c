/* SPDX-License-Identifier: MIT */
/* librdmad's pools when one daemon goes and the next comes. */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "tests/unit/away_rig.h"
#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(pool_resume, .init = away_set_up, .fini = rig_tear_down, .timeout = 30);

Test(pool_resume, memory_that_is_taken_in_while_the_daemon_goes_is_taken_in_by_the_next) {
    rdmad_pool *taken;
    int fd = memfd_create("mine", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    cr_assert(fd >= 0 && ftruncate(fd, 1 << 16) == 0);
    away.go_for_pool = true;
    cr_expect_eq(rdmad_pool_import(s, fd, &taken), 0, "%s", rdmad_last_error(s));
    cr_expect_eq(away_count_of(&away.nimports), 2);
    close(fd);
}
