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

static void *destroy(void *rc) {
    *(int *)rc = rdmad_pool_destroy(pool);
    return NULL;
}

/* It has waited for as long as it may, and the daemon that has the pool now hears of it. */
static void impatient_of_pool(uint16_t slow_type) {
    int rc = 1;
    away_without_patience(slow_type, destroy, &rc);
    cr_assert_eq(rc, 0, "%s", rdmad_last_error(s));
    __atomic_store_n(&away.released, true, __ATOMIC_RELEASE);
    away_await(&away.npool_ends, 1);
    cr_expect_eq(away.pool_destroyed, FAKE_POOL);
    away_await_resumed();
}

Test(pool_resume, a_destroy_without_patience_is_told_when_the_pool_is_back) {
    impatient_of_pool(RDMAD_MSG_ATTACH_RESUME); /* so the session is not opened yet */
}

Test(pool_resume, a_destroy_without_patience_is_told_when_the_pool_comes_back) {
    impatient_of_pool(RDMAD_MSG_POOL_RESUME);
}

/* The daemon had no room, or its porter ended while it looked at this pool. */
Test(pool_resume, a_session_that_is_ended_while_it_is_resumed_comes_again_if_time_can_mend_it) {
    static const int mends[] = {RDMAD_E_SYSTEM, RDMAD_E_NOMEM, RDMAD_E_LIMIT,
                                RDMAD_E_BUSY,   RDMAD_E_AGAIN, RDMAD_E_SHUTDOWN};
    for (unsigned i = 0; i < sizeof(mends) / sizeof(*mends); i++) {
        fake_go(&fake);
        away.end_for_pool = mends[i];
        fake_come_back(&fake);
        away_await_resumed();
        cr_expect_eq(away.end_for_pool, 0);
    }
}

Test(pool_resume, a_session_that_is_ended_while_it_is_resumed_is_lost_if_no_time_mends_it) {
    fake_go(&fake);
    away.end_for_pool = RDMAD_E_PERM;
    fake_come_back(&fake);
    struct rdmad_event e = away_next_event();
    cr_expect_eq(e.type, RDMAD_EVENT_SESSION_LOST, "%u: %s", e.type, e.text);
    cr_expect_eq(e.reason, RDMAD_E_PERM, "%d", e.reason);
}
